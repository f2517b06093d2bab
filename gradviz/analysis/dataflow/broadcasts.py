"""Pairs of tensors that should be combined element by element, but were combined into a table: ``(N, 1)`` with
``(N,)``.

Programs also make such tables on purpose (distances of all pairs, kernels, attention). The use of the result shows
which it is: a program that wants all pairs reads one axis of it at some time, or adds other values of pairs to it. A
result that is only changed element by element and then summed or averaged as a whole was not meant to be a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import DIFFERENCES, calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

Shape = tuple[int, ...]

_LOSSES = frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "soft_margin_loss",
        "kl_div",
    )
)
"""They combine prediction and target element by element, and broadcast."""
_COMPARE = DIFFERENCES | {"eq", "ne"}
"""What scores are computed with: they compare each prediction with its own target."""
_INSERT_AN_AXIS = frozenset({"torch.Tensor.unsqueeze", "torch.unsqueeze", "torch.Tensor.__getitem__"})
_MAX_FOLLOWED = 200


class Crossing(Struct, frozen=True):
    """Two tensors with equally many elements; each element of one was combined with every element of the other."""

    call: int
    """Index in `CallLog.calls`."""
    one: TensorUse
    other: TensorUse
    shapes: tuple[Shape, Shape]
    result: Shape
    table: int
    """The tensor with all pairs that the call returned."""

    @property
    def sizes(self) -> frozenset[int]:
        """The number of elements of the table, over all axes and over those in which the two tensors differ."""
        one, other = (_padded(shape, len(self.result)) for shape in self.shapes)
        crossed = [size for a, b, size in zip(one, other, self.result, strict=True) if a != b]
        return frozenset((prod(self.result), prod(crossed)))

    @property
    def times(self) -> int:
        """How many times as many elements the table has as one of the tensors."""
        return prod(self.result) // max(prod(self.shapes[0]), 1)


def crossings_into(flow: Dataflow, root: int, backward: int, since: int = 0) -> Iterator[Crossing]:
    """Crossings that were probably not meant, among the calls that computed the root of a backward call."""
    rows = flow.ancestors(root, before=backward, since=since)
    both = (_crossing(flow, row) or _crossing_of_classes(flow, row) for row in rows)
    crossings = [found for found in both if found is not None]
    accidents: dict[Shape, list[Crossing]] = {}
    for each in crossings:
        if not _is_on_purpose(flow, each):
            accidents.setdefault(each.result, []).append(each)
    beside = {shape: _tables_of(flow, found, backward) for shape, found in accidents.items()}
    by_accident = {each.call for found in accidents.values() for each in found}
    for each in crossings:
        if flow.log.calls[each.call].function in _LOSSES or (
            each.call in by_accident and _is_only_reduced_as_a_whole(flow, each, beside[each.result], backward)
        ):
            yield each


def crossings_in_scores(flow: Dataflow) -> Iterator[Crossing]:
    """Crossings of what trained parameters computed with what they did not, in numbers that no backward needs."""
    for row, _ in calls_named(flow, _COMPARE):
        found = _crossing(flow, row, is_live=False)
        if found is None or _is_on_purpose(flow, found) or not _is_prediction_with_target(flow, found):
            continue
        end = len(flow.log.calls)
        is_mean = is_only_averaged(flow, found, end, is_live=False)
        is_whole = _is_only_reduced_as_a_whole(flow, found, set(), end, is_live=False)
        if flow.log.calls[row].function in _LOSSES or (is_whole and not is_mean):
            yield found


def _is_prediction_with_target(flow: Dataflow, crossing: Crossing) -> bool:
    calls, tensors = flow.log.calls, flow.log.tensors
    are_computed = (
        any(
            tensors[given.tensor].role == "parameter" or given.requires_grad
            for row in flow.ancestors(use.tensor, crossing.call)
            for given in calls[row].inputs
        )
        for use in (crossing.one, crossing.other)
    )
    return sum(are_computed) == 1


def _crossing(flow: Dataflow, row: int, *, is_live: bool = True) -> Crossing | None:
    call = flow.log.calls[row]
    tensors = [use for use in call.inputs if use.place in _OPERANDS]
    if call.kind != "operation" or call.inside is not None or len(tensors) != 2 or len(call.outputs) != 1:
        return None
    one, other = tensors
    shapes = shape_of(flow, one.tensor), shape_of(flow, other.tensor)
    count = prod(shapes[0])
    if count < 2 or prod(shapes[1]) != count or len(shapes[0]) == len(shapes[1]):
        return None
    result = _broadcast(*shapes)
    decides = (one, other) if is_live else call.outputs
    if result is None or prod(result) <= count or is_live != any(use.requires_grad for use in decides):
        return None
    if call.function not in _LOSSES and shape_of(flow, call.outputs[0].tensor) != result:
        return None
    return Crossing(row, one, other, shapes, result, call.outputs[0].tensor)


def _crossing_of_classes(flow: Dataflow, row: int) -> Crossing | None:
    """Classes of shape ``(N, 1)`` that a distribution of ``(N, classes)`` looks up: it adds an axis to them."""
    call = flow.log.calls[row]
    if call.function.rpartition(".")[2] != "broadcast_tensors" or len(call.inputs) != 2 or len(call.outputs) != 2:
        return None
    values, scores = call.inputs
    given, wanted = shape_of(flow, values.tensor), shape_of(flow, scores.tensor)
    if len(given) != 3 or len(wanted) != 2 or given[1:] != (1, 1) or given[0] != wanted[0] or given[0] < 2:
        return None
    count = given[0]
    if values.requires_grad or not scores.requires_grad:
        return None
    made = flow.newest_producer(values.tensor, row)
    maker = None if made is None else flow.log.calls[made]
    if maker is None or maker.function not in _INSERT_AN_AXIS or shape_of(flow, maker.inputs[0].tensor) != (count, 1):
        return None
    return Crossing(row, maker.inputs[0], scores, ((count, 1), (count,)), (count, count), call.outputs[1].tensor)


_OPERANDS = frozenset({"0", "1", "input", "other", "target"})


def shape_of(flow: Dataflow, tensor: int) -> Shape:
    """Sizes of a tensor; a symbolic size counts as 1."""
    return _in_numbers(flow.log.tensors[tensor].facts.shape)


@lru_cache
def _in_numbers(shape: tuple[int | str, ...]) -> Shape:
    return tuple(size if isinstance(size, int) else 1 for size in shape)


def _broadcast(one: Shape, other: Shape) -> Shape | None:
    """The shape to which two broadcast; None if they do not fit."""
    length = max(len(one), len(other))
    pairs = list(zip(_padded(one, length), _padded(other, length), strict=True))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return None
    return tuple(max(pair) for pair in pairs)


def _padded(shape: Shape, length: int) -> Shape:
    return (1,) * (length - len(shape)) + shape


def _is_on_purpose(flow: Dataflow, crossing: Crossing) -> bool:
    if any(flow.log.tensors[use.tensor].role == "parameter" for use in (crossing.one, crossing.other)):
        return True  # for instance, a weight for each column
    return any(_got_its_axis_for_this(flow, use, crossing.call) for use in (crossing.one, crossing.other))


def _tables_of(flow: Dataflow, crossings: list[Crossing], backward: int) -> set[int]:
    """The results of crossings of one shape, and what was computed from them element by element, masks included."""
    sizes = crossings[0].sizes
    waiting, tables = [crossing.table for crossing in crossings], set[int]()
    while waiting and len(tables) < _MAX_FOLLOWED:
        table = waiting.pop()
        tables.add(table)
        for row in flow.users(table, crossings[0].call):
            outputs = flow.log.calls[row].outputs if row < backward else ()
            is_table = bool(outputs) and prod(shape_of(flow, outputs[0].tensor)) in sizes
            if is_table and outputs[0].tensor not in tables:
                waiting.append(outputs[0].tensor)
    return tables


def _got_its_axis_for_this(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether the same expression inserted an axis, as ``x[:, None]`` and ``x.unsqueeze(1)`` do."""
    made = flow.producers(use.tensor, before=row)
    maker = flow.log.calls[made[-1]] if made else None
    if maker is None or maker.function not in _INSERT_AN_AXIS or not maker.inputs:
        return False
    adds_an_axis = len(shape_of(flow, maker.inputs[0].tensor)) < len(shape_of(flow, use.tensor))
    return adds_an_axis and flow.line_of(made[-1]) == flow.line_of(row) and len(flow.users(use.tensor)) == 1


def _is_only_reduced_as_a_whole(
    flow: Dataflow, crossing: Crossing, beside: set[int], backward: int, *, is_live: bool = True
) -> bool:
    """Whether the table is changed element by element and then reduced to one number, and combined with no other tables
    than those `beside` it, which were made in the same way."""
    sizes = crossing.sizes
    waiting, tables, is_reduced = [crossing.table], set[int](), False
    while waiting and len(tables) < _MAX_FOLLOWED:
        table = waiting.pop()
        tables.add(table)
        for row in flow.users(table, crossing.call):
            call = flow.log.calls[row]
            if row >= backward or not call.outputs or is_live != call.outputs[0].requires_grad:
                continue
            if _takes_another_table(flow, call, tables | beside, min(sizes)):
                return False
            given = call.outputs[0].tensor
            count = prod(shape_of(flow, given))
            if count in sizes and given not in tables:
                waiting.append(given)
            elif count == 1:
                is_reduced = True
            elif count not in sizes:
                return False
    return is_reduced


def is_only_averaged(flow: Dataflow, crossing: Crossing, backward: int, *, is_live: bool = True) -> bool:
    """Whether it is a sum or a difference of which only the mean is taken: that is the one of both means, and right."""
    if plain_name(flow.log.calls[crossing.call].function) not in ("add", "sub"):
        return False
    waiting, seen, is_averaged = [(crossing.table, crossing.call)], 0, False
    while waiting and seen < _MAX_FOLLOWED:
        (table, row), seen = waiting.pop(), seen + 1
        for user in flow.users(table, row):
            call = flow.log.calls[user]
            if user >= backward or not call.outputs or is_live != call.outputs[0].requires_grad:
                continue
            name = plain_name(call.function)
            if name == "mean" and prod(shape_of(flow, call.outputs[0].tensor)) == 1:
                is_averaged = True
            elif name in ("mul", "div", "neg") and len(call.inputs) == 1:
                waiting.append((call.outputs[0].tensor, user))
            else:
                return False
    return is_averaged


def _takes_another_table(flow: Dataflow, call: Call, tables: set[int], size: int) -> bool:
    # The index of a lookup has as many elements as its result, and no values of its own.
    given = call.inputs[:1] if call.function.endswith(".gather") else call.inputs
    return any(use.tensor not in tables and prod(shape_of(flow, use.tensor)) >= size for use in given)
