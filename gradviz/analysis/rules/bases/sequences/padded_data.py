"""Batches of sequences of data, no ids, that were filled up to the length of the longest one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_AXES = (2, 3)
"""Those of batches of single numbers at each position, or of several."""
_FEWEST = 2
_EMPTY = frozenset({"zeros", "new_zeros", "zeros_like", "full", "new_full"})
_STOP = "1[1].stop"


class PaddedData(Struct, frozen=True):
    """A batch whose sequences end with padding, from different positions on."""

    row: int
    """The call that padded it, or that filled in the last sequence."""
    tensor: int
    axis: int
    """That of the positions."""
    padded: int
    positions: int
    """Of these, `padded` are padding."""


def padded_batches(flow: Dataflow) -> Iterator[PaddedData]:
    """Those of ``pad_sequence()``, those of sequences that ``pad()`` made equally long, and those that were made of
    zeros, where each sequence was assigned to its row."""
    for row, call in calls_named(flow, ("pad_sequence",)):
        found = _by_function(flow, row, call)
        if found is not None:
            yield found
    for row, call in calls_named(flow, ("stack",)):
        yield from _by_stack(flow, row, call)
    filled: dict[int, list[int]] = defaultdict(list)
    for row, call in calls_named(flow, ("setitem",)):
        is_of_row = type(call.scalars.get("1[0]")) is int and type(call.scalars.get(_STOP)) is int
        if is_of_row and len(call.inputs) > 1:  # One number for all positions codes a level: it is no sequence.
            filled[call.inputs[0].tensor].append(row)
    for tensor, rows in filled.items():
        made = flow.first_producer(tensor, rows[0])
        if made is not None and plain_name(flow.log.calls[made].function) in _EMPTY:
            stops = [flow.log.calls[row].scalars[_STOP] for row in rows]
            lengths = [stop for stop in stops if type(stop) is int]
            yield from _of_lengths(flow, rows[-1], tensor, 1, lengths)


def _by_function(flow: Dataflow, row: int, call: Call) -> PaddedData | None:
    if not call.outputs or call.scalars.get("padding_side", call.scalars.get("3", "right")) != "right":
        return None
    axis = int(call.scalars.get("batch_first", call.scalars.get("1", False)) is True)
    lengths = [shape[0] for use in call.inputs if (shape := shape_of(flow, use.tensor))]
    return next(_of_lengths(flow, row, call.outputs[0].tensor, axis, lengths), None)


def _by_stack(flow: Dataflow, row: int, call: Call) -> Iterator[PaddedData]:
    """Of sequences that were filled up one by one at their ends, along their first axis."""
    if not call.outputs or call.scalars.get("dim", call.scalars.get("1", 0)) != 0 or len(call.inputs) < _FEWEST:
        return
    lengths, tensor = list[int](), call.outputs[0].tensor
    for use in call.inputs:
        made = flow.newest_producer(use.tensor, row)
        pad = None if made is None else flow.log.calls[made]
        given = () if pad is None or plain_name(pad.function) != "pad" else shape_of(flow, pad.inputs[0].tensor)
        if pad is None or not given or given[1:] != shape_of(flow, use.tensor)[1:]:
            return
        if pad.scalars.get(f"1[{2 * len(given) - 2}]", 0) != 0 or pad.scalars.get("mode", "constant") != "constant":
            return  # in front, or with what is there
        lengths.append(given[0])
    yield from _of_lengths(flow, row, tensor, 1, lengths, fills_all=True)


def _of_lengths(
    flow: Dataflow, row: int, tensor: int, axis: int, lengths: list[int], *, fills_all: bool = False
) -> Iterator[PaddedData]:
    """The padding of sequences of these lengths; where all were filled up to a length, none needs to have it."""
    shape = shape_of(flow, tensor)
    is_data = "float" in (flow.log.tensors[tensor].facts.dtype or "") and len(shape) in _AXES
    if is_data and _are_all_rows(shape, axis, lengths, fills_all=fills_all) and len(set(lengths)) >= _FEWEST:
        positions = shape[0] * shape[1]
        yield PaddedData(row, tensor, axis, positions - sum(lengths), positions)


def _are_all_rows(shape: Shape, axis: int, lengths: list[int], *, fills_all: bool) -> bool:
    """Whether there is a length for each sample, and the longest has all positions, unless all were filled up."""
    longest = max(lengths, default=0)
    return len(lengths) == shape[1 - axis] and (longest == shape[axis] or (fills_all and longest < shape[axis]))
