"""Running averages of gradients and of their squares: what a tensor is made of, below its root and its correction.

What was computed since the last backward is followed upwards; what is older than that is the average as it was before.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import Any

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.weighted_parameters import number_given, parts_of
from gradviz.analysis.rules.bases.formulas.decays_by_hand import may_train
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.graph.call_log import Call

_BOTH = 2
_MAX_CALLS = 24
_HALF = 0.5
_BOUNDS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "maximum", "minimum", "max", "min"})
_KEEP = frozenset({"abs", "detach", "clone", "data", "to", "copy", "view", "reshape"})


class Moment(Struct, frozen=True):
    """What a tensor is made of: the average of before, and the gradient of a parameter or its square."""

    leaf: int
    is_square: bool
    kept: float
    """The factor of the average of before; 0 where it is the gradient itself."""
    taken: float | None
    """That of the gradient or its square, if it is known."""
    average: int | None
    """The memory of the average."""
    updated: int
    """The call that added the gradient."""
    has_root: bool = False
    is_bounded: bool = False
    added: float = 0.0
    """The number that keeps the divisor from zero."""
    correction: float = 1.0
    """The number by which the average was divided."""
    corrected: int | None = None
    """The call that divided it."""


def leaves_of_gradients(case: Case) -> dict[int, int]:
    """By gradient: its leaf; also of those that ``autograd.grad()`` returned."""
    found = dict(case.histories.leaves_of_gradients)
    for row in case.dataflow.rows_of_kind("backward"):
        call = case.dataflow.log.calls[row]
        if len(call.asked) == len(call.outputs):
            found.update((made.tensor, asked.tensor) for asked, made in zip(call.asked, call.outputs, strict=True))
    return found


def moment_of(flow: Dataflow, leaves: dict[int, int], tensor: int, row: int) -> Moment | None:
    """What a tensor is made of, below its root, its bound and what was added to it."""
    since, before = flow.backward_before(row) or 0, row
    facts: dict[str, Any] = {}
    for _ in range(_MAX_CALLS):
        if tensor in leaves:
            return Moment(leaves[tensor], is_square=False, kept=0.0, taken=1.0, average=None, updated=row, **facts)
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.lists.single(made, tensor)
        if made is None or call is None or made <= since or not call.inputs:
            return None
        name, kept = plain_name(call.function), _beside_numbers(flow, call)
        if (
            name == "mul"
            and kept is not None
            and _number_beside(flow, call, made) is not None
            and leaves.get(kept) is None
        ):
            tensor, before = kept, made
            continue
        if kept is None or name in ("add", "sub", "mul", "lerp", "addcmul") or is_square(call):
            number = _number_beside(flow, call, made)
            if name != "add" or kept is None or number is None:
                return _average(flow, leaves, tensor, before, since, facts)
            facts["added"] = max(facts.get("added", 0.0), abs(number))
        elif name == "sqrt" or (name == "pow" and number_given(call, "1", "exponent") == _HALF):
            # What was divided outside of the root is the root of the correction.
            facts |= {"has_root": True, "correction": facts.get("correction", 1.0) ** 2}
        elif name == "div":
            divisor = _number_beside(flow, call, made)
            if not divisor or is_turned(call):
                return None
            facts |= {"correction": facts.get("correction", 1.0) * divisor, "corrected": made}
        elif name in _BOUNDS:
            facts["is_bounded"] = True
        elif name not in _KEEP:
            return None
        tensor, before = kept, made
    return None


def _beside_numbers(flow: Dataflow, call: Call) -> int | None:
    """The only tensor that a call takes that is more than a number, or what ``copy_()`` writes; None if it has two."""
    if plain_name(call.function) == "copy":
        return call.inputs[-1].tensor
    large = [use.tensor for use in call.inputs if prod(shape_of(flow, use.tensor)) != 1]
    return large[0] if len(large) == 1 else None


def _number_beside(flow: Dataflow, call: Call, row: int) -> float | None:
    """The number that a call takes beside a tensor, also one in a tensor."""
    number = number_given(call, "1", "0", "other")
    for use in call.inputs[1:] if number is None else ():
        values = flow.values_of(use, row) if prod(shape_of(flow, use.tensor)) == 1 else None
        number = None if values is None else values.minimum
    return number


def _average(
    flow: Dataflow, leaves: dict[int, int], tensor: int, before: int, since: int, facts: dict[str, Any]
) -> Moment | None:
    """The sum of an average of before and a gradient, or its square, that a tensor is."""
    kept: dict[int, float] = defaultdict(float)
    found: set[tuple[int, bool]] = set()
    taken: list[float | None] = []
    waiting, count, updated = [(tensor, before, 1.0)], 0, before
    while waiting:
        tensor, before, factor = waiting.pop()
        made = flow.newest_producer(tensor, before)
        if tensor in leaves:
            found.add((leaves[tensor], False))
            taken.append(factor)
            updated = before
        elif made is None or made <= since:
            kept[tensor] += factor
        else:
            call, count = flow.lists.single(made, tensor), count + 1
            squared = _squared(flow, leaves, call, made)
            parts = _parts(flow, call, made, is_square=squared is not None)
            if parts is None or count > _MAX_CALLS:
                return None
            if squared is not None:
                found.add((squared, True))
                own = _factor_of_square(flow, call, made)
                taken.append(None if own is None else factor * own)
                updated = made
            waiting += [(each, made, factor * weight) for each, weight in parts]
    averages = {each: factor for each, factor in kept.items() if not may_train(flow, each)}
    if len(found) != 1 or len(averages) > 1:
        return None
    (leaf, is_of_square), (average, factor) = *found, next(iter(averages.items()), (None, 0.0))
    memory = None if average is None else flow.memory_of(average)
    return Moment(leaf, is_of_square, factor, taken[0] if len(taken) == 1 else None, memory, updated, **facts)


def _factor_of_square(flow: Dataflow, call: Call, row: int) -> float | None:
    """The number that multiplies the square which a call adds or returns; None if a factor of it has one of its own."""
    if is_square(call):
        return 1.0
    plain = all(not _is_scaled(flow, use.tensor, row) for use in call.inputs[-_BOTH:])
    if not plain:
        return None
    return (number_given(call, "value") if "value" in call.scalars else 1.0) if call.scalars else 1.0


def _is_scaled(flow: Dataflow, tensor: int, row: int) -> bool:
    return _unscaled(flow, tensor, row) != tensor


def _parts(flow: Dataflow, call: Call, row: int, *, is_square: bool) -> list[tuple[int, float]] | None:
    """The tensors that a call adds up, with their factors, without the square that it adds or returns."""
    if not is_square:
        return parts_of(flow, call, row)
    return [(call.inputs[0].tensor, 1.0)] if plain_name(call.function) == "addcmul" else []


def _squared(flow: Dataflow, leaves: dict[int, int], call: Call, row: int) -> int | None:
    """The leaf whose gradient, perhaps without a part of it, a call returns the square of, or adds the square of."""
    name, inputs = plain_name(call.function), [use.tensor for use in call.inputs]
    is_product = (name == "addcmul" and len(inputs) > _BOTH) or (name == "mul" and len(inputs) == _BOTH)
    is_of_one = is_product and len({_unscaled(flow, each, row) for each in inputs[-_BOTH:]}) == 1
    if not is_of_one and not is_square(call):
        return None
    waiting, seen = [(inputs[-1], row)], set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        tensor, before = waiting.pop()
        if tensor in leaves:
            return leaves[tensor]
        made = flow.newest_producer(tensor, before)
        if made is not None and made not in seen and made > (flow.backward_before(row) or 0):
            seen.add(made)
            waiting += [(use.tensor, made) for use in flow.lists.single(made, tensor).inputs]
    return None


def _unscaled(flow: Dataflow, tensor: int, before: int) -> int:
    """What a tensor is a multiple of: ``c * g * g`` multiplies a multiple of the gradient by the gradient."""
    for _ in range(_BOTH):
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.lists.single(made, tensor)
        if made is None or call is None or call.changed or plain_name(call.function) not in ("mul", "div", "neg"):
            break
        kept = _beside_numbers(flow, call)
        if kept is None:
            break
        tensor, before = kept, made
    return tensor


def is_turned(call: Call) -> bool:
    return call.function.endswith(("__rtruediv__", "__rdiv__"))
