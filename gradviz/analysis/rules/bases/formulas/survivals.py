"""Products of what is left after each step of several: ``cumprod(1 - a)``, the exponential of a cumulative sum."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_KEEPS = frozenset({"clone", "contiguous", "to", "float", "double", "unsqueeze", "squeeze", "clamp", "clip"})
_SMALL = 1e-3
_MAX_STEPS = 8
_BOTH = 2


class Survival(Struct, frozen=True):
    """A cumulative product."""

    row: int
    """The call that accumulates."""
    left: int | None
    """What is left after each step, of which it is the product."""
    rates: frozenset[int] = frozenset()
    """Or the factors of the rates of which it adds up the negative exponents."""


def survival_of(flow: Dataflow, tensor: int, row: int) -> Survival | None:
    """The cumulative product that a tensor is, without a shift."""
    found = maker_of_values(flow, tensor, row)
    if found is None:
        return None
    made, call = found
    name = plain_name(call.function)
    if name == "cumprod":
        return Survival(made, call.inputs[0].tensor)
    if name != "exp":
        return None
    found = _without_sign(flow, call.inputs[0].tensor, made)
    if found is None or plain_name(found[1].function) != "cumsum":
        return None
    summed, given = found[0], found[1].inputs[0].tensor
    inner = maker_of_values(flow, given, summed)
    if inner is not None and plain_name(inner[1].function) == "log":
        return Survival(summed, inner[1].inputs[0].tensor)
    return Survival(summed, None, factors_of(flow, given, summed))


def complement_of(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The ``x`` of a tensor that is ``1 - x``."""
    found = maker_of_values(flow, tensor, row)
    if found is None:
        return None
    made, call = found
    name, number = plain_name(call.function), _number(call)
    if name == "sub" and len(call.inputs) == 1 and number == 1:
        is_turned = call.function.endswith("rsub__") or call.inputs[0].place != "0" or "0" in call.scalars
        return call.inputs[0].tensor if is_turned else None
    if name == "rsub" and len(call.inputs) == 1 and number == 1:
        return call.inputs[0].tensor
    if name == "sub" and len(call.inputs) == _BOTH:
        first = flow.newest_producer(call.inputs[0].tensor, made)
        is_ones = first is not None and plain_name(flow.log.calls[first].function) in ("ones", "ones_like")
        return call.inputs[1].tensor if is_ones else None
    if name == "add" and number == 1:
        before = flow.newest_producer(call.inputs[0].tensor, made)
        is_negated = before is not None and plain_name(flow.log.calls[before].function) == "neg"
        return flow.log.calls[before].inputs[0].tensor if before is not None and is_negated else None
    return None


def maker_of_values(flow: Dataflow, tensor: int, row: int) -> tuple[int, Call] | None:
    """The call that made a tensor, before copies, bounds and a tiny number that was added."""
    tensor, row = _values_behind(flow, tensor, row)
    made = flow.newest_producer(tensor, row)
    return None if made is None or not flow.log.calls[made].inputs else (made, flow.log.calls[made])


def values_behind(flow: Dataflow, tensor: int, row: int) -> int:
    """The tensor before copies, bounds and a tiny number that was added."""
    return _values_behind(flow, tensor, row)[0]


def _values_behind(flow: Dataflow, tensor: int, row: int) -> tuple[int, int]:
    for _ in range(_MAX_STEPS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or len(call.inputs) != 1:
            break
        name, number = plain_name(call.function), _number(call)
        is_tiny = name == "add" and number is not None and abs(number) < _SMALL
        if name not in _KEEPS and not is_tiny:
            break
        tensor, row = call.inputs[0].tensor, made
    return tensor, row


def factors_of(flow: Dataflow, tensor: int, row: int) -> frozenset[int]:
    """The tensors whose product a tensor is, whatever its sign."""
    waiting, found = [(tensor, row)], set[int]()
    for _ in range(_MAX_STEPS):
        if not waiting:
            break
        tensor, row = waiting.pop()
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is not None and call is not None and plain_name(call.function) in ("neg", "mul") and call.inputs:
            waiting += [(use.tensor, made) for use in call.inputs]
        else:
            found.add(tensor)
    return frozenset(found | {tensor for tensor, _ in waiting})


def _without_sign(flow: Dataflow, tensor: int, row: int) -> tuple[int, Call] | None:
    """The call that made a tensor, before its sign was turned."""
    found = maker_of_values(flow, tensor, row)
    while found is not None and plain_name(found[1].function) in ("neg", "mul") and len(found[1].inputs) == 1:
        if plain_name(found[1].function) == "mul" and _number(found[1]) != -1:
            return None
        found = maker_of_values(flow, found[1].inputs[0].tensor, found[0])
    return found


def _number(call: Call) -> float | None:
    numbers = [call.scalars[place] for place in ("0", "1", "input", "other") if place in call.scalars]
    return float(numbers[0]) if len(numbers) == 1 and isinstance(numbers[0], (int, float)) else None
