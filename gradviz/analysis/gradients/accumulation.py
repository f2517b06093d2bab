"""Gradients of several batches that are added up, and never divided by their number.

A program that accumulates on purpose steps under a condition, in the loop in which it calls backward: every fourth
time, say. Or it takes one batch apart, and calls backward for each piece; or its names say what the loop is for:
``for micro_step in range(accumulation_steps)``. Losses of several tasks, each with its own loop or line, are summed
because their sum is meant.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from math import isclose
from statistics import median_low

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.clipping import is_clipping
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.parameters.parameter_histories import GIVES_A_GRADIENT
from gradviz.analysis.parameters.weighted_parameters import number_given
from gradviz.graph.call_log import Call

_MEANS = frozenset({"mean", "nanmean"})
_LOSSES = frozenset({
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "ctc_loss",
    "soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss", "cosine_embedding_loss", "margin_ranking_loss",
    "hinge_embedding_loss",
})  # fmt: skip
"""Losses that are means over the batch, unless they are told otherwise."""
_MIN_STEPS = 2


class Accumulating(Struct, frozen=True):
    """A backward that runs several times for each step."""

    backward: int
    """The last of its calls."""
    step: int
    times: int
    """Calls for one step, as a rule."""
    first: int
    """The first of its calls."""


class RepeatedLine(Struct, frozen=True):
    """A line that calls backward several times for each step."""

    last: int
    """The last of its calls before which everything was noted."""
    first: int
    by_step: dict[int, list[int]]
    """Those for each step."""
    times: int
    """Calls for one step, as a rule."""

    @property
    def first_step(self) -> int:
        return next(iter(self.by_step))

    @property
    def of_first_step(self) -> list[int]:
        return self.by_step[self.first_step]


def undivided_accumulation(case: Case) -> Iterator[Accumulating]:
    """For each line that calls backward."""
    for each in accumulating_lines(case):
        is_divided = _is_changed(case, each.first, each.step) or _is_given_a_part(case.dataflow, each.backward)
        if is_mean(case, each.backward) and not is_divided:
            yield each


def accumulating_lines(case: Case) -> Iterator[Accumulating]:
    """Each line that calls backward several times for each step, for one batch each or for pieces of one."""
    flow = case.dataflow
    for each in repeated_lines(case):
        if sum(flow.log.calls[row].inside is not None for row in each.of_first_step) > 1:
            continue  # a step that asks for the gradient several times
        if not frozenset.intersection(*(case.histories.reached_by[row] for row in each.of_first_step)):
            continue  # networks that are trained side by side: nothing is added up
        step = each.first_step
        is_known = steps_sometimes(case, each.last, step) or are_pieces(flow, each.of_first_step)
        if is_known or (_is_called_accumulation(case, each.last) and _reach_the_same(case, each.of_first_step)):
            yield Accumulating(each.last, step, each.times, each.first)


def repeated_lines(case: Case) -> Iterator[RepeatedLine]:
    """Each line that calls backward several times for each step, for whatever reason."""
    histories, flow = case.histories, case.dataflow
    lines: dict[tuple[Location, ...], list[int]] = defaultdict(list)
    for row in histories.reached_by:
        if flow.is_by_program(flow.log.calls[row]):
            lines[tuple(_frames(flow, row).values())].append(row)
    for last in histories.last_backward_of_each_line:
        # What the lines of the program that run are: a library may call backward at several places for one of them.
        rows = lines.pop(tuple(_frames(flow, last).values()), [])
        by_step: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            step = _step_of(case, row)
            if step is not None:
                if by_step[step] and _is_cleared(case, by_step[step][-1], row):
                    by_step[step].clear()
                by_step[step].append(row)
        times = median_low(map(len, by_step.values())) if by_step else 0
        if len(by_step) >= _MIN_STEPS and times > 1:
            yield RepeatedLine(last, rows[0], by_step, times)


def _is_cleared(case: Case, one: int, other: int) -> bool:
    """Whether the gradients of one backward are cleared before the other, as between the samples of a Fisher matrix."""
    leaves, calls = case.histories.reached_by[one], case.dataflow.log.calls
    zeros = case.dataflow.rows_of_kind("zero_grad")
    between = zeros[bisect_right(zeros, one) : bisect_right(zeros, other)]
    return any(use.tensor in leaves for row in between for use in calls[row].inputs)


def _step_of(case: Case, row: int) -> int | None:
    around, steps = case.dataflow.log.calls[row].inside, case.histories.steps
    if around is not None:
        return around
    following = bisect_right(steps, row)
    return steps[following] if following < len(steps) else None


def steps_sometimes(case: Case, backward: int, step: int) -> bool:
    """Whether a condition decides about the step, in the loop that calls backward each time.

    The line of the step is indented more than that of backward above it; or it is reached each time, and what it calls
    decides, or a ``continue`` above it; or one line calls both, as ``trainer.fit(model)``.
    """
    here, there = (_frames(case.dataflow, row) for row in (backward, step))
    shared = next((frame for frame in here if frame in there), None)
    if shared is None or here[shared].line > there[shared].line:
        return False
    if here[shared].line == there[shared].line:
        return True
    own, other = _indentation(case, here[shared]), _indentation(case, there[shared])
    is_loop = re.search(r"\bfor\b", case.source_line(here[shared]) or "") is not None
    return own is not None and other is not None and (other > own or (other == own and not is_loop))


def _is_called_accumulation(case: Case, backward: int) -> bool:
    """Whether the names in the head of the loop that calls backward, or in the lines that call this loop, speak of
    small batches or of accumulation, and of no tasks."""
    here, *others = _frames(case.dataflow, backward).items()
    loop = _head_of_loop(case, here[1])
    lines = [case.source_line(location) for location in (loop, *(each for _, each in others)) if location is not None]
    names = " ".join([here[0][1], *(_NO_NAMES.sub(" ", each or "") for each in lines)]).lower()
    return loop is not None and ACCUMULATES.search(names) is not None and _OF_TASKS.search(names) is None


def _is_given_a_part(flow: Dataflow, backward: int) -> bool:
    """Whether a backward call begins with less than one: ``loss.backward(gradient=torch.tensor(1 / 4))``."""
    given = (use for use in flow.log.calls[backward].inputs if use.place.startswith("gradient"))
    values = (flow.values_of(use, backward) for use in given)
    return any(each is not None and each.maximum is not None and each.maximum < 1 for each in values)


def _reach_the_same(case: Case, backwards: list[int]) -> bool:
    """Whether each of several backward calls reaches the same trained parameters: losses of several heads, each with
    its own, are summed because their sum is meant."""
    return len({case.histories.reached_by.get(row, frozenset()) & case.histories.trained for row in backwards}) == 1


ACCUMULATES = re.compile(r"micro(?!\w*(scop|phon))|accum")
"""In names, in small letters."""
_OF_TASKS = re.compile(r"task|meta|domain|episode|rollout")
_NO_NAMES = re.compile(r"#.*|\"[^\"]*\"|'[^']*'")


def _head_of_loop(case: Case, location: Location) -> Location | None:
    """The innermost ``for`` or ``while`` above a line that is indented less."""
    least = _indentation(case, location)
    for line in range(location.line - 1, 0, -1):
        above = Location(location.file, line)
        text, own = (case.source_line(above) or "").strip(), _indentation(case, above)
        if own is None or least is None or not text or own >= least:
            continue
        if re.match(r"(async )?def\b", text):
            return None
        if re.match(r"(async )?for\b|while\b", text):
            return above
        least = own
    return None


def _frames(flow: Dataflow, row: int) -> dict[tuple[str, str], Location]:
    """The lines of the program that were running at a call, by file and function, the innermost first."""
    found: dict[tuple[str, str], Location] = {}
    site = flow.line_of(row)
    while site is not None:
        if not site.is_library:
            found.setdefault((site.file, site.function), Location(site.file, site.line))
        site = None if site.caller is None else flow.log.call_sites[site.caller]
    return found


def are_pieces(flow: Dataflow, backwards: list[int]) -> bool:
    """Whether each of these calls is for another piece of one batch, taken along its first axis."""
    pieces = [_pieces(flow, backward) for backward in backwards]
    return len(pieces) > 1 and bool(frozenset.intersection(*pieces))


def _pieces(flow: Dataflow, backward: int) -> frozenset[int]:
    """The data of whose pieces a loss was computed."""
    since, roots = flow.step_before(backward), flow.log.calls[backward].roots[:1]
    calls = [flow.log.calls[row] for root in roots for row in flow.ancestors(root.tensor, backward, since)]
    return frozenset(call.inputs[0].tensor for call in calls if not call.live_inputs and _takes_rows(call))


def _takes_rows(call: Call) -> bool:
    name = plain_name(call.function)
    if name == "getitem":
        return "1.start" in call.scalars or "1.stop" in call.scalars
    return name in _SPLITS and not any(call.scalars.get(place) for place in ("dim", "2"))


_SPLITS = frozenset({"split", "chunk", "tensor_split"})


def _indentation(case: Case, location: Location) -> int | None:
    text = case.source_line(location)
    return None if text is None else len(text) - len(text.lstrip())


def is_mean(case: Case, backward: int) -> bool:
    """Whether the loss is a mean over its batch, or a sum of such means, and is nowhere multiplied by a number."""
    flow = case.dataflow
    waiting, found = [(root.tensor, backward) for root in flow.log.calls[backward].roots[:1]], False
    while waiting:
        tensor, before = waiting.pop()
        row = flow.newest_producer(tensor, before)
        if row is None:
            continue
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name == "add":
            waiting += [(use.tensor, row) for use in call.live_inputs]
        elif name in _LOSSES:
            found |= is_mean_of_batch(call)
        elif name in _MEANS:
            found = True
        else:
            return False
    return found


def is_mean_of_batch(call: Call) -> bool:
    """Whether a call makes one number of a batch, as its mean."""
    name = plain_name(call.function)
    return name in _MEANS or (name in _LOSSES and call.scalars.get("reduction", "mean") == "mean")


class DividedMean(Struct, frozen=True):
    """A mean loss of one batch, and what divides it by the number of batches."""

    row: int
    """The call that makes one number of the batch."""
    divisions: list[int]
    """The first one first."""
    counted_by: int | None = None
    """Of a sum: the tensor with the number of targets, by which it is divided."""


def divided_mean(flow: Dataflow, backward: int, times: int) -> DividedMean | None:
    """The mean loss of a batch for which backward is called; None if it is divided by other numbers than `times`, or if
    it is no mean of one batch. A sum that is divided by the number of its targets, as torch counts it, is a mean."""
    found: list[int] = []
    roots = flow.log.calls[backward].roots
    count: int | None = None
    for row, call in flow.makers(roots[0].tensor, backward, _MAX_CALLS) if roots else ():
        divisor = divisor_of(call)
        if divisor is None and count is None and _is_by_count(flow, call):
            count = call.inputs[1].tensor
            continue
        if divisor is None:
            is_sum = plain_name(call.function) in _LOSSES and call.scalars.get("reduction") == "sum"
            is_found = is_mean_of_batch(call) if count is None else is_sum
            return DividedMean(row, found[::-1], count) if is_found else None
        if isclose(divisor, times):
            found.append(row)
        elif not isclose(divisor, 1):
            return None
    return None


_MAX_CALLS = 8


def _is_by_count(flow: Dataflow, call: Call) -> bool:
    """Whether a call divides by a whole number that torch holds."""
    if plain_name(call.function) != "div" or len(call.inputs) != len(("sum", "count")):
        return False
    facts = flow.log.tensors[call.inputs[1].tensor].facts
    return facts.dtype == "int64" and not facts.shape


def divisor_of(call: Call) -> float | None:
    """The number by which a call divides a tensor; None if it does something else."""
    number = number_given(call, "1", "other") if len(call.inputs) == 1 else None
    return {"div": number, "mul": 1 / number}.get(plain_name(call.function)) if number else None


def _is_changed(case: Case, first: int, step: int) -> bool:
    """Whether the program changes or replaces gradients before the step, and not only clips them: it may divide them
    there."""
    flow = case.dataflow
    between = flow.log.calls[first + 1 : step]
    return any(call.function == GIVES_A_GRADIENT and len(call.inputs) > 1 for call in between) or any(
        case.histories.changes_gradients(row) and not is_clipping(flow, row) for row in range(first + 1, step)
    )
