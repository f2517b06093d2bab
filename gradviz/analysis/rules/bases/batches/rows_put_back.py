"""Rows that were taken in an order, computed row by row, and then taken in the same order once more.

At row ``i``, ``x[order]`` has the sample ``order[i]``. What was computed from it comes back into the order of the
samples with the inverse of the order, ``order.argsort()``, or by writing: ``out[order] = rows``.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.axes import REDUCTIONS, axes_of, axis_of
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.origins import is_one_number
from gradviz.analysis.rules.bases.batches.row_origins import are_same_samples
from gradviz.analysis.rules.bases.batches.sorted_rows import COMBINE, LIKE, PUT_BACK, SEQUENCES, TAKE
from gradviz.graph.call_log import Call, TensorUse


class TakenTwice(Struct, frozen=True):
    """Rows that were taken in one order twice."""

    first: int
    """The call that put them into the order."""
    second: int
    """The call that should have put them back."""
    met: int
    """The call that combines them with values in the order of the samples."""


class RowsInOrder:
    """What becomes of rows that are taken in an order: the result of a sort, or a random permutation."""

    def __init__(self, flow: Dataflow, row: int, until: int) -> None:
        self._flow, self._row, self._until = flow, row, until
        self._order = flow.log.calls[row].outputs[-1].tensor
        self._shape = _shape_of_order(flow, self._order)
        self._whole, self._parts = {self._order}, set[int]()
        """The order, and parts of it: rows that are taken with a part are filled up later."""
        self._once: dict[int, tuple[int, bool]] = {}
        """By tensor: the call that put its rows into the order, and whether something was computed from them."""
        self._twice: dict[int, tuple[int, int]] = {}
        """By tensor: the calls that took its rows in the order."""
        self._sources: dict[int, int] = {}
        """What was put into the order, by which call."""

    def taken_twice(self) -> Iterator[TakenTwice]:
        """The rows that are taken twice, where they meet values in the order of the samples."""
        for row in self._flow.descendants(self._order, self._row, self._until):
            call = self._flow.log.calls[row]
            name = plain_name(call.function)
            if call.inputs and call.outputs and call.kind in ("operation", "custom"):
                yield from self._follow(row, call, name)

    def _follow(self, row: int, call: Call, name: str) -> Iterator[TakenTwice]:
        first = call.inputs[0].tensor
        index = next((use for use in call.inputs[1:] if use.tensor in self._whole | self._parts), None)
        if first in self._whole | self._parts:
            self._note_index(call, name, first)
        elif name in TAKE and index is not None:
            if self._is_along_rows(call, index):
                self._take(row, call, first, is_whole=index.tensor in self._whole)
        elif name in PUT_BACK and index is not None:
            for use in call.outputs:
                self._once.pop(use.tensor, None)
        elif any(use.tensor in self._twice for use in call.inputs):
            yield from self._meet(row, call, name)
        elif any(use.tensor in self._once for use in call.inputs) and self._stays_in_order(row, call, name):
            at = next(self._once[use.tensor] for use in call.inputs if use.tensor in self._once)
            self._once.update((use.tensor, (at[0], at[1] or name not in _VIEW)) for use in call.outputs)

    def _note_index(self, call: Call, name: str, given: int) -> None:
        for use in call.outputs if name in _KEEP_INDEX else ():
            is_whole = shape_of(self._flow, use.tensor)[: len(self._shape)] == self._shape
            (self._whole if is_whole and given in self._whole else self._parts).add(use.tensor)

    def _is_along_rows(self, call: Call, index: TensorUse) -> bool:
        """Whether a call takes from the axis whose samples are in the order."""
        given, rank = shape_of(self._flow, call.inputs[0].tensor), len(self._shape)
        if plain_name(call.function) == "getitem":
            return index.place in (("1", "1[0]") if rank == 1 else ("1[1]",)) and given[:rank] == self._shape
        axis = axis_of(call, len(given)) if call.scalars else 0
        return axis == rank - 1 and given[:rank] == self._shape

    def _take(self, row: int, call: Call, given: int, *, is_whole: bool) -> None:
        result = call.outputs[0].tensor
        before = self._once.get(given)
        if before is None and given not in self._twice:
            self._once[result] = (row, False)
            self._sources[given] = row
        elif before is not None and before[1] and is_whole:
            self._twice[result] = (before[0], row)

    def _stays_in_order(self, row: int, call: Call, name: str) -> bool:
        """Whether the results have the rows of the ordered tensors, in this order."""
        if name in SEQUENCES or name in _JOIN:
            return True
        beside = [use for use in call.inputs if use.tensor not in self._once]
        if name == "setitem":
            return len(call.inputs) == _BOTH and not beside[1:]
        return not self._reorders(call, name) and not any(
            self._has_rows(use, self._shape) and not is_one_number(self._flow.values_of(use, row)) for use in beside
        )

    def _reorders(self, call: Call, name: str) -> bool:
        """Whether the rows of a result are others, or in another order."""
        axes = axes_of(call, len(shape_of(self._flow, call.inputs[0].tensor)))
        is_reduced = name in REDUCTIONS and (not axes or len(self._shape) - 1 in axes)
        return is_reduced or name in _REORDER

    def _meet(self, row: int, call: Call, name: str) -> Iterator[TakenTwice]:
        twice = next(use for use in call.inputs if use.tensor in self._twice)
        rows = shape_of(self._flow, twice.tensor)[:1]
        beside = [use for use in call.inputs if use.tensor not in self._twice and self._has_rows(use, rows)]
        at = self._twice[twice.tensor]
        if name in COMBINE and any(self._is_in_order_of_samples(use, row) for use in beside):
            yield TakenTwice(*at, row)
        elif not beside and not self._reorders(call, name):
            self._twice.update((use.tensor, at) for use in call.outputs)

    def _has_rows(self, use: TensorUse, rows: Shape) -> bool:
        is_parameter = self._flow.log.tensors[use.tensor].role == "parameter"
        return not is_parameter and shape_of(self._flow, use.tensor)[: len(rows)] == rows

    def _is_in_order_of_samples(self, use: TensorUse, row: int) -> bool:
        """Whether a tensor has the same samples as one that was put into the order, in their order before that."""
        if use.tensor in self._once:
            return False
        return any(
            are_same_samples(self._flow, (use, row), (self._flow.log.calls[taken].inputs[0], taken))
            for taken in self._sources.values()
        )


def _shape_of_order(flow: Dataflow, order: int) -> Shape:
    shape = shape_of(flow, order)
    return shape[:1] if shape[1:] == (1,) else shape


_BOTH = 2
_VIEW = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze", "to", "clone", "contiguous", "detach"})
_KEEP_INDEX = _VIEW | {"long", "getitem", "expand", "expand_as", "repeat", "tile", "narrow", "split", "chunk", "cpu"}
_JOIN = frozenset({"cat", "concat", "split", "chunk", "tensor_split"})
_REORDER = frozenset({
    *PUT_BACK, *LIKE, "sort", "argsort", "topk", "roll", "flip", "index_select", "gather", "take", "take_along_dim",
    "searchsorted", "unique", "cdist", "bincount",
})  # fmt: skip
