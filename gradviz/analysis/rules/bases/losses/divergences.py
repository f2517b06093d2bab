"""The divergence of a normal distribution from a standard normal one, as losses spell it.

``-0.5 * (1 + logvar - mu.pow(2) - logvar.exp())`` adds an exponential and a square, and subtracts the exponent.
``torch.distributions.kl_divergence`` adds a ratio of variances and a square, and subtracts the logarithm of the ratio.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call

_KEEPS = frozenset({"sum", "mean", "view", "reshape", "squeeze", "unsqueeze", "flatten", "to", "float", "clone"})
_JOINS = frozenset({"stack", "cat"})
_MAX_TERMS = 300


class Divergence(Struct, frozen=True):
    """A divergence from a prior in a loss."""

    row: int
    """The call of ``exp(v)`` or ``log(r)``."""
    joined: int | None
    """The sum that adds the divergence to the rest of a loss which takes it with the wrong sign, though the divergence
    alone has the right one; None if it has the wrong one itself, or is all of the loss."""


def divergence_from_prior(flow: Dataflow, backward: int, root: int, *, wanted: int) -> Divergence | None:
    """The call of ``exp(v)`` that a loss adds, where it subtracts ``v`` and adds a square of something alive; or the
    call of ``log(r)`` that it subtracts, where it adds ``r``, or its square, and such a square.

    Args:
        wanted: 1; or -1 for a loss that subtracts the divergence: ``exp(v)`` and the square, and adds ``v``.
    """
    signs: dict[int, set[int]] = defaultdict(set)
    """By tensor that ends a path of sums and factors: the signs with which the loss takes it, or its square."""
    found: list[tuple[_Step, int, int]] = []
    """Each call, what it took, and the sign with which a divergence takes that."""
    readers: dict[int, _Step | None] = {}
    """By tensor, the call that takes it."""
    squares: dict[int, _Step] = {}
    """By tensor, the call that squares it."""
    waiting: list[tuple[int, int, _Step | None]] = [(root, 1, None)]
    seen = set[tuple[int, int]]()
    while waiting and len(seen) < _MAX_TERMS:
        tensor, sign, above = waiting.pop()
        signs[tensor].add(sign)
        readers[tensor] = above
        row = flow.newest_producer(tensor, backward if above is None else above.row)
        if row is None or (row, sign) in seen:
            continue
        seen.add((row, sign))
        step = _Step(row, sign, above)
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name == "exp" and sign == wanted:
            found += [(step, each, -wanted) for each in _exponents(flow, call.inputs[0].tensor, row)]
        elif name == "log" and sign == -wanted and call.live_inputs:
            found.append((step, call.inputs[0].tensor, wanted))
        if is_square(call) and sign == wanted and call.live_inputs:
            squares[call.live_inputs[0].tensor] = readers[call.live_inputs[0].tensor] = step
            signs[call.live_inputs[0].tensor].add(sign)
        waiting += [(each, of_it, step) for each, of_it in _terms(call, name, sign)]
    for step, tensor, sign in found:
        other = next((squares[each] for each in squares if each != tensor), None)
        if other is not None and signs[tensor] == {sign}:
            return Divergence(step.row, _joined(flow, step, (other, readers[tensor]), right=-sign * wanted))
    return None


class _Step(NamedTuple):
    """A call on the way from a loss down to a term."""

    row: int
    sign: int
    """With which the loss takes what it returns."""
    above: _Step | None


def _exponents(flow: Dataflow, tensor: int, row: int) -> Iterator[int]:
    """What ``exp()`` takes, also before it was multiplied with a positive number: ``exp(2 * log_std)``."""
    yield tensor
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    is_scaled = call is not None and plain_name(call.function) in ("mul", "div") and len(call.inputs) == 1
    if call is not None and is_scaled and number_of(call, "1", "0", "other", missing=0.0) > 0:
        yield call.inputs[0].tensor


def _joined(flow: Dataflow, logarithm: _Step, others: tuple[_Step | None, ...], *, right: int) -> int | None:
    """The sum that joins a divergence with the rest, if the divergence has the right sign up to there."""
    rows = [{step.row for step in _upwards(other)} for other in others]
    whole = next((step for step in _upwards(logarithm) if all(step.row in each for each in rows)), None)
    if whole is None or logarithm.sign * whole.sign != right:
        return None
    for step in _upwards(whole.above):
        call = flow.log.calls[step.row]
        if plain_name(call.function) in ("add", "sub") and len(call.live_inputs) > 1:
            return step.row
    return None


def _upwards(step: _Step | None) -> Iterator[_Step]:
    while step is not None:
        yield step
        step = step.above


def _terms(call: Call, name: str, sign: int) -> Iterator[tuple[int, int]]:
    """What a sum or a product with a number takes, with its sign."""
    live = call.live_inputs
    if call.kind != "operation" or not live:
        return
    first = call.function.rpartition(".")[2].startswith("__r")
    if name == "add" and number_of(call, "alpha", missing=1.0) > 0:
        yield from ((use.tensor, sign) for use in live)
    elif name == "sub":
        for use in live:
            is_taken_away = use.place in ("1", "other") or (first and use.place == "0")
            yield use.tensor, -sign if is_taken_away else sign
    elif name == "neg":
        yield live[0].tensor, -sign
    elif name in ("mul", "div") and len(call.inputs) == 1:
        factor = number_of(call, "1", "0", "other", missing=0.0)
        if factor:
            yield live[0].tensor, sign if factor > 0 else -sign
    elif name in _KEEPS or (name == "einsum" and len(call.inputs) == 1):
        yield live[0].tensor, sign
    elif name in _JOINS:
        yield from ((use.tensor, sign) for use in live)
