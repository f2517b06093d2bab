"""What becomes of one axis of a tensor: through views and arithmetic, to the calls that sum over it or choose along it.

A softmax over one axis makes weights that sum to 1 along it. A sum or a choice along another axis uses them as if they
summed to 1 there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.graph.call_log import Call, TensorUse

Axes = tuple[int | None, ...]
"""For each axis of a tensor, the axis of the first tensor that it is; None for one that came later."""

EndKind = Literal["contracted", "summed", "drawn", "classes", "normalized"]
"""``contracted``: a matrix product sums over it; ``summed``: a reduction over it; ``drawn``: a choice along it by its
values, at random; ``classes``: a loss takes it for that of the classes, or one of each sample is chosen along it;
``normalized``: it is normalized again."""


class End(Struct, frozen=True):
    """A call that uses axes up."""

    call: int
    kind: EndKind
    axes: frozenset[int]
    """The axes of the first tensor."""
    axis: int
    """The first of them as an axis of what the call received."""
    is_weighed: bool = False
    """Whether something else was multiplied with it on the way."""
    is_divided: bool = False
    """Whether it was divided by another tensor on the way."""


def ends_of_axes(flow: Dataflow, row: int, tensor: int, until: int) -> Iterator[End]:
    """What uses up the axes of a result of the call `row`, before the call `until`."""
    start = tuple(range(len(shape_of(flow, tensor))))
    waiting: list[tuple[int, Axes, bool, bool]] = [(tensor, start, False, False)]
    seen = {tensor}
    while waiting and len(seen) < _MAX_FOLLOWED:
        given, axes, is_weighed, is_divided = waiting.pop()
        for user in flow.users(given, row):
            call = flow.log.calls[user]
            if user >= until or not call.inputs or call.kind != "operation":
                continue
            use = next(each for each in call.inputs if each.tensor == given)
            end = _end(flow, user, call, use, axes)
            if end is not None:
                kind, used = end
                found = frozenset(named for axis in used if (named := axes[axis]) is not None)
                yield End(user, kind, found, used[0], is_weighed, is_divided)
                continue
            name = plain_name(call.function)
            others = len(call.inputs) > 1
            for out in call.outputs:
                moved = moved_axes(flow, call, name, axes, out.tensor)
                if moved is not None and out.tensor not in seen:
                    seen.add(out.tensor)
                    waiting.append((
                        out.tensor, moved, is_weighed or (others and name in _WEIGH),
                        is_divided or (others and name == "div"),
                    ))  # fmt: skip


_MAX_FOLLOWED = 60
_WEIGH = frozenset({"mul", "where", "einsum"})


def axis_of(call: Call, rank: int, position: str = "1") -> int | None:
    """The only axis over which a call works, counted from the front; None if it has none or several."""
    named = call.scalars.get("dim", call.scalars.get(position))
    if type(named) is not int or not -rank <= named < rank:
        return None
    return named % rank


def axes_of(call: Call, rank: int) -> list[int]:
    """The axes over which a call was told to work, counted from the front; empty for all of them."""
    told = [
        value
        for place, value in sorted(call.scalars.items())
        if type(value) is int and place.partition("[")[0] in ("1", "dim", "axis", "dims")
    ]
    return [axis % rank for axis in told] if rank else []


# -- what uses an axis up ----------------------------------------------------------------------------------------------


def _end(flow: Dataflow, row: int, call: Call, use: TensorUse, axes: Axes) -> tuple[EndKind, tuple[int, ...]] | None:
    if plain_name(call.function) == "einsum":
        summed = tuple(sorted(summed_by_einsum(call, use, len(shape_of(flow, use.tensor))) or ()))
        return ("contracted" if len(call.inputs) > 1 else "summed", summed) if summed else None
    end = _end_along_one(flow, row, call, use, axes)
    return None if end is None else (end[0], (end[1],))


def _end_along_one(flow: Dataflow, row: int, call: Call, use: TensorUse, axes: Axes) -> tuple[EndKind, int] | None:
    name, rank = plain_name(call.function), len(axes)
    if name in _PRODUCTS and rank >= 2:
        return "contracted", rank - 1 if use is call.inputs[0] else rank - 2
    if name in REDUCTIONS:
        axis = axis_of(call, rank)
        return None if axis is None else ("summed", axis)
    if name in NORMALIZERS:
        axis = axis_of(call, rank)
        return None if axis is None else ("normalized", axis)
    if name == "multinomial":
        return "drawn", rank - 1
    if name in _CLASSES and use is call.inputs[0] and rank >= 2:
        return "classes", 1
    if name == "ctc_loss" and use is call.inputs[0]:
        return "classes", rank - 1
    if name in _CHOOSE and use is call.inputs[0]:
        axis = axis_of(call, rank, "2" if name == "take_along_dim" else "1")
        index = shape_of(flow, call.inputs[-1].tensor)
        return None if axis is None or len(index) != rank or index[axis] != 1 else ("classes", axis)
    if name == "getitem" and rank == len(call.inputs) - 1 == 2:
        return _chosen_of_each(flow, row, call)
    return None


def _chosen_of_each(flow: Dataflow, row: int, call: Call) -> tuple[EndKind, int] | None:
    """The axis along which ``p[torch.arange(n), labels]`` chooses one of each sample."""
    made = (flow.newest_producer(use.tensor, row) for use in call.inputs[1:])
    counts = [each is not None and plain_name(flow.log.calls[each].function) == "arange" for each in made]
    return ("classes", 1 - counts.index(True)) if sum(counts) == 1 else None


_PRODUCTS = frozenset({"matmul", "mm", "bmm"})
REDUCTIONS = frozenset({
    "sum", "mean", "nansum", "amax", "amin", "max", "min", "argmax", "argmin", "logsumexp", "prod", "cumsum", "norm",
    "topk", "sort", "argsort", "std", "var", "median", "cumprod",
})  # fmt: skip
NORMALIZERS = frozenset({"softmax", "log_softmax", "normalize"})
_CLASSES = frozenset({"nll_loss", "cross_entropy"})
_CHOOSE = frozenset({"gather", "take_along_dim"})
"""With one index for each sample, they choose its class."""


def summed_by_einsum(call: Call, use: TensorUse, rank: int) -> frozenset[int] | None:
    """The axes of one input that ``einsum`` sums over; None where the equation does not tell."""
    equation = equation_of(call)
    index = next((at for at, each in enumerate(call.inputs) if each is use), None)
    if not equation.has_arrow or index is None or index >= len(equation.terms):
        return None
    if "..." not in equation.result and any("..." in each for each in equation.terms):
        return None
    first, dots, last = equation.terms[index].partition("...")
    places = [*enumerate(first), *enumerate(last, rank - len(last) if dots else 0)]
    return frozenset(axis for axis, letter in places if letter not in equation.result)


# -- where an axis goes ------------------------------------------------------------------------------------------------


def moved_axes(flow: Dataflow, call: Call, name: str, axes: Axes, result: int) -> Axes | None:
    """The axes of a result; None where they cannot be told."""
    rank, shape = len(axes), shape_of(flow, result)
    if name in _ELEMENTWISE:
        return (None,) * (len(shape) - rank) + axes if len(shape) >= rank else None
    if name == "einsum":
        return _moved_by_einsum(call, axes)
    if name in ("transpose", "swapaxes", "swapdims"):
        one, other = (call.scalars.get(place) for place in ("1", "2"))
        if type(one) is not int or type(other) is not int:
            return None
        order = list(axes)
        order[one], order[other] = order[other], order[one]
        return tuple(order)
    if name == "movedim":
        one, other = (call.scalars.get(place) for place in ("1", "2"))
        if type(one) is not int or type(other) is not int:
            return None
        rest = [*axes[: one % rank], *axes[one % rank + 1 :]]
        rest.insert(other % rank, axes[one])
        return tuple(rest)
    if name in ("t", "T", "mT"):
        return (*axes[:-2], *reversed(axes[-2:]))
    if name == "unsqueeze":
        axis = axis_of(call, rank + 1)
        return None if axis is None else (*axes[:axis], None, *axes[axis:])
    if name == "getitem" and len(call.inputs) == 1 and len(shape) == rank + 1:
        return _with_a_new_axis(axes, shape_of(flow, call.inputs[0].tensor), shape)
    if name == "squeeze":
        axis = axis_of(call, rank)
        if axis is not None and len(shape) == rank - 1:
            return (*axes[:axis], *axes[axis + 1 :])
        return axes if len(shape) == rank else None
    if name == "permute":
        order_of = [value for _, value in sorted(call.scalars.items()) if type(value) is int]
        return tuple(axes[each] for each in order_of) if len(order_of) == rank else None
    if name in ("view", "reshape", "expand", "broadcast_tensors", "flatten"):
        before = shape_of(flow, call.inputs[0].tensor)
        if shape == before:
            return axes
        is_last_kept = name != "expand" and len(shape) > 1 and shape[-1:] == before[-1:]
        return (*(None for _ in shape[1:]), axes[-1]) if is_last_kept else None
    return None


def _with_a_new_axis(axes: Axes, before: tuple[int, ...], after: tuple[int, ...]) -> Axes | None:
    """The axes of ``x[:, None]``; None where the shapes do not tell where the new one stands."""
    places = [place for place in range(len(after)) if after == (*before[:place], 1, *before[place:])]
    return (*axes[: places[0]], None, *axes[places[0] :]) if len(places) == 1 else None


def _moved_by_einsum(call: Call, axes: Axes) -> Axes | None:
    """The axes of a result that sums over no axis of the input with these axes."""
    equation = equation_of(call)
    fitting = [each for each in equation.terms if len(each) == len(axes)] if equation.is_plain else []
    if len(fitting) != 1 or len(set(fitting[0])) != len(axes):
        return None
    return tuple(axes[fitting[0].index(letter)] if letter in fitting[0] else None for letter in equation.result)


_ELEMENTWISE = frozenset({
    "mul", "div", "add", "sub", "neg", "log", "exp", "clamp", "dropout", "masked_fill", "where", "to", "float", "half",
    "bfloat16", "double", "clone", "contiguous", "pow", "sqrt", "type_as", "log1p", "clip", "relu", "square",
})  # fmt: skip
