"""GV691."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, function_of, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE, value_maker
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.unread_assignments import NUMBERS, Unread, unread_assignments, unread_attributes
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import Call


class ComputedAndNotRead(Rule):
    """Training code computes something at every step, and nothing reads it.

    What it finds
    -------------
    A tensor, or a number made of one, that training code assigns to a name in most steps, where no call uses the tensor
    and the function never reads the name. It is a warning if the name is one that belongs in a loss or in a step
    (``dt``, ``mask``, ``weights``, ``valid``, ``done``, ``scale``, ``noise`` and the like), or if these are weights of
    the samples that the loss averages: a number for each, divided by their own mean or sum. Else it is a note. Such
    weights are also told in an attribute of ``self`` that the program never reads.

    Why it matters
    --------------
    A step size that is computed and never multiplied with, or a mask that is made and never applied, leaves the loss
    another one than was meant, and nothing raises.

    Example
    -------
    slope = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(slope.parameters(), lr=0.1)
    times = torch.linspace(0, 1, 6)
    for step in range(4):
        y = torch.randn(8, 2)
        end = y * 0.5
        for i in range(5):
            dt = times[i + 1] - times[i]
            y = y + slope(y)
        loss = (y - end).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    slope = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(slope.parameters(), lr=0.1)
    times = torch.linspace(0, 1, 6)
    for step in range(4):
        y = torch.randn(8, 2)
        end = y * 0.5
        for i in range(5):
            dt = times[i + 1] - times[i]
            y = y + dt * slope(y)
        loss = (y - end).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV691"
    name = "computed_and_not_read"
    severity = "warning"
    yields_to = ("idle_graph", "loaded_and_not_used", "result_discarded", "unused_parameter", "term_without_gradient")

    def check(self, case: Case) -> Iterator[Finding]:
        steps = _steps(case.dataflow)
        lines = _lines_without_use(case.dataflow)
        last = _last_lines(case)
        trees = [tree for _, tree in own_files(case)] if lines else []
        for (file, line), made in lines.items():
            times = {case.dataflow.step_before(row) for row, _ in made}
            source = case.capture.sources.get(file, {})
            if len(times) < max(_MIN_STEPS, _MOST * steps) or not file.endswith(".py") or not source:
                continue
            if max(source) >= last[file] + _CONTEXT:
                continue  # the file may go on
            operations = {operation for _, operation in made}
            is_watched = all(case.dataflow.log.calls[row].grad_mode != "enabled" for row, _ in made)
            are_weights = all(_are_weights(case.dataflow, row) for row, _ in made)
            # Others may look at what an object keeps: its name alone says nothing.
            attributes = unread_attributes(trees, tree_of(source), line) if are_weights else ()
            for unread in (*unread_assignments(source, line), *attributes):
                is_metric = is_watched or bool(_METRIC.search(unread.name))
                belongs = are_weights or bool(_BELONGS.fullmatch(unread.name))
                if unread.operations & operations and (not is_metric or belongs):
                    yield self._finding(unread, file, len(times), belongs=belongs)

    def _finding(self, unread: Unread, file: str, times: int, *, belongs: bool) -> Finding:
        return self.finding(
            f"{unread.name} is computed in {times:,} steps of the training, and nothing ever reads it",
            severity="warning" if belongs else "note",
            symptom="grad_wrong" if belongs else "none",
            why="the loss is the same as if that line were not there",
            fix=f"use {unread.name} where it belongs in the loss, or leave the line out",
            location=Location(file, unread.line),
            evidence={"name": unread.name},
        )


_MIN_STEPS = 2
_MOST = 0.6
_CONTEXT = 10
"""Lines that a capture has behind the last line with a call, unless the file ends before."""
_BELONGS = re.compile(
    r"(\w+_)?(dt|masks?|weights?|valid|keep|dones?|not_done|lengths|pad|scale|alpha|beta|gamma|lam|temperature|adv"
    r"|advantages?|noise|margin)"
)
_METRIC = re.compile(r"acc|correct|pred|metric|norm|error|score|rate|perplexity|ppl|auc|iou|f1", re.IGNORECASE)
"""What is computed to be looked at in a debugger."""


def _lines_without_use(flow: Dataflow) -> dict[tuple[str, int], list[tuple[int, str]]]:
    """By line of the program: calls of which nothing uses the result, with what the line has to call for that."""
    found: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        if call.kind != "operation" or call.inside is not None or not _is_without_use(flow, call, row):
            continue
        if not flow.step_before(row) > 0 or not flow.has_step_after(row):
            continue
        lines = list(callers(flow, row))
        if not lines or lines[0].is_library or flow.log.call_sites[call.call_site or 0].is_library:
            continue
        inner, *around = lines
        found[inner.file, inner.line].append((row, plain_name(call.function)))
        outer = next((line for line in around if function_of(line) != function_of(inner)), None)
        if outer is not None:  # what a helper function returns
            found[outer.file, outer.line].append((row, function_of(inner).rpartition(".")[2]))
    return found


def _are_weights(flow: Dataflow, row: int) -> bool:
    """Whether a call divides one number for each sample by their own mean or sum, where a loss averages the losses of
    as many samples."""
    call = flow.log.calls[row]
    shape = shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
    if plain_name(call.function) != "div" or len(call.inputs) != _BOTH or len(shape) != 1:
        return False
    total = value_maker(flow, call.inputs[1].tensor, row, through=_KEEPS)
    is_own = total is not None and total[1].inputs[:1] and total[1].inputs[0].tensor == call.inputs[0].tensor
    if total is None or not is_own or plain_name(total[1].function) not in ("mean", "sum"):
        return False
    steps = flow.rows_of_kind("step")
    until = steps[bisect_left(steps, row)] if steps and steps[-1] > row else row
    losses = (
        each
        for each in flow.log.calls[flow.step_before(row) : until]
        if plain_name(each.function) in LOSSES_BY_SAMPLE and each.live_inputs
    )
    return any(
        shape_of(flow, each.inputs[0].tensor)[:1] == shape and each.scalars.get("reduction") in ("mean", "sum")
        for each in losses
    )


_BOTH = 2
_KEEPS = frozenset({"clamp", "clamp_min", "clip", "add", "maximum"})


def _is_without_use(flow: Dataflow, call: Call, row: int) -> bool:
    if not call.outputs:
        return plain_name(call.function) in NUMBERS and bool(call.inputs)
    made = {use.tensor for use in call.outputs} - {use.tensor for use in call.inputs}
    return len(made) == len(call.outputs) == 1 and not any(flow.users(tensor, row) for tensor in made)


def _steps(flow: Dataflow) -> int:
    """The steps of the optimizer that steps most often."""
    made = Counter(flow.log.calls[row].optimizer for row in flow.rows_of_kind("step"))
    return max(made.values(), default=0)


def _last_lines(case: Case) -> dict[str, int]:
    last: dict[str, int] = defaultdict(int)
    for site in case.dataflow.log.call_sites:
        last[site.file] = max(last[site.file], site.line)
    return last
