"""Terms of a loss that bring no gradient, though they were computed from what the program trains.

A loss is taken apart where one number is the sum of others. A term without a history is a constant: whatever it says,
no step follows it. The cut on its way is to blame.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.cuts.cut_paths import CutPath
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.cuts import REWRAPS, Cut
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_SUMS = frozenset({"add", "sub"})
_JOINS = frozenset({"stack", "cat", "hstack"})
"""What collects the terms of a loss that are then added up: ``torch.stack(losses).sum()``."""
ADDS_TERMS = _SUMS | _JOINS
_SCALES = frozenset({"mul", "div", "neg"})
_KEEPS_THE_NUMBER = frozenset({"to", "float", "double", "squeeze", "reshape", "view", "clone", "mean", "sum"})
_KEEPS_ITS_SIGN = frozenset({"clamp", "clip", "clamp_max", "clamp_min"})
"""Bounds of the elements of a term: what is added inside of them is a constant as well."""
_MAY_FOLLOW = _SCALES | _KEEPS_THE_NUMBER | {"requires_grad", "detach"}
_MAX_TERMS = 200
_ON_PURPOSE = frozenset({"detach", "data", "no_grad", "inference"})
_STATE = frozenset({"buffer", "in_place"})
"""Kinds of cuts that update a state: that carries no history on purpose."""


class DeadTerm(Struct, frozen=True):
    """One term of a loss."""

    tensor: int
    cut: Cut
    sum: int
    """The call that adds it to the loss."""
    backward: int
    parameters: tuple[int, ...]
    """Trained tensors that it was computed from, above the cut."""


class DataTerm(Struct, frozen=True):
    """One term of a loss that was computed from data alone, and has a weight."""

    tensor: int
    made: int
    """The call that gives it its weight."""
    steps: int


def data_terms(histories: ParameterHistories) -> Iterator[DataTerm]:
    """Those of the backward calls of each line that ran at least twice, if their values differ from step to step.

    Without a weight such a term may be the constant part of a divergence or a likelihood: nobody weighs that.
    """
    flow, log = histories.flow, histories.log
    terms: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for backward in histories.reached_by:
        since = flow.step_before(backward)
        for use in log.calls[backward].roots:
            for row, term, _ in constant_terms(flow, backward, use.tensor):
                made = flow.newest_producer(term, row)
                if made is not None and made > since and _weighs_data(histories, term, made, since):
                    terms[log.calls[made].call_site].append((term, made))
    for found in terms.values():
        values = {flow.values(term, made + 1) for term, made in found}
        if len(found) > 1 and None not in values and len(values) == len(found):
            yield DataTerm(*found[-1], len(found))


def _weighs_data(histories: ParameterHistories, term: int, made: int, since: int) -> bool:
    """Whether a number is multiplied by another number, and was computed in this step without any parameter."""
    flow, call = histories.flow, histories.log.calls[made]
    if plain_name(call.function) not in _SCALES - {"neg"} or len(call.inputs) != 1 or not call.scalars:
        return False
    rows = flow.ancestors(term, made + 1, since)
    calls = [histories.log.calls[each] for each in rows]
    if len(calls) < _MIN_CALLS or not all(_is_number(flow, use) for use in (*call.inputs, *call.outputs)):
        return False
    uses = [use for each in calls for use in each.inputs]
    if any(_comes_from_unseen(flow, use.tensor, made) for use in uses):
        return False
    return not any(use.requires_grad or histories.tensor(use.tensor).role != "tensor" for use in uses)


def _comes_from_unseen(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether no call made a tensor, but one made its memory: ``torch.func`` gives on results as other tensors."""
    seen, first = flow.log.tensors[tensor].first_seen, flow.sharing_memory(tensor)[0]
    return seen is not None and first != tensor and not flow.is_made(tensor, before) and flow.is_made(first, seen)


_MIN_CALLS = 3
"""A weight, a reduction, and what is reduced."""


def dead_terms(histories: ParameterHistories) -> Iterator[DeadTerm]:
    """Those of the last backward call of each line."""
    for backward in histories.last_backward_of_each_line:
        for use in histories.log.calls[backward].roots:
            if use.has_grad_fn:
                yield from _dead_terms_of(histories, backward, use.tensor)


def _dead_terms_of(histories: ParameterHistories, backward: int, root: int) -> Iterator[DeadTerm]:
    flow = histories.flow
    live = {
        use.tensor
        for row in sum_rows(flow, backward, root)
        for use in histories.log.calls[row].inputs
        if use.has_grad_fn
    }
    for row, term, exit_row in constant_terms(flow, backward, root):
        lines = _cuts_above(flow, term, row, exit_row)
        if not lines or _has_frozen_parameters(histories, term, row, flow.step_before(backward)):
            continue
        for cuts in lines:
            if _is_constant_of_a_density(flow, row, cuts) or _is_bound_of_a_density(flow, term, row, cuts[0]):
                break
            if _is_a_setting_of_the_loss(flow, cuts[0], backward) or _is_of_a_freed_graph(flow, cuts[0]):
                break
            if cuts[0].kind in _ON_PURPOSE and _is_target_of_data(flow, term, row, cuts):
                break
            trained = _trained_above(histories, cuts)
            if trained and not _only_shifts_the_value(flow, cuts[0], live):
                yield DeadTerm(term, cuts[0], row, backward, trained)
            if trained:
                break


def _is_target_of_data(flow: Dataflow, term: int, row: int, cuts: list[Cut]) -> bool:
    """Whether a term compares what was cut with what was not, and is a constant, too: a target is one on purpose, and
    what is compared with it should have been computed by the model."""
    since, cutting = flow.step_before(row), {cut.call for cut in cuts}
    for made, call in flow.makers(term, row, _MAX_TERMS):
        name = plain_name(call.function)
        if len(call.inputs) == _BOTH and made > since and (name == "sub" or name.endswith("_loss")):
            are_cut = [not cutting.isdisjoint(flow.ancestors(use.tensor, made, since)) for use in call.inputs]
            return are_cut.count(True) == 1
    return False


_BOTH = 2


def _trained_above(histories: ParameterHistories, cuts: list[Cut]) -> tuple[int, ...]:
    """The trained tensors from which the inputs of some cuts were computed."""
    found = set[int]()
    for cut in cuts:
        found |= histories.live_leaves(cut.live_inputs, cut.call)[0].union(cut.live_inputs)
    return tuple(sorted(found & histories.learned))


def _only_shifts_the_value(flow: Dataflow, cut: Cut, live: set[int]) -> bool:
    """Whether it was made from a live term of the same sum: ``proxy + (loss - proxy).detach()`` has the gradient of the
    one and the value of the other."""
    rows = [row for tensor in cut.live_inputs if (row := flow.newest_producer(tensor, cut.call)) is not None]
    makers = [call for row in rows if plain_name((call := flow.log.calls[row]).function) == "sub"]
    return not live.isdisjoint({*cut.live_inputs, *(use.tensor for call in makers for use in call.inputs)})


def _is_constant_of_a_density(flow: Dataflow, row: int, cuts: list[Cut]) -> bool:
    """Whether what a sum of elements adds without a history was cut on purpose along with what the live side of the
    sum was computed with: the log-density of a live sample, whose mean and scale are constants."""
    call = flow.log.calls[row]
    if cuts[0].kind not in _ON_PURPOSE or all(_is_number(flow, use) for use in call.inputs):
        return False
    dead = {tensor for cut in cuts for tensor in cut.dead_outputs}
    above = (each for use in call.live_inputs for each in flow.ancestors(use.tensor, row, cuts[0].call))
    return any(use.tensor in dead for each in above for use in flow.log.calls[each].inputs)


def _is_bound_of_a_density(flow: Dataflow, term: int, row: int, cut: Cut) -> bool:
    """Whether the term has the logarithm of comparisons in it, 0 inside of some bounds and minus infinity outside: the
    log-density of a uniform distribution is the same at all samples."""
    calls = ((each, flow.log.calls[each]) for each in flow.ancestors(term, row, cut.call))
    logs = (flow.values_of(call.inputs[0], each) for each, call in calls if plain_name(call.function) == "log")
    return any(values is not None and {values.minimum, values.maximum} <= {0.0, 1.0} for values in logs)


def _is_a_setting_of_the_loss(flow: Dataflow, cut: Cut, backward: int) -> bool:
    """Whether a number that was cut on purpose is also computed with where gradients flow, for each element: a radius
    or a threshold, of which the loss has a term as well."""
    cuts = [tensor for tensor in cut.dead_outputs if cut.kind in _ON_PURPOSE]
    below = {row for tensor in cuts for row in flow.descendants(tensor, cut.call, backward)}
    calls = [flow.log.calls[row] for row in below if flow.log.calls[row].live_inputs]
    return any(
        not use.requires_grad and _is_number(flow, use) and not all(_is_number(flow, each) for each in call.inputs)
        for call in calls
        for use in call.inputs
    )


def _is_of_a_freed_graph(flow: Dataflow, cut: Cut) -> bool:
    """Whether what was cut was computed from results of an earlier step, through which its backward went: with its
    history, the backward of this step would fail."""
    step = flow.step_before(cut.call)
    above = (row for tensor in cut.live_inputs for row in flow.ancestors(tensor, cut.call, step))
    uses = {use.tensor for row in (cut.call, *above) for use in flow.log.calls[row].inputs if use.has_grad_fn}
    for tensor in uses:
        made = flow.newest_producer(tensor, cut.call)
        below = flow.descendants(tensor, made, step, live=True) if made is not None and made < step else ()
        if any(flow.log.calls[row].kind == "backward" for row in below):
            return True
    return False


def _has_frozen_parameters(histories: ParameterHistories, term: int, row: int, since: int) -> bool:
    """Whether it was computed with trained parameters that were frozen by then: without a cut it is a constant, too.

    A model whose training has ended, as that of a teacher, is none of these.
    """
    calls = (histories.log.calls[each] for each in histories.flow.ancestors(term, row, since))
    uses = (use for call in calls for use in call.inputs)
    frozen = {use.tensor for use in uses if use.tensor in histories.trained and not use.requires_grad}
    return any(histories.is_stepped_after(tensor, row) for tensor in frozen)


def _cuts_above(flow: Dataflow, term: int, row: int, exit_row: int | None) -> list[list[Cut]]:
    """The newest cut in the same step through which a term came, and the others of its line; then those of other lines
    that nobody writes on purpose.

    From each element of a loss, programs subtract constants on purpose: a baseline, the log-probability of an older
    policy. A number that tells which elements of other data are taken is nothing that the term is computed from.
    """
    if exit_row is not None:
        entries = [each for each in flow.reentries.get(row, ()) if each.exit == exit_row]
        found = [cut for cut in flow.cuts if cut.call == exit_row]
        return [found] if found and not all(each.is_index for each in entries) else []
    call = flow.log.calls[row]
    is_of_elements = not all(_is_number(flow, use) for use in call.inputs)
    left_out = _STATE | _ON_PURPOSE if is_of_elements and plain_name(call.function) == "sub" else _STATE
    above = flow.cuts_reaching(term, row, flow.step_before(row), by_index=False)
    cuts = [cut for cut in above if cut.kind not in left_out]
    lines: dict[int | None, list[Cut]] = {}
    for cut in cuts:
        if cut.kind not in _ON_PURPOSE or cut.call_site == cuts[0].call_site:
            lines.setdefault(cut.call_site, []).append(cut)
    return list(lines.values())


def constant_terms(flow: Dataflow, backward: int, root: int) -> Iterator[tuple[int, int, int | None]]:
    """Terms without a history: the sum, the term, and the call where it left torch, if it is a Python number."""
    for row in sum_rows(flow, backward, root):
        call = flow.log.calls[row]
        if plain_name(call.function) in ADDS_TERMS:
            yield from ((row, use.tensor, None) for use in call.inputs if not use.requires_grad)
            if all(_is_number(flow, use) for use in call.inputs):
                yield from _numbers_added(flow, row, call)


def sum_rows(flow: Dataflow, backward: int, root: int) -> Iterator[int]:
    """The calls that add up and scale the terms of a loss, and the elements of terms that are reduced to one number."""
    waiting, seen = [(root, backward)], set[int]()
    while waiting and len(seen) < _MAX_TERMS:
        tensor, before = waiting.pop()
        row = flow.newest_producer(tensor, before)
        if row is None or row in seen:
            continue
        seen.add(row)
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if call.kind != "operation":
            continue
        live = [(use.tensor, row) for use in call.inputs if use.has_grad_fn]
        is_number = all(_is_number(flow, use) for use in call.inputs)
        if name in _SUMS or (name in _JOINS and is_number):
            waiting += live
            yield row
        elif name in _KEEPS_THE_NUMBER or (name in _SCALES and (is_number or len(call.live_inputs) == 1)):
            waiting += live[:1]
            yield row
        elif name in _KEEPS_ITS_SIGN and not is_number:
            waiting += live[:1]


def live_terms(flow: Dataflow, backward: int, root: int) -> list[tuple[int, int]]:
    """The numbers that a loss is the sum of, each with the call that adds it; the loss itself if it is no sum."""
    rows = list(sum_rows(flow, backward, root))
    numbers = [row for row in rows if all(_is_number(flow, use) for use in flow.log.calls[row].inputs)]
    sums = [row for row in numbers if plain_name(flow.log.calls[row].function) in ADDS_TERMS]
    made = {use.tensor for row in numbers for use in flow.log.calls[row].outputs}
    ends = [(use.tensor, row) for row in numbers for use in flow.log.calls[row].live_inputs if use.tensor not in made]
    return ends if sums else [(root, backward)]


def _numbers_added(flow: Dataflow, row: int, call: Call) -> Iterator[tuple[int, int, int | None]]:
    """Python numbers that had left torch on the same line, or in this step, perhaps to be computed with."""
    for entry in flow.reentries.get(row, ()) if len(call.inputs) < 2 else ():
        if entry.certainty in ("value", "number") or flow.line_of(entry.exit) == flow.line_of(row):
            yield row, entry.tensor, entry.exit


def ends_a_term(flow: Dataflow, cut_path: CutPath) -> bool:
    """Whether a cut takes the history of a whole loss, or of a whole term of one: nobody wants a constant there.

    What follows it is one number, which is only added up and scaled.
    """
    calls = flow.log.calls
    cut, *path = (calls[row] for row in cut_path.calls)
    return all(_is_number(flow, use) for use in (*cut.inputs, *cut.outputs)) and all(
        plain_name(call.function) in _SUMS
        or (
            (plain_name(call.function) in _MAY_FOLLOW or call.function in REWRAPS)
            and not any(use.has_grad_fn for use in call.inputs)
        )
        for call in path
        if call.outputs
    )


def _is_number(flow: Dataflow, use: TensorUse) -> bool:
    return all(size == 1 for size in flow.log.tensors[use.tensor].facts.shape)
