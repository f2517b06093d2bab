"""Slices of data in the order in which they are stored that meet what another order gives, and such orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE
from gradviz.graph.call_log import Call


def orderings(case: Case, rows: tuple[int, ...]) -> dict[int, int]:
    """By call of randperm(): the call that orders constants by all or a part of it."""
    found: dict[int, int] = {}
    for row in rows:
        drawn = _permutation_of(case, row)
        if drawn is not None:
            found[drawn] = row
    return found


def _permutation_of(case: Case, row: int) -> int | None:
    """The call of randperm() by all or a part of which a call orders constants."""
    call = case.dataflow.log.calls[row]
    name = plain_name(call.function)
    if name not in ("getitem", "index_select") or len(call.inputs) != 2 or call.inputs[0].requires_grad:
        return None
    return _permutation(case, call.inputs[1].tensor, row)


_PARTS = frozenset({"getitem", "split", "chunk", "narrow", "view", "reshape", "to", "unbind"})
_MAX_PARTS = 4


def _permutation(case: Case, tensor: int, row: int) -> int | None:
    """The call of ``randperm()`` that a tensor is, or is a part of."""
    for maker, call in case.dataflow.makers(tensor, row, _MAX_PARTS):
        if plain_name(call.function) == "randperm":
            return maker
        if plain_name(call.function) not in _PARTS:
            return None
    return None


def slices_in_order(case: Case) -> Iterator[tuple[int, int]]:
    """Slices of samples that are combined with what comes from samples in the order of a permutation of all of them.

    Each slice stands with the call that orders the others; one of each line.
    """
    flow = case.dataflow
    shortest = _shortest_permutation(case)
    told: set[int | None] = set()
    tried: Counter[int | None] = Counter()
    for row, call in enumerate(flow.log.calls if shortest else ()):
        if not _combines(call) or not any(use.requires_grad for use in call.outputs) or not flow.has_step_after(row):
            continue
        tried[call.call_site] += 1
        if tried[call.call_site] > _MAX_TRIED:
            continue
        for use, other in zip(call.inputs, reversed(call.inputs), strict=True):
            if use.requires_grad == other.requires_grad:
                continue
            if use.requires_grad:
                made = _slice_above(case, row, use.tensor, other.tensor, shortest)
            else:
                made = _slice(case, use.tensor, row, shortest)
            site = None if made is None else flow.log.calls[made].call_site
            if made is None or site in told:
                continue
            ordering = _ordering_of_as_many(case, other.tensor, row, made)
            if ordering is not None:
                told.add(site)
                yield made, ordering


_COMBINE = LOSSES_BY_SAMPLE | {"mul", "add", "sub", "kl_div"}
_DRAWS = frozenset({"randn", "rand", "randn_like", "rand_like", "normal", "bernoulli", "randint", "uniform"})
_MAX_MAKERS = 6
_MAX_TRIED = 4
"""Calls of one line: what it combines is taken in the same way each time."""
_BOUNDS = ("1.start", "1.stop")
_RESHAPES = frozenset({"squeeze", "unsqueeze", "flatten", "detach", "float"})
_BY_ROW = frozenset({"softmax", "log_softmax", "sigmoid", "exp", "log", "div", "mul"})
"""Of a tensor and numbers, they compute each sample by itself: the probabilities of a teacher from its scores."""


def _shortest_permutation(case: Case) -> int:
    """The least length of a permutation, 0 if there is none: that of a part of the samples is shorter than the data."""
    calls = case.dataflow.log.calls
    drawn = (call.outputs[0].tensor for call in calls if plain_name(call.function) == "randperm" and call.outputs)
    return min((shape_of(case.dataflow, tensor)[0] for tensor in drawn), default=0)


def _combines(call: Call) -> bool:
    return call.kind == "operation" and len(call.inputs) == _BOTH and plain_name(call.function) in _COMBINE


_BOTH = 2


def _slice(case: Case, tensor: int, row: int, shortest: int, belong: frozenset[int] = frozenset()) -> int | None:
    """The call that took a tensor as a slice of samples that nothing had ordered, of as many as a permutation at least.

    Args:
        belong: tensors that belong to samples, though they were drawn at random.
    """
    flow = case.dataflow
    for maker, call in flow.makers(tensor, row, _MAX_MAKERS):
        if plain_name(call.function) == "getitem" and any(type(call.scalars.get(each)) is int for each in _BOUNDS):
            given, shape = call.inputs[0].tensor, shape_of(flow, call.inputs[0].tensor)
            values = flow.values(call.outputs[0].tensor, row)
            if not shape or shape[0] < shortest or (values is not None and values.minimum == values.maximum):
                return None
            above = flow.ancestors(given, maker)
            is_random = any(plain_name(flow.log.calls[each].function) in _DRAWS for each in above[-1:])
            return None if (is_random and given not in belong) or orderings(case, above) else maker
        is_by_row = plain_name(call.function) in _BY_ROW and len(call.inputs) == 1
        if not is_by_row and plain_name(call.function) not in _PARTS | _RESHAPES:
            return None
    return None


def _slice_above(case: Case, row: int, prediction: int, target: int, shortest: int) -> int | None:
    """The call that took such a slice, of which a prediction was computed in this step, if a loss compares it with a
    target and no permutation orders anything above it."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    if plain_name(calls[row].function) not in LOSSES_BY_SAMPLE:
        return None
    above = flow.ancestors(prediction, row, flow.step_before(row))
    belong = frozenset(use.tensor for each in flow.ancestors(target, row) for use in calls[each].inputs)
    picks = [each for each in above if plain_name(calls[each].function) in ("getitem", "index_select")]
    if any(_permutation(case, use.tensor, each) is not None for each in picks for use in calls[each].inputs):
        return None
    taken = [each for each in picks if len(calls[each].inputs) == 1]
    slices = (_slice(case, calls[each].outputs[0].tensor, each + 1, shortest, belong) for each in taken)
    return next((each for each in slices if each is not None), None)


def _ordering_of_as_many(case: Case, tensor: int, row: int, slice_row: int) -> int | None:
    """The call that ordered samples for a result: by a part, as long as the slice, of a permutation of all of them, or
    one by one, as a loader does that shuffles."""
    flow = case.dataflow
    taken = flow.log.calls[slice_row]
    count, size = (shape_of(flow, use.tensor)[0] for use in (taken.inputs[0], taken.outputs[0]))
    above = flow.ancestors(tensor, row, flow.step_before(row))
    by_part = ((each, flow.log.calls[each].inputs[0].tensor) for each in orderings(case, above).values())
    one_by_one = ((each, _loaded_from(flow, each)) for each in above)
    for ordering, base in (*by_part, *one_by_one):
        is_of_as_many = base is not None and shape_of(flow, base)[:1] == (count,)
        made = flow.log.calls[ordering].outputs
        if is_of_as_many and shape_of(flow, made[0].tensor)[:1] == (size,) and size < count:
            return ordering
    return None


def _loaded_from(flow: Dataflow, row: int) -> int | None:
    """The tensor from which a call puts a batch together, if its samples were taken one by one, in no order."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "stack" or len(call.inputs) < _MIN_LOADED:
        return None
    makers = [flow.newest_producer(use.tensor, row) for use in call.inputs]
    picks = [flow.log.calls[each] for each in makers if each is not None]
    numbers = [number for each in picks if type(number := each.scalars.get("1")) is int]
    is_picked = all(plain_name(each.function) == "getitem" and len(each.inputs) == 1 for each in picks)
    is_in_no_order = is_picked and len(numbers) == len(call.inputs) and numbers != sorted(numbers)
    return picks[0].inputs[0].tensor if is_in_no_order else None


_MIN_LOADED = 3
