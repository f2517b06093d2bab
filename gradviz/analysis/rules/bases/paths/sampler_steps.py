"""Steps of a sampler: ``x = x + dt * net(x, t)`` without a gradient, and in which direction its time goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2
_MAX_STEPS = 12
_MAX_CALLS = 400
_MIN_UPDATES = 3
_WAVES = frozenset({"sin", "cos"})


class _Update(Struct, frozen=True):
    """A call that adds a network's answer to what it was asked about."""

    row: int
    sign: int
    """With which it adds the answer."""
    answer: int
    """The call of the last layer."""
    x: int
    """The tensor about which the network was asked."""


def sampler_directions(flow: Dataflow) -> set[int]:
    """For every sampler: 1 if it goes along the answers of the network as its time grows, -1 if against them, 0 if it
    is not known how its time goes, but that it adds them."""
    updates: dict[int | None, list[_Update]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        is_sum = plain_name(call.function) in ("add", "sub") and len(call.inputs) == _BOTH and not call.live_inputs
        found = _update(flow, row, call) if is_sum and call.kind == "operation" else None
        if found is not None:
            updates[call.call_site].append(found)
    runs = (run for each in updates.values() for run in _runs(flow, each))
    return {_direction(flow, run) for run in runs if len(run) >= _MIN_UPDATES}


def _update(flow: Dataflow, row: int, call: Call) -> _Update | None:
    """What a call adds to what a network was asked about, if that is the network's answer."""
    for x, answer in (call.inputs, call.inputs[::-1]):
        sign = -1 if plain_name(call.function) == "sub" and answer is call.inputs[1] else 1
        sign *= -1 if number_of(call, "alpha", missing=1.0) < 0 else 1
        found = _scaled_answer(flow, answer, row)
        if found is not None and _is_asked(flow, x, found[1]):
            return _Update(row, sign * found[0], found[1], x.tensor)
    return None


def _runs(flow: Dataflow, updates: list[_Update]) -> list[list[_Update]]:
    """The updates of each time that the program sampled: the first of them begins with something new."""
    runs: list[list[_Update]] = [updates[:1]]
    for one, other in pairwise(updates):
        if one.row in flow.ancestors(other.x, other.row, since=one.row):
            runs[-1].append(other)
        else:
            runs.append([other])
    return runs


def _scaled_answer(flow: Dataflow, use: TensorUse, row: int) -> tuple[int, int] | None:
    """The sign of the factor of a network's answer, and the call of its last layer."""
    sign = 1
    for _ in range(_MAX_STEPS):
        made = flow.newest_producer(use.tensor, row)
        if made is None:
            return None
        call, row = flow.log.calls[made], made
        if any(flow.log.tensors[each.tensor].role == "parameter" for each in call.inputs):
            return sign, made
        name = plain_name(call.function)
        if not call.inputs or not (name in SHAPE_ONLY or name in ("mul", "div", "neg")):
            return None
        given = _sign_of_factor(flow, call, made, name)
        if given is None:
            return None
        sign, use = sign * given[0], given[1]
    return None


def _sign_of_factor(flow: Dataflow, call: Call, row: int, name: str) -> tuple[int, TensorUse] | None:
    if name == "neg":
        return -1, call.inputs[0]
    if name not in ("mul", "div") or len(call.inputs) == 1:
        number = number_of(call, *OPERAND, missing=1.0) if name in ("mul", "div") else 1.0
        return (-1 if number < 0 else 1), call.inputs[0]
    for use, other in (call.inputs, call.inputs[::-1]):
        values = flow.values_of(use, row)
        if values is not None and values.minimum is not None and values.minimum == values.maximum:
            return (-1 if values.minimum < 0 else 1), other
    return None


def _is_asked(flow: Dataflow, x: TensorUse, answer: int) -> bool:
    """Whether a network's answer was computed from a tensor."""
    use = flow.log.calls[answer].outputs[0]
    above = flow.ancestors(use.tensor, answer + 1, since=max(0, answer - _MAX_CALLS))
    return any(x.tensor == each.tensor for row in above for each in flow.log.calls[row].inputs)


def _direction(flow: Dataflow, updates: list[_Update]) -> int:
    signs = {each.sign for each in updates}
    if len(signs) > 1:
        return -1
    (sign,) = signs
    times: list[dict[tuple[int | None, str], float]] = []
    before = [updates[0].row - _MAX_CALLS, *(each.row for each in updates)]
    for last, update in zip(before, updates, strict=False):
        times.append(dict(_constants(flow, max(0, last), update.row, update.answer)))
    falls = all(any(other[each] < one[each] for each in one if each in other) for one, other in pairwise(times))
    rises = all(any(other[each] > one[each] for each in one if each in other) for one, other in pairwise(times))
    if rises == falls:
        return 0 if sign > 0 else -1
    return sign if rises else -sign


def _constants(flow: Dataflow, first: int, last: int, answer: int) -> Iterator[tuple[tuple[int | None, str], float]]:
    """The times that a network was given: tensors in which all numbers are the same, by the line and what made them."""
    use = flow.log.calls[answer].outputs[0]
    for row in flow.ancestors(use.tensor, answer + 1, since=first):
        call = flow.log.calls[row]
        if row >= last or any(flow.log.tensors[each.tensor].role == "parameter" for each in call.inputs):
            continue
        # Features of a time may fall while it grows.
        for out in call.outputs if plain_name(call.function) not in _WAVES else ():
            values = out.values
            if values is not None and values.minimum is not None and values.minimum == values.maximum:
                yield (call.call_site, call.function), values.minimum
