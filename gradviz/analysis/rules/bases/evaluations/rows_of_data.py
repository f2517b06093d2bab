"""Which rows of stored data were taken for a computation: single samples by their numbers, or parts of one division."""

from __future__ import annotations

from collections.abc import Iterable

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.drawn_rows import picked_row

RowKey = tuple[str, int, int]
"""A sample: the memory of the data and its number there; or a part: the call that divided something, and which."""
_DIVIDE = frozenset({"chunk", "split", "tensor_split", "array_split"})
_JOIN = frozenset({"cat", "concat", "hstack", "vstack"})


def rows_taken(flow: Dataflow, rows: Iterable[int]) -> frozenset[RowKey]:
    """What these calls take of stored data."""
    found = set[RowKey]()
    for row in rows:
        call = flow.log.calls[row]
        if (number := picked_row(call)) is not None:
            found.add(("sample", flow.memory_of(call.inputs[0].tensor), number))
        for use in call.inputs if not call.live_inputs else ():
            found |= _parts(flow, use.tensor, row)
    return frozenset(found)


def _parts(flow: Dataflow, tensor: int, row: int) -> set[RowKey]:
    """The parts of one division that a tensor is, or that are joined in it."""
    made = flow.newest_producer(tensor, row)
    if made is None:
        return set()
    call = flow.log.calls[made]
    name = plain_name(call.function)
    if name in _JOIN:
        return {key for use in call.inputs for key in _part(flow, use.tensor, made)}
    return _part(flow, tensor, row)


def _part(flow: Dataflow, tensor: int, row: int) -> set[RowKey]:
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) not in _DIVIDE:
        return set()
    return {("part", made, index) for index, use in enumerate(call.outputs) if use.tensor == tensor}
