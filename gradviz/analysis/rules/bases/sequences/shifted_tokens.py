"""Targets of a language model: the tokens that it looks up, shifted by one position.

Inputs and targets are parts of one tensor: ``tokens[:, :-1]`` and ``tokens[:, 1:]``, windows of a stream that are
stacked, rows of two tables that were cut out of one, ``cat([start, targets[:, :-1]])``, or what is written into such a
part: ``labels[:, :-1] = tokens[:, 1:]``.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class Part(Struct, frozen=True):
    """Which part of which tensor some tokens are."""

    source: tuple[object, ...]
    """The tensor, and what was picked from it by numbers and tensors."""
    moves: tuple[tuple[int, int], ...]
    """By how much each call moved the start, with the length that was left; the last call first."""
    rows: tuple[int, ...] = ()
    """These calls."""

    @property
    def start(self) -> int:
        return sum(by for by, _ in self.moves)


def part_of(flow: Dataflow, tensor: int, row: int) -> Part:
    """Where tokens come from, as far as only slices, picks, shifts and changes of shape made them."""
    picks: list[object] = []
    moves: list[tuple[int, int]] = []
    rows: list[int] = []
    for _ in range(_MAX_CALLS):
        made = flow.producers(tensor, row)
        if not made:
            break
        call = flow.log.calls[made[-1]]
        name = plain_name(call.function)
        if name not in _SHAPES:
            step = _step(flow, made[-1], call, name)
            if step is None:
                break
            if step.move is not None:
                moves.append(step.move)
                rows.append(made[-1])
            picks += step.picks
            tensor, row = step.tensor, made[-1]
        else:
            tensor, row = call.inputs[0].tensor, made[-1]
    return Part((tensor, *picks), tuple(moves), tuple(rows))


_MAX_CALLS = 16
_SHAPES = frozenset({
    "view", "reshape", "flatten", "contiguous", "to", "long", "int", "clone", "detach", "cuda", "cpu", "pin_memory",
    "squeeze", "unsqueeze", "t", "T", "mT", "transpose", "swapaxes", "permute", "movedim", "float", "double",
})  # fmt: skip


class _Step(Struct, frozen=True):
    tensor: int
    move: tuple[int, int] | None = None
    picks: tuple[object, ...] = ()


def _step(flow: Dataflow, row: int, call: Call, name: str) -> _Step | None:
    """What a call took and by how much it moved it; None for a call that makes other tokens."""
    if not call.inputs or not call.outputs:
        return None
    given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    if name == "getitem":
        return _indexed(flow, row, call, given, made)
    if name == "index_select":
        return _Step(call.inputs[0].tensor, None, (call.inputs[1].tensor,))
    if name == "setitem":
        return _written(flow, call)
    if name in ("masked_fill", "where"):
        return _without_ignored(call)
    if name in ("stack", "pad_sequence"):
        return _Step(call.inputs[0].tensor, None, (len(call.inputs),))
    start = call.scalars.get("2", call.scalars.get("start"))
    if name == "narrow" and type(start) is int:
        axis = call.scalars.get("1", call.scalars.get("dim"))
        return _Step(call.inputs[0].tensor, (start, made[axis])) if type(axis) is int else None
    changed = next((axis for axis, pair in enumerate(zip(given, made, strict=False)) if pair[0] != pair[1]), None)
    if name in ("cat", "concat") and len(call.inputs) == _TWO and changed is not None:
        sizes = [shape_of(flow, use.tensor)[changed] for use in call.inputs]
        is_first = sizes[0] <= sizes[1]
        return _Step(call.inputs[1 if is_first else 0].tensor, (-sizes[0] if is_first else 0, made[changed]))
    if name == "pad" and changed is not None and type(call.scalars.get("1[0]")) is int:
        return _Step(call.inputs[0].tensor, (-call.scalars["1[0]"], made[changed]))  # type: ignore[operator, arg-type]
    if name == "roll":
        shift = call.scalars.get("shifts", call.scalars.get("1", call.scalars.get("1[0]")))
        axis = next((call.scalars[each] for each in ("dims", "dims[0]", "2", "2[0]") if each in call.scalars), None)
        if type(shift) is int and type(axis) is int:
            return _Step(call.inputs[0].tensor, (-shift, made[axis]))
    return None


_TWO = 2


def _written(flow: Dataflow, call: Call) -> _Step | None:
    """What ``labels[:, :-1] = tokens[:, 1:]`` took; of ``labels[padding] = -100`` the labels before."""
    into, number = call.inputs[0].tensor, call.scalars.get("2")
    if len(call.inputs) == _TWO and isinstance(number, int) and number < 0:  # what a loss ignores
        return _Step(into)
    written = next((use.tensor for use in call.inputs if use.place == "2"), None)
    if written is None or len(call.inputs) != _TWO or len(call.scalars) != 1:
        return None
    whole, part = shape_of(flow, into), shape_of(flow, written)
    shorter = [axis for axis, pair in enumerate(zip(whole, part, strict=False)) if pair[0] - pair[1] == 1]
    if len(whole) != len(part) or len(shorter) != 1:
        return None
    is_behind = any(place.endswith(".start") for place in call.scalars)
    return _Step(written, (-1, part[shorter[0]]) if is_behind else None)


def _without_ignored(call: Call) -> _Step | None:
    """What ``labels.masked_fill(padding, -100)`` or ``where(padding, -100, labels)`` took the other labels from."""
    numbers = [value for place, value in call.scalars.items() if place in ("1", "2", "value", "input", "other")]
    labels = [use.tensor for use in call.inputs if use.place != ("1" if plain_name(call.function) != "where" else "0")]
    is_ignored = len(numbers) == 1 and type(numbers[0]) in (int, float) and numbers[0] < 0  # type: ignore[operator]
    return _Step(labels[0]) if is_ignored and len(labels) == 1 else None


def _indexed(flow: Dataflow, row: int, call: Call, given: tuple[int, ...], made: tuple[int, ...]) -> _Step:
    if len(call.inputs) > 1:
        index, by = _index_from(flow, call.inputs[1].tensor, row)
        return _Step(call.inputs[0].tensor, (by, made[-1]) if by and made else None, (index,))
    numbers = tuple((place, value) for place, value in call.scalars.items() if "." not in place)
    start = next((value for place, value in call.scalars.items() if place.endswith(".start") and value), 0)
    if len(made) > len(given):  # as of tokens[:, 1:, None]
        made = tuple(size for size in made if size != 1)
    if len(given) != len(made) or given == made:
        return _Step(call.inputs[0].tensor, None, numbers)
    axis = next(axis for axis, pair in enumerate(zip(given, made, strict=True)) if pair[0] != pair[1])
    by = start % given[axis] if type(start) is int else 0
    return _Step(call.inputs[0].tensor, (by, made[axis]), numbers)


def _index_from(flow: Dataflow, tensor: int, row: int) -> tuple[int, int]:
    """What an index was made from, and by how much it was increased: ``i + 1`` is made from ``i``."""
    by = 0
    for maker, call in flow.makers(tensor, row, _MAX_CALLS):
        name, number = plain_name(call.function), call.scalars.get("1", call.scalars.get("other"))
        if name not in ("add", "sub") or len(call.inputs) != 1 or type(number) is not int:
            break
        by += number if name == "add" else -number
        tensor, row = call.inputs[0].tensor, maker
    return tensor, by


# -- which look-up a loss is about -------------------------------------------------------------------------------------


class Shifted(Struct, frozen=True):
    """A loss, and the look-up of its own targets, some positions before them."""

    loss: int
    lookup: int
    by: int
    samples: int
    lengths: frozenset[int]
    """Positions of the tokens that are looked up, and of the targets."""
    trained: tuple[int, int]
    """What the model computed, as the call with that number received it: the loss, or one that leaves out first
    positions which are left out of the targets as well."""
    series: frozenset[int] = frozenset()
    """Where the targets are no tokens but values: the earlier values, as the model gets them."""


def compared_from(flow: Dataflow, trained: int, target: Part, row: int) -> tuple[Part, tuple[int, int]]:
    """The targets, and what the model computed, before both sides left out the same first positions."""
    sliced = part_of(flow, trained, row)
    count = len(sliced.moves)
    if not count or target.moves[:count] != sliced.moves:
        return target, (trained, row)
    first = sliced.rows[-1]
    whole = Part(target.source, target.moves[count:], target.rows[count:])
    return whole, (flow.log.calls[first].inputs[0].tensor, first)


_LOSSES = frozenset({"cross_entropy", "nll_loss", "gather", "take_along_dim"})
_LOOKS_UP = frozenset({"embedding", "one_hot", "getitem"})


def is_loss_of_classes(call: Call) -> bool:
    """Whether a call compares results with classes, or chooses those of the classes."""
    is_loss = plain_name(call.function) in _LOSSES and len(call.inputs) > 1
    return is_loss and call.inputs[0].requires_grad and not call.inputs[1].requires_grad


def tokens_of(call: Call) -> int | None:
    """The tokens that a call looks up in a table: ``embedding(tokens, table)``, ``table[tokens]``."""
    if plain_name(call.function) not in _LOOKS_UP or not call.inputs:
        return None
    if plain_name(call.function) != "getitem":
        return call.inputs[0].tensor
    is_table = len(call.inputs) == _TWO and call.inputs[0].is_live_leaf
    return call.inputs[1].tensor if is_table else None


def shifted_lookup(flow: Dataflow, row: int) -> Shifted | None:
    """The only look-up of tokens above a loss that are the targets of later positions.

    None if the tokens of the targets are looked up elsewhere, too: an autoencoder reads what it should write.
    """
    call = flow.log.calls[row]
    target = part_of(flow, call.inputs[1].tensor, row)
    target, trained = compared_from(flow, call.inputs[0].tensor, target, row)
    found: dict[tuple[int, tuple[int, ...]], tuple[int, Part]] = {}
    for each in flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row)):
        tokens = tokens_of(flow.log.calls[each])
        if tokens is None:
            continue
        part = part_of(flow, tokens, each)
        if part.source == target.source:
            found[part.start, shape_of(flow, tokens)] = each, part
    if len(found) != 1:
        return None
    ((_, shape), (lookup_row, part)) = next(iter(found.items()))
    return shifted_by(row, lookup_row, target, part, shape, trained)


def shifted_by(
    row: int, lookup: int, target: Part, part: Part, shape: tuple[int, ...], trained: tuple[int, int]
) -> Shifted | None:
    """By how much targets are shifted against what is looked up, which has this shape; None if they are not."""
    lengths = _lengths(target, part)
    length = next((size for size in shape if size in lengths or size - 1 in lengths), None)
    by = target.start - part.start
    if length is None or length <= _MIN_LENGTH or not 0 < by < length:
        return None
    count = prod(shape) // length
    return Shifted(row, lookup, by, count, frozenset({length, *(lengths & {length, length - 1})}), trained)


_MIN_LENGTH = 2


def _lengths(target: Part, given: Part) -> set[int]:
    """The lengths that calls left on the axis along which only one of two parts was moved."""
    one, other = Counter(target.moves), Counter(given.moves)
    return {length for _, length in (one - other) + (other - one)}
