"""Sums that a loop carries on: ``last = delta + gamma * lam * last``, and what its turns are multiplied with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2
_MAX_FACTORS = 12
_MAX_TERMS = 8
_PASSES = (SHAPE_ONLY | {"detach"}) - PARTS


class Factors(Struct, frozen=True):
    """What a product is made of."""

    tensors: tuple[tuple[int, int], ...]
    """Each with the row of the call that received it."""
    has_zero: bool
    """Whether one of its numbers is an exact zero."""
    flags: tuple[tuple[int, int], ...]
    """Those of its tensors with zeros that have nothing but numbers from 0 to 1, as a flag has, discounted or not."""

    @property
    def is_off(self) -> bool:
        """Whether some of its elements are multiplied with an exact zero."""
        return self.has_zero or bool(self.flags)

    @property
    def is_masked(self) -> bool:
        """Whether such a zero is one factor, and what it hides another."""
        return (self.has_zero and bool(self.tensors)) or 0 < len(self.flags) < len(self.tensors)


class Turn(Struct, frozen=True):
    """A turn of the loop, after the first."""

    row: int
    """The call that adds the carried sum."""
    carried: Factors
    is_carried: bool
    """Whether the sum that comes from the turn before has no zeros."""
    added: tuple[Factors, ...]
    """The products among what is added to it."""
    has_subtracted: bool
    """Whether a tensor is taken away from these."""


def carried_sums(flow: Dataflow) -> Iterator[list[Turn]]:
    """The turns of each line that adds its own last result, times something, to something new."""
    lines: dict[int | None, list[Turn]] = defaultdict(list)
    for row, call in calls_named(flow, ("add",)):
        if len(call.inputs) != _BOTH or call.kind != "operation":
            continue
        for use, other in (call.inputs, call.inputs[::-1]):
            turn = _turn(flow, row, use, other)
            if turn is not None:
                lines[call.call_site].append(turn)
                break
    yield from lines.values()


def _turn(flow: Dataflow, row: int, use: TensorUse, other: TensorUse) -> Turn | None:
    factors = _factors(flow, use.tensor, row, flow.log.calls[row].call_site)
    if factors is None or factors[0] is None or not _is_product(flow, use, row):
        return None
    values = flow.values(factors[0], row)
    terms = list(_terms(flow, other.tensor, row))
    return Turn(
        row,
        factors[1],
        values is not None and values.count > values.zeros == 0,
        tuple(each for sign, at, tensor in terms if sign > 0 and (each := _product(flow, tensor, at)) is not None),
        any(sign < 0 for sign, _, _ in terms),
    )


def _is_product(flow: Dataflow, use: TensorUse, row: int) -> bool:
    made = flow.newest_producer(use.tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) == "mul"


def _product(flow: Dataflow, tensor: int, row: int) -> Factors | None:
    found = _factors(flow, tensor, row, None)
    return None if found is None else found[1]


def _factors(flow: Dataflow, tensor: int, row: int, site: int | None) -> tuple[int | None, Factors] | None:
    """The factors of a tensor, without the last result of the calls of a line; and this result."""
    carried, leaves, has_zero = None, list[tuple[int, int]](), False
    waiting = [(tensor, row)]
    for _ in range(_MAX_FACTORS):
        if not waiting:
            break
        tensor, row = waiting.pop()
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        onward = None if made is None or call is None else _onward(flow, call, made)
        if call is not None and site is not None and call.call_site == site and plain_name(call.function) == "add":
            carried = tensor
        elif made is None or call is None or onward is None:
            leaves.append((tensor, row))
        else:
            is_number = plain_name(call.function) == "mul" and len(call.inputs) == 1
            has_zero |= is_number and number_of(call, *OPERAND, missing=1.0) == 0
            waiting += [(each, made) for each in onward]
    if waiting or (site is not None and carried is None):
        return None
    return carried, Factors(tuple(leaves), has_zero, tuple(leaf for leaf in leaves if _is_flag(flow, *leaf)))


def _onward(flow: Dataflow, call: Call, row: int) -> list[int] | None:
    """What a call multiplies, or hands on; None if it does something else."""
    name, stored = plain_name(call.function), _stored_before(flow, call, row)
    if stored is not None:
        return [stored]
    if name == "mul" and call.inputs:
        return [use.tensor for use in call.inputs]
    return [call.inputs[0].tensor] if name in _PASSES and call.inputs else None


def _stored_before(flow: Dataflow, call: Call, row: int) -> int | None:
    """What was assigned last to elements of a tensor of which others are taken now: ``adv[t + 1]`` after
    ``adv[t + 1] = ...`` in the turn before."""
    if plain_name(call.function) not in ("getitem", "select") or not call.inputs:
        return None
    made = flow.newest_producer(call.inputs[0].tensor, row)
    written = None if made is None else flow.log.calls[made]
    if written is None or plain_name(written.function) != "setitem" or len(written.inputs) < _BOTH:
        return None
    return written.inputs[-1].tensor


def _is_flag(flow: Dataflow, tensor: int, row: int) -> bool:
    values = flow.values(tensor, row)
    if values is None or values.minimum is None or values.maximum is None or not values.zeros:
        return False
    return values.minimum == 0 and values.maximum <= 1


def _terms(flow: Dataflow, tensor: int, row: int) -> Iterator[tuple[int, int, int]]:
    """What a tensor is a sum of: the sign of each, the row that received it, and its number."""
    waiting, count = [(1, row, tensor)], 0
    while waiting and count < _MAX_TERMS:
        count += 1
        sign, row, tensor = waiting.pop()
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        name = "" if call is None else plain_name(call.function)
        if made is None or call is None or name not in ("add", "sub") or "alpha" in call.scalars:
            yield sign, row, tensor
            continue
        is_turned = name == "sub" and is_number_first(call) and len(call.inputs) == 1
        for use in call.inputs:
            is_second = len(call.inputs) == _BOTH and use is call.inputs[1] and name == "sub"
            if "rsub" in call.function and len(call.inputs) == _BOTH:
                is_second = use is call.inputs[0]
            waiting.append((-sign if is_second or is_turned else sign, made, use.tensor))
