"""Follows copies of samples through a run: which axes hold them, and what takes their rows in another order."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.analysis.dataflow.axes import NORMALIZERS, REDUCTIONS, axes_of, axis_of, summed_by_einsum
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.copies.axes_of_copies import Axes, Axis, are_alike, reshaped
from gradviz.analysis.rules.bases.copies.axes_turned import aligned, einsum_axes, turned
from gradviz.analysis.rules.bases.copies.flattened_rows import TURN
from gradviz.analysis.rules.bases.copies.joined_copies import (
    joined_parts,
    rows_that_begin_alike,
    stacked_groups,
    stacked_pairs,
    stacked_samples,
)
from gradviz.analysis.rules.bases.copies.made_copies import BROADCAST, COUNT_OFF, LAY_OUT, VIEWS, laid_out
from gradviz.analysis.rules.bases.copies.other_orders import DIAGONALS, OtherOrder, OtherOrders
from gradviz.analysis.rules.bases.copies.pairs_of_copies import chooses_by_row
from gradviz.analysis.rules.bases.copies.parts_of_copies import is_whole_copy, parts_of, selected, taken_row
from gradviz.graph.call_log import Call, TensorUse


class CopiedRows:
    """One walk over the log, from the first call to the last."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._axes: dict[int, Axes] = {}
        self._orders = OtherOrders()
        self._copies = set[int]()
        """Tensors that are one copy of all samples, taken from rows with several."""

    def taken_otherwise(self) -> list[OtherOrder]:
        """Every call that takes rows in another order than they are in."""
        for row, call in enumerate(self._flow.log.calls):
            if call.kind == "operation" and call.outputs:
                results = self._axes_of_results(row, call, plain_name(call.function))
                for use, axes in zip(call.outputs, results, strict=False):
                    self._keep(use.tensor, axes)
            elif call.kind in ("custom", "compiled"):
                for use in call.outputs:
                    self._axes.pop(use.tensor, None)
        return self._orders.told()

    def _keep(self, tensor: int, axes: Axes | None) -> None:
        """Note the axes of a result, if it has as many: some calls can leave out or add axes in ways unknown here."""
        if axes is None or not any(axes) or len(axes) != len(shape_of(self._flow, tensor)):
            self._axes.pop(tensor, None)
        else:
            self._axes[tensor] = axes

    def _axes_of_results(self, row: int, call: Call, name: str) -> list[Axes | None]:
        known = [use for use in call.inputs if use.tensor in self._axes]
        if not known and name not in _MAKE_COPIES:
            return [None for _ in call.outputs]
        results = [shape_of(self._flow, use.tensor) for use in call.outputs]
        alike = rows_that_begin_alike(self._flow, row, call, name) if name in _OF_ROWS else None
        if alike is not None:
            return [alike]
        if name in _JOIN:
            groups = None
            if name == "stack":
                groups = stacked_samples(self._flow, row, call) or stacked_groups(call, self._given(call))
                groups = groups or stacked_pairs(self._flow, row, call)
            groups = groups or self._stacked_again(row, call, name)
            joined = groups or self._all_parts(call, name) or joined_parts(self._flow, row, call, name, self._copies)
            return [joined or self._merged(row, known, results[0])]
        if not known:
            return [laid_out(self._flow, row, call, name, results[0])] * len(results)
        first = known[0]
        axes, shape = self._axes[first.tensor], shape_of(self._flow, first.tensor)
        if chooses_by_row(call, name):
            self._orders.note_pairs(row, call, name, self._axes.get(call.inputs[0].tensor, ()))
        if name in _SELECT or name == "getitem":
            taken = zip(call.outputs, results, strict=True)
            whole = (use.tensor for use, result in taken if is_whole_copy(call, name, axes[0], next(iter(result), 0)))
            self._copies.update(whole)
        if name in _VIEW:
            viewed = reshaped(axes, shape, results[0], row)
            return [viewed if any(viewed) else laid_out(self._flow, row, call, name, results[0])]
        if name in _SELECT:
            return parts_of(self._flow, row, call, name, axes)
        if name == "getitem":
            return [self._taken(row, call, axes, shape, results[0])]
        if name == "index_select" and 0 in axes_of(call, len(results[0])):
            return [(*self._given(call)[-1], *(None for _ in results[0][1:]))]
        if name in TURN:
            return [turned(call, name, axes)]
        if name in _PRODUCTS:
            return [self._product(row, call, results[0])]
        if name in _REDUCE and len(call.inputs) == 1:
            over = axes_of(call, len(axes)) or ([len(axes) - 1] if name in _LAST_BY_DEFAULT else [])
            return [self._reduced(row, over, axes, result) for result in results]
        if name == "einsum" and len(call.inputs) == 1:
            self._reduced(row, sorted(summed_by_einsum(call, first, len(axes)) or ()), axes, results[0])
        if name in _TABLES:
            return [self._table(row, call, name, results[0])]
        if name in DIAGONALS or name in _CLASSES:
            self._orders.note_pairs(row, call, name, self._axes.get(call.inputs[0].tensor, ()))
        if name in _REORDER or (name == "gather" and axis_of(call, len(axes)) == 0):
            return [None for _ in results]
        return [self._merged(row, known, result) for result in results]

    def _given(self, call: Call) -> list[Axes]:
        return [self._axes.get(use.tensor, (None,)) for use in call.inputs]

    def _stacked_again(self, row: int, call: Call, name: str) -> Axes | None:
        """The axes of rows that were taken one by one, changed, and stacked in the same order."""
        count = len(call.inputs)
        if name not in _STACK or axis_of(call, len(shape_of(self._flow, call.inputs[0].tensor)) + 1) not in (0, None):
            return None
        taken = {taken_row(self._flow, call.inputs[index].tensor, row, index, count) for index in (0, 1, -1)[:count]}
        axes = self._axes.get(next(iter(taken)) or 0) if len(taken) == 1 and None not in taken else None
        if axes is None or axes[0] is None or not axes[0].is_of_rows:
            return None
        return (axes[0], *(None for _ in shape_of(self._flow, call.outputs[0].tensor)[1:]))

    def _all_parts(self, call: Call, name: str) -> Axes | None:
        """The axes of all parts of wrongly cut rows, put one behind the other again."""
        given = self._given(call)
        parts = [axes[0] for axes in given if axes[0] is not None and axes[0].kind == "part"]
        is_whole = len(parts) == len(given) == parts[0].copies if parts else False
        if name not in _BEHIND or not is_whole or [each.part for each in parts] != list(range(len(parts))):
            return None
        if len({each.made for each in parts}) > 1 or axis_of(call, len(given[0])) not in (0, None):
            return None
        return (replace(parts[0], kind="mixed", part=None), *(None for _ in given[0][1:]))

    # -- uses --------------------------------------------------------------------------------------------------------

    def _reduced(self, row: int, over: list[int], axes: Axes, result: Shape) -> Axes | None:
        rank = len(axes)
        kinds = [axes[axis] for axis in over if axes[axis] is not None]
        wrong = next((axis for axis in kinds if axis is not None and axis.kind == "no_copies"), None)
        if wrong is not None and len(kinds) == 1:
            self._orders.note(wrong, row, "reduced")
        if not over or not result:
            return None
        left = tuple(None if axis in over else each for axis, each in enumerate(axes))
        return left if len(result) == rank else tuple(each for axis, each in enumerate(left) if axis not in over)

    def _merged(self, row: int, known: list[TensorUse], result: Shape) -> Axes | None:
        """The axes of what is computed row by row."""
        if not result and len(known) > 1:
            self._compare(row, known)
        merged: list[Axis | None] = [None] * len(result)
        is_known = [True] * len(result)
        for use in known:
            given = self._axes[use.tensor]
            shape = shape_of(self._flow, use.tensor)
            for place, axis in aligned(shape, given, result):
                before = merged[place]
                if before is None or not is_known[place]:
                    merged[place] = axis
                elif not are_alike(before, axis):
                    is_known[place] = False
                    self._orders.note_opposites(row, before, axis)
        return tuple(axis if is_known[place] else None for place, axis in enumerate(merged))

    def _compare(self, row: int, known: list[TensorUse]) -> None:
        """Compare the rows of what a loss puts together to one number."""
        first, *others = (self._axes[use.tensor][0] for use in known)
        for other in others:
            if first is not None and other is not None:
                self._orders.note_opposites(row, first, other)

    def _product(self, row: int, call: Call, result: Shape) -> Axes | None:
        """The axes of a matrix product: rows of the first, columns of the second."""
        left, right = (self._axes.get(use.tensor, ()) for use in call.inputs[:2])
        if left and len(right) > 1 and left[-1] is not None and right[-2] is not None:
            self._orders.note_opposites(row, left[-1], right[-2])
        if len(result) != _MATRIX:
            return (*left[:1], *(None,) * (len(result) - 1)) if left and result[:1] else None
        return (left[0] if left else None, right[-1] if len(right) > 1 else None)

    def _table(self, row: int, call: Call, name: str, result: Shape) -> Axes | None:
        """The axes of what compares each row of one tensor with each of another."""
        given = [self._axes.get(use.tensor, (None,) * len(shape_of(self._flow, use.tensor))) for use in call.inputs]
        if name == "einsum":
            return einsum_axes(call, given)
        if name == "cdist":
            return (given[0][-2], given[1][-2]) if len(result) == _MATRIX else None
        shapes = [shape_of(self._flow, use.tensor) for use in call.inputs]
        if len(shapes) != _BOTH or len(shapes[0]) != len(shapes[1]):
            return None
        both = tuple(max(pair) for pair in zip(*shapes, strict=True))
        merged = self._merged(row, [use for use in call.inputs if use.tensor in self._axes], both)
        axis = axis_of(call, len(both), "2")
        axis = 1 if axis is None else axis
        return None if merged is None else (*merged[:axis], *merged[axis + 1 :])

    def _taken(self, row: int, call: Call, axes: Axes, shape: Shape, result: Shape) -> Axes | None:
        """The axes of what indexing takes: of the index itself, if a tensor says which rows."""
        index = call.inputs[1:]
        if not index:
            return selected(call, axes, shape, result, row)
        given = self._axes.get(index[0].tensor)
        if shape == shape_of(self._flow, index[0].tensor):
            self._merged(row, [use for use in call.inputs if use.tensor in self._axes], shape)
        if len(index) > 1 or given is None or shape_of(self._flow, index[0].tensor) != result[: len(given)]:
            return None
        return (*given, *(None,) * (len(result) - len(given)))


_MATRIX = 2
_BOTH = 2
_STACK = frozenset({"stack", "vstack"})
_BEHIND = frozenset({"cat", "concat", "concatenate", "vstack"})
_JOIN = frozenset({"cat", "concat", "concatenate", "stack", "vstack", "hstack"})
_OF_ROWS = frozenset({"stack", "pad_sequence"})
_MAKE_COPIES = _JOIN | _OF_ROWS | LAY_OUT | BROADCAST | COUNT_OFF | VIEWS
_VIEW = frozenset({"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as"})
_SELECT = frozenset({"chunk", "split", "tensor_split", "narrow", "select", "unbind"})
_PRODUCTS = frozenset({"matmul", "mm", "bmm"})
_TABLES = frozenset({"cosine_similarity", "cdist", "einsum"})
_REDUCE = REDUCTIONS | NORMALIZERS | {"var_mean", "std_mean", "any", "all", "nanmean"}
_LAST_BY_DEFAULT = frozenset({"sort", "argsort", "topk"})
_CLASSES = frozenset({"cross_entropy", "nll_loss"})
_REORDER = frozenset({
    "flip", "roll", "fliplr", "flipud", "rot90", "index_select", "take_along_dim", "scatter", "scatter_add",
    "index_add", "index_copy", "setitem", "index_put", "masked_scatter", "masked_select", "nonzero", "unique",
    "as_strided", "diag", "diagonal", "outer", "tensordot", "zeros_like", "ones_like", "empty_like",
    "full_like", "rand_like", "randn_like", "new_zeros", "new_ones", "new_empty", "new_full", "baddbmm", "addmm",
    "copy",
})  # fmt: skip
