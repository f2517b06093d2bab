"""Where the rows of a batch became the same: the call that put it together from samples."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import TensorUse

_PUT_TOGETHER = frozenset({
    "stack", "cat", "tensor", "as_tensor", "asarray", "vstack", "row_stack", "concat", "concatenate", "from_numpy",
})  # fmt: skip
_MAX_MAKERS = 30


class Origin(Struct, frozen=True):
    """The call that put equal rows together; no row where the tensor came from outside of torch."""

    row: int | None
    is_put_together: bool


def origin_of_equal_rows(flow: Dataflow, before: int, tensor: int) -> Origin:
    """Where the rows of a tensor became the same, as a call received it."""
    for _ in range(_MAX_MAKERS):
        row = flow.newest_producer(tensor, before)
        if row is None:
            return Origin(None, is_put_together=True)
        call = flow.log.calls[row]
        size = shape_of(flow, tensor)[:1]
        given = next((use for use in call.inputs if _is_equal_batch(flow, row, use, size)), None)
        if given is None:
            return Origin(row, plain_name(call.function) in _PUT_TOGETHER)
        tensor, before = given.tensor, row
    return Origin(None, is_put_together=False)


def _is_equal_batch(flow: Dataflow, row: int, use: TensorUse, size: tuple[int, ...]) -> bool:
    values = flow.values_of(use, row)
    is_part = plain_name(flow.log.calls[row].function) == "getitem"
    return values is not None and values.equal_rows and (is_part or shape_of(flow, use.tensor)[:1] == size)
