"""Look-ups of tokens that a loss of classes asks for again, and models that only have to copy them."""

from __future__ import annotations

from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_CELLS, RECURRENT_LAYERS
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sequences.shifted_tokens import part_of
from gradviz.graph.call_log import Call

_LOOKS_UP = frozenset({"embedding", "one_hot"})
_CAUSAL = frozenset({"tril", "triu"}) | RECURRENT_LAYERS
_ATTEND = frozenset({
    "matmul", "bmm", "baddbmm", "einsum", "scaled_dot_product_attention", "multi_head_attention_forward",
})  # fmt: skip
"""They get first what asks: queries, or the weights that were computed of them."""
_MAX_FOLLOWED = 5_000
_SHAPES = frozenset({
    "view", "reshape", "flatten", "contiguous", "to", "long", "t", "transpose", "permute", "unsqueeze", "squeeze",
})  # fmt: skip


def checksum_of_target(call: Call) -> int | None:
    """What was noted of the values of the targets of a loss."""
    return call.checksums.get(call.inputs[1].place)


def lookups_of_the_target(case: Case, row: int) -> list[int]:
    """The look-ups of sequences above a prediction that look up the targets themselves."""
    flow, found = case.dataflow, list[int]()
    call = flow.log.calls[row]
    count = prod(shape_of(flow, call.inputs[1].tensor))
    for each in flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row)):
        lookup = flow.log.calls[each]
        if plain_name(lookup.function) not in _LOOKS_UP or not lookup.inputs:
            continue
        shape = shape_of(flow, lookup.inputs[0].tensor)
        if len([size for size in shape if size > 1]) < 1 or len(shape) < _SEQUENCES or prod(shape) != count:
            continue
        if lookup.checksums.get(lookup.inputs[0].place) == checksum_of_target(call):
            found.append(each)
    return found


def single_lookups(case: Case, rows: list[int]) -> list[int]:
    """For losses of one position after the other: the look-up of the token that was asked for, if it is always the last
    token that the model got before; empty otherwise."""
    flow, found = case.dataflow, list[int]()
    steps = {flow.step_before(row) for row in rows}
    if len(rows) < _POSITIONS * len(steps):
        return []
    for row in rows:
        call = flow.log.calls[row]
        above = flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row))
        last = next((each for each in reversed(above) if plain_name(flow.log.calls[each].function) in _LOOKS_UP), None)
        lookup = None if last is None else flow.log.calls[last]
        if last is None or lookup is None or not lookup.inputs:
            return []
        counts = (prod(shape_of(flow, use.tensor)) for use in (lookup.inputs[0], call.inputs[1]))
        if len({*counts}) > 1 or lookup.checksums.get(lookup.inputs[0].place) != checksum_of_target(call):
            return []
        found.append(last)
    are_alike = len({checksum_of_target(flow.log.calls[row]) for row in rows}) < _POSITIONS
    above = flow.ancestors(flow.log.calls[rows[-1]].inputs[0].tensor, rows[-1], flow.step_before(rows[-1]))
    is_recurrent = any(plain_name(flow.log.calls[each].function) in _ONE_BY_ONE for each in above)
    return found if is_recurrent and not are_alike else []


def line_that_chose(case: Case, lookup: int) -> Location | None:
    """The line that took the tokens of one position, or that looked them up."""
    flow = case.dataflow
    tensor, before = flow.log.calls[lookup].inputs[0].tensor, lookup
    for _ in range(_MAX_SHAPES):
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in _SHAPES | _PICKS or not call.inputs:
            break
        if plain_name(call.function) in _PICKS:
            return location_of_call(flow, made)
        tensor, before = call.inputs[0].tensor, made
    return location_of_call(flow, lookup)


_POSITIONS = 2
_PICKS = frozenset({"getitem", "select", "unbind", "narrow", "chunk", "split"})
_ONE_BY_ONE = RECURRENT_LAYERS | RECURRENT_CELLS


def lookup_of_earlier_target(case: Case, row: int) -> int | None:
    """The look-up of the tokens whose scores are compared with tokens at earlier positions, in a causal model."""
    flow = case.dataflow
    call = flow.log.calls[row]
    scores, target = (part_of(flow, use.tensor, row) for use in call.inputs[:2])
    if scores.start < 0 or not target.moves or not _is_causal(case, call.inputs[0].tensor, row):
        return None
    if _is_delayed(flow, call.inputs[1].tensor, row):
        return None
    whole = scores.source[0]
    lengths = shape_of(flow, whole) if type(whole) is int else ()
    for each in flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row)):
        lookup = flow.log.calls[each]
        # A prefix, as of a picture, makes the scores longer than the tokens: then it is cut off in front.
        if plain_name(lookup.function) in _LOOKS_UP and set(shape_of(flow, lookup.inputs[0].tensor)) <= set(lengths):
            read = part_of(flow, lookup.inputs[0].tensor, each)
            if read.source == target.source and target.start < read.start + scores.start:
                return each
    return None


def _is_delayed(flow: Dataflow, target: int, row: int) -> bool:
    """Whether targets are rolled by several positions: to repeat what came so many before is a task of its own."""
    makers = (call for _, call in flow.makers(target, row, _MAX_SHAPES))
    shifts = (
        call.scalars.get("1", call.scalars.get("shifts")) for call in makers if plain_name(call.function) == "roll"
    )
    return any(type(shift) is int and abs(shift) > 1 for shift in shifts)


_SEQUENCES = 2
"""Axes of a batch of sequences."""


def only_copies(case: Case, row: int, lookup: int) -> bool:
    """Whether the model goes one way through the sequence, and each position has a path to the result of its own."""
    flow = case.dataflow
    call, index = flow.log.calls[row], flow.log.calls[lookup].inputs[0].tensor
    sizes = shape_of(flow, index)[:_SEQUENCES]
    if sizes[1] < _SEQUENCES or not _is_causal(case, call.inputs[0].tensor, row):
        return False
    waiting, seen = [(call.inputs[0].tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, before = waiting.pop()
        made = flow.producers(tensor, before)
        if not made or made[-1] in seen or not _has_both(shape_of(flow, tensor), *sizes):
            continue
        if made[-1] == lookup:
            return True
        seen.add(made[-1])
        maker = flow.log.calls[made[-1]]
        place = next((use.place for use in maker.outputs if use.tensor == tensor), "return")
        if plain_name(maker.function) in RECURRENT_LAYERS and place not in ("return", "return[0]"):
            continue  # the last state of the sequence
        # What attention reads from other positions, such as a source of the same tokens, is copied from nowhere.
        given = maker.inputs[:1] if plain_name(maker.function) in _ATTEND else maker.inputs
        waiting += [(use.tensor, made[-1]) for use in given]
    return False


def _has_both(shape: tuple[int, ...], batch: int, length: int) -> bool:
    """Whether a shape has an axis for the batch and one for the positions, or one for both."""
    if batch * length in shape:
        return True
    rest = list(shape)
    for size in (batch, length):
        if size not in rest:
            return False
        rest.remove(size)
    return True


def _is_causal(case: Case, tensor: int, row: int) -> bool:
    flow = case.dataflow
    calls = (flow.log.calls[each] for each in flow.ancestors(tensor, row))
    return any(plain_name(call.function) in _CAUSAL or call.scalars.get("is_causal") is True for call in calls)


def line_where_made(case: Case, tensor: int, row: int, lookup: int) -> Location | None:
    """The line that made the targets, above what only changes their shape; None if they are the inputs themselves."""
    flow = case.dataflow
    inputs = flow.log.calls[lookup].inputs[0].tensor
    same = {inputs, *(use.tensor for each in flow.ancestors(inputs, lookup) for use in flow.log.calls[each].outputs)}
    for _ in range(_MAX_SHAPES):
        made = flow.producers(tensor, row)
        if not made or tensor in same:
            return None
        row = made[-1]
        call = flow.log.calls[row]
        if plain_name(call.function) not in _SHAPES or not call.inputs:
            return location_of_call(flow, row)
        tensor = call.inputs[0].tensor
    return None


_MAX_SHAPES = 8
