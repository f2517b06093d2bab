"""Scales and their logarithms on two sides of a function that bounds them: ``exp(tanh(s))``, and the sum of ``s``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.scales.masked_exponentials import is_mask
from gradviz.analysis.rules.bases.losses.scales.scale_powers import Key, Power, powers_of
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call, TensorUse

BOUNDS = frozenset({"tanh", "softsign", "atan", "arctan"})
"""They change all values."""
CLAMPS = frozenset({"clamp", "clip", "hardtanh", "clamp_min", "clamp_max"})
_OTHERS = frozenset({"sigmoid", "softplus", "logsigmoid", "hardsigmoid"})
_POSITIVE = frozenset({"sigmoid", "softplus"})
"""They make scales by themselves."""
_PRODUCTS = frozenset({"mul", "div"})
_BOTH = 2


class Bounded(Struct, frozen=True):
    """A function that bounds a scale, or its logarithm."""

    row: int
    power: Power
    """The scale that it makes."""
    given: TensorUse
    """What it takes."""
    above: tuple[Power, ...]
    """Of what that was made, as if it were a logarithm: with the factors of it."""


def bounds_of(flow: Dataflow, powers: Iterable[Power]) -> Iterator[Bounded]:
    """The functions that made one of these scales, or the logarithm of one."""
    for power in powers:
        row = flow.newest_producer(power.key.tensor, power.row)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or not call.live_inputs or not _bounds(flow, power, call):
            continue
        given = call.live_inputs[0]
        yield Bounded(row, power, given, tuple(powers_of(flow, given.tensor, row, 1.0, is_log=True)))


def _bounds(flow: Dataflow, power: Power, call: Call) -> bool:
    name, user = plain_name(call.function), flow.log.calls[power.row]
    if power.key.is_log:
        return name in BOUNDS | CLAMPS | _OTHERS
    is_factor = plain_name(user.function) in _PRODUCTS and len(user.inputs) == _BOTH
    is_of_itself = any(use.tensor == call.inputs[0].tensor for use in user.inputs)  # as SiLU is
    return name in _POSITIVE and is_factor and not is_of_itself


def up_to_bound(flow: Dataflow, powers: Iterable[Power]) -> Iterator[Power]:
    """What a scale was made of, as far as no function bounds it."""
    for power in powers:
        yield power
        if next(bounds_of(flow, (power,)), None) is not None:
            return


def changes_values(flow: Dataflow, bounded: Bounded, directions: tuple[int, ...]) -> bool:
    """Whether a function returns other values than it takes.

    Args:
        directions: for a clamp, the ends at which it has to do so most of the times: -1 the lower one, 1 the upper one.
    """
    call = flow.log.calls[bounded.row]
    if plain_name(call.function) not in CLAMPS:
        return True
    rows = [row for row, each in enumerate(flow.log.calls) if (each.call_site, each.function) == _place(call)]
    return len(rows) < _BOTH * sum(_is_beyond(flow, row, directions) for row in rows)


def _place(call: Call) -> tuple[int | None, str]:
    return call.call_site, call.function


def _is_beyond(flow: Dataflow, row: int, directions: tuple[int, ...]) -> bool:
    call = flow.log.calls[row]
    values = flow.values_of(call.inputs[0], row) if call.inputs else None
    if values is None or values.minimum is None or values.maximum is None:
        return False
    lowest, highest = _limits(call)
    return (-1 in directions and values.minimum < lowest) or (1 in directions and values.maximum > highest)


def _limits(call: Call) -> tuple[float, float]:
    """The numbers between which a clamp leaves values as they are."""
    name, none = plain_name(call.function), float("inf")
    lowest = -none if name == "clamp_max" else number_of(call, "1", "min", "min_val", missing=-none)
    places = ("1", "max") if name == "clamp_max" else ("2", "max", "max_val")
    return lowest, none if name == "clamp_min" else number_of(call, *places, missing=none)


def is_factor_of_values(flow: Dataflow, bounded: Bounded, powers: Iterable[Power]) -> bool:
    """Whether one of these scales, which a function bounds, is multiplied with something other than a mask."""
    for power in powers:
        call = flow.log.calls[power.row]
        is_product = plain_name(call.function) in _PRODUCTS and len(call.inputs) == _BOTH and not power.key.is_log
        if is_product and not any(is_mask(flow, use, power.row) for use in call.inputs):
            made_of = powers_of(flow, power.key.tensor, power.row, 1.0)
            if any(each.key == bounded.power.key for each in made_of):
                return True
    return False


def common_key(powers: Iterable[Power], keys: Iterable[Key]) -> tuple[Key, Power] | None:
    """The first of some keys that something was made of."""
    known = set(keys)
    return next(((key, power) for power in powers for key in power.key.and_wholes() if key in known), None)
