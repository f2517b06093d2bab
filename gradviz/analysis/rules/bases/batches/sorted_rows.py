"""Values of samples that a sort has put into another order, and those of the same samples that still are in theirs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.axes import REDUCTIONS, axes_of, axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.batches.row_origins import Origin, are_of_one_tensor, origin_of_rows
from gradviz.graph.call_log import Call, TensorUse


class CombinedApart(Struct, frozen=True):
    """A call that combines values in the order of a sort with values of the same samples that are not."""

    call: int
    """The call that combines them."""
    taken: int
    """The call that put the first ones into the order."""
    other: int
    """The tensor in the order of the batch."""
    are_features: bool = False
    """Whether the call only puts them side by side, as features of the same elements."""
    are_packed: bool = False
    """Whether the values in the order are results of sequences that were packed in it."""


class SortedRows:
    """What becomes of values that one call sorts, or that are taken in the order of its result."""

    def __init__(self, flow: Dataflow, row: int, until: int) -> None:
        call = flow.log.calls[row]
        self.flow, self.row, self.until = flow, row, until
        self._key = call.inputs[0]
        self._shape = shape_of(flow, self._key.tensor)
        rank = len(self._shape)
        axis = axis_of(call, rank, "2" if plain_name(call.function) == "topk" else "1")
        self._axis = rank - 1 if axis is None else axis
        self._index = {use.tensor for use in call.outputs[-1:]}
        self._ordered = {use.tensor: row for use in call.outputs[:-1]}
        self._columns: dict[int, int] = {}
        """Ordered values as columns of a table of features: by tensor, the call that put them into the order."""
        self._summed = set[int]()
        """Those of the ordered tensors that a cumulative sum went into."""
        self._packed = set[int]()
        """Those of the ordered tensors that sequences which were packed in the order went into."""
        self.has_trained = False
        """Whether anything that depends on parameters is in the order of the sort."""

    @property
    def is_of_samples(self) -> bool:
        """Whether all samples are sorted, or all elements of each row of a table."""
        is_row = all(size == 1 for size in self._shape[1:]) and self._axis == 0
        is_table = len(self._shape) == _TABLE and self._axis == 1
        outputs = self.flow.log.calls[self.row].outputs
        is_whole = bool(outputs) and shape_of(self.flow, outputs[-1].tensor) == self._shape
        return is_whole and (is_row or is_table) and self._shape[self._axis] >= _MIN_SAMPLES

    def apart(self) -> Iterator[CombinedApart]:
        """The calls that combine them with values in the order of the batch."""
        starts = [*self._index, *self._ordered]
        below = {row for each in starts for row in self.flow.descendants(each, self.row, self.until)}
        touched = set(starts)
        for row in sorted(below):
            call = self.flow.log.calls[row]
            yield from self._met(row, call, touched)
            touched.update(use.tensor for use in call.outputs)

    def _met(self, row: int, call: Call, touched: set[int]) -> Iterator[CombinedApart]:
        name = plain_name(call.function)
        first = call.inputs[0].tensor
        if name in _KEEP_INDEX and first in self._index:
            self._index.update(use.tensor for use in call.outputs)
        elif name in TAKE and len(call.inputs) > 1 and call.inputs[1].tensor in self._index:
            if first not in touched:
                self._order(call, row, is_summed=False)
        elif name in PUT_BACK and any(use.tensor in self._index for use in call.inputs[1:]):
            for use in call.outputs:
                self._ordered.pop(use.tensor, None)
        elif name in _SIDE_BY_SIDE and self._axis:
            yield from self._beside_features(row, call, touched)
        elif any(use.tensor in self._ordered for use in call.inputs):
            yield from self._used(row, call, name, touched)
            self._note_columns(call)

    def _note_columns(self, call: Call) -> None:
        """Note ordered values that got a further axis behind: ``values.unsqueeze(2)``."""
        given = self._ordered.get(call.inputs[0].tensor)
        for use in call.outputs if given is not None and len(call.inputs) == 1 else ():
            if shape_of(self.flow, use.tensor) == (*self._shape, 1):
                self._columns[use.tensor] = given or 0

    def _beside_features(self, row: int, call: Call, touched: set[int]) -> Iterator[CombinedApart]:
        """Features of the elements of a row that are put side by side, of which some were sorted and others were not.

        The sorted key beside the key itself are two features; and a mask made of lengths fits any order.
        """
        place = self._columns | self._ordered
        taken = [place[use.tensor] for use in call.inputs if use.tensor in place and use.tensor not in self._summed]
        end = len(self._shape)
        if not taken or not call.outputs or axis_of(call, end + 1) != end:
            return
        for use in call.inputs:
            if use.tensor not in touched and shape_of(self.flow, use.tensor)[:end] == self._shape:
                user = self._first_trained(row, call)
                if user is not None and self._is_of_same_elements(use, row):
                    yield CombinedApart(user, taken[-1], use.tensor, are_features=True)

    def _first_trained(self, row: int, call: Call) -> int | None:
        if call.outputs[0].requires_grad:
            return row
        users = self.flow.users(call.outputs[0].tensor, row)
        return next((user for user in users if self.flow.log.calls[user].live_inputs), None)

    def _is_of_same_elements(self, use: TensorUse, row: int) -> bool:
        key, mine = origin_of_rows(self.flow, self._key, self.row), origin_of_rows(self.flow, use, row)
        if key is None or mine is None or (key.kind, key.rows) != (mine.kind, mine.rows):
            return False
        if key.row == mine.row or mine.kind == "drawn":
            return False
        chosen = self.flow.log.calls[mine.row].outputs
        return bool(chosen) and shape_of(self.flow, chosen[0].tensor)[: len(self._shape)] == self._shape

    def _used(self, row: int, call: Call, name: str, touched: set[int]) -> Iterator[CombinedApart]:
        ordered = [use for use in call.inputs if use.tensor in self._ordered]
        others = [use for use in call.inputs if use.tensor not in self._ordered and self._is_beside(use, ordered, name)]
        if any(use.tensor in touched for use in others) or not self._keeps_rows(call, name):
            return
        is_summed = name in _CUMULATIVE or any(use.tensor in self._summed for use in ordered)
        is_trained = any(use.requires_grad for use in call.outputs)
        for other in others:
            if not is_trained:
                return  # data are combined with data in another order: that may be a pairing
            is_joined = is_combined(call, name) or name in _SIDE_BY_SIDE
            if is_joined and any(use.requires_grad for use in ordered):
                if self._is_in_order_of_batch(other, row, is_summed=is_summed):
                    are_packed = any(use.tensor in self._packed for use in ordered)
                    taken = self._ordered[ordered[0].tensor]
                    yield CombinedApart(row, taken, other.tensor, are_packed=are_packed)
                return
        self._order(call, self._ordered[ordered[0].tensor], is_summed=is_summed)

    def _order(self, call: Call, taken: int, *, is_summed: bool) -> None:
        name = plain_name(call.function)
        is_packed = name in PACKS or any(use.tensor in self._packed for use in call.inputs)
        for use in call.outputs:
            if name in SEQUENCES or self._fits(shape_of(self.flow, use.tensor)):
                self._ordered.setdefault(use.tensor, taken)
                self._packed.update({use.tensor} if is_packed else ())
                self.has_trained |= use.requires_grad
                if is_summed:
                    self._summed.add(use.tensor)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        return shape == self._shape if self._axis else shape[:1] == self._shape[:1]

    def _is_beside(self, use: TensorUse, ordered: list[TensorUse], name: str) -> bool:
        """Whether it has a value for each sample, that meets the one in the same place."""
        shape, rank = shape_of(self.flow, use.tensor), len(shape_of(self.flow, ordered[0].tensor))
        return self._fits(shape) and (len(shape) == rank or name in _OF_CLASSES)

    def _keeps_rows(self, call: Call, name: str) -> bool:
        rank = len(shape_of(self.flow, call.inputs[0].tensor))
        if name in ("transpose", "permute", "t", "T", "mT", "flip"):
            return False
        if name in ("matmul", "mm", "bmm") and rank > 1:
            return call.inputs[0].tensor in self._ordered and not self._axis
        if name in _SIDE_BY_SIDE:
            # Others may be paired with their neighbours in an order, but no last states of sequences.
            is_packed = any(use.tensor in self._packed for use in call.inputs)
            return is_packed and axis_of(call, rank + (name == "stack")) not in (None, self._axis)
        if name in REDUCTIONS and name not in _CUMULATIVE:
            return bool(axes_of(call, rank)) and self._axis not in axes_of(call, rank)
        return name not in _REORDER

    def _is_in_order_of_batch(self, other: TensorUse, row: int, *, is_summed: bool) -> bool:
        if other.requires_grad and not is_summed:
            return False  # a sample that is compared with its neighbour in the order
        if not other.requires_grad and are_of_one_tensor(self.flow, (self._key, self.row), (other, row)):
            return True
        key = origin_of_rows(self.flow, self._key, self.row)
        mine = origin_of_rows(self.flow, other, row)
        if key is None or mine is None:
            return False
        numbers = self._numbers_of(key)
        if len(numbers) >= _MIN_SAMPLES:
            is_before = mine.kind == "slice" or mine.row < self.row
            is_sorted = numbers in (sorted(numbers), sorted(numbers, reverse=True))
            return is_before and not is_sorted and not other.requires_grad and self._is_surely_data(mine, other, row)
        if (key.kind, key.rows) != (mine.kind, mine.rows) or self._is_sorted_already():
            return False
        return mine.kind == "index" or (mine.row < self.row and self._is_surely_data(mine, other, row))

    def _is_sorted_already(self) -> bool:
        """Whether sequences were filled up that came by their length, so that a sort by length changes nothing."""
        for taken in {*self._ordered.values()} - {self.row}:
            origin = origin_of_rows(self.flow, self.flow.log.calls[taken].inputs[0], taken)
            made = None if origin is None else self.flow.log.calls[origin.row]
            if made is not None and plain_name(made.function) == "pad_sequence":
                sizes = [shape_of(self.flow, use.tensor)[:1] for use in made.inputs]
                if sizes == sorted(sizes, reverse=True):
                    return True
        return False

    def _numbers_of(self, key: Origin) -> list[float]:
        """Python's numbers that are sorted, as lengths of sequences are. If they are in no order yet, nothing that the
        program had before can be in that of the sort; if they are, the sort changes nothing."""
        made = self.flow.log.calls[key.row]
        if plain_name(made.function) != "tensor" or self._axis or key.kind != "whole":
            return []
        values = made.scalars.values()
        return [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)]

    def _is_surely_data(self, origin: Origin, other: TensorUse, row: int) -> bool:
        if origin.kind in ("slice", "batch"):
            return True
        values = self.flow.values_of(other, row)
        is_label = values is not None and (values.minimum, values.maximum) == (0, 1) and values.count > _MIN_SAMPLES
        is_label |= "int" in self.flow.log.tensors[other.tensor].facts.dtype
        return is_label or (origin.kind == "whole" and not self._key.requires_grad)


_SIDE_BY_SIDE = frozenset({"cat", "concat", "stack"})
_TABLE = 2
_MIN_SAMPLES = 3
TAKE = frozenset({"getitem", "index_select", "gather", "take_along_dim", "take"})
_KEEP_INDEX = frozenset({"to", "long", "view", "reshape", "squeeze", "flatten", "detach", "flip", "contiguous"})
SEQUENCES = frozenset({
    "_pack_padded_sequence", "_pad_packed_sequence", "lstm", "gru", "rnn_tanh", "rnn_relu",
})  # fmt: skip
"""Their results have the samples along another axis."""
PACKS = frozenset({"_pack_padded_sequence"})
_CUMULATIVE = frozenset({"cumsum", "logcumsumexp", "cumprod", "cummax"})
PUT_BACK = frozenset({"scatter", "scatter_add", "index_add", "index_copy", "index_put", "setitem"})
"""With the numbers of an order they write rows back to where they were."""
LIKE = frozenset({"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"})
_REORDER = frozenset({
    *PUT_BACK, *LIKE, "sort", "argsort", "topk", "roll", "index_select", "take", "cdist", "searchsorted", "stack",
    "cat", "unique", "take_along_dim",
})  # fmt: skip
_OF_CLASSES = frozenset({"cross_entropy", "nll_loss", "gather", "getitem", "masked_select"})
"""They take labels or a mask of samples, with fewer axes than what they belong to."""
COMBINE = _OF_CLASSES | {
    "mul", "add", "sub", "div", "where", "dot", "matmul", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "poisson_nll_loss", "masked_fill",
    "vecdot", "inner", "addcmul", "einsum",
}  # fmt: skip


def is_combined(call: Call, name: str) -> bool:
    """Whether a call combines each value with the one in the same place: ``einsum("n,n->", a, b)``, not all pairs."""
    return name in COMBINE and (name != "einsum" or len(set(equation_of(call).terms)) == 1)
