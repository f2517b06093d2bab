"""The divergence of a normal distribution from a standard normal one, as losses spell it.

``-0.5 * (1 + logvar - mu.pow(2) - logvar.exp())`` adds an exponential and a square, and subtracts the exponent.
``torch.distributions.kl_divergence`` adds a ratio of variances and a square, and subtracts the logarithm of the ratio.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call

_KEEPS = frozenset({"sum", "mean", "view", "reshape", "squeeze", "unsqueeze", "flatten", "to", "float", "clone"})
_JOINS = frozenset({"stack", "cat"})
_MAX_TERMS = 300


def divergence_from_prior(flow: Dataflow, backward: int, root: int, *, wanted: int) -> int | None:
    """The call of ``exp(v)`` that a loss adds, where it subtracts ``v`` and adds a square of something alive; or the
    call of ``log(r)`` that it subtracts, where it adds ``r`` and such a square.

    Args:
        wanted: 1; or -1 for a loss that subtracts the divergence: ``exp(v)`` and the square, and adds ``v``.
    """
    signs: dict[int, set[int]] = defaultdict(set)
    """By tensor that ends a path of sums and factors: the signs with which the loss takes it."""
    found: list[tuple[int, int, int]] = []
    """Each call, what it took, and the sign with which a divergence takes that."""
    squares = False
    waiting, seen = [(root, backward, 1)], set[tuple[int, int]]()
    while waiting and len(seen) < _MAX_TERMS:
        tensor, before, sign = waiting.pop()
        signs[tensor].add(sign)
        row = flow.newest_producer(tensor, before)
        if row is None or (row, sign) in seen:
            continue
        seen.add((row, sign))
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name == "exp" and sign == wanted:
            found.append((row, call.inputs[0].tensor, -wanted))
        elif name == "log" and sign == -wanted and call.live_inputs:
            found.append((row, call.inputs[0].tensor, wanted))
        is_square = name == "square" or (name == "pow" and call.scalars.get("1", call.scalars.get("exponent")) == _TWO)
        squares |= is_square and sign == wanted and bool(call.live_inputs)
        waiting += [(each, row, of_it) for each, of_it in _terms(call, name, sign)]
    if not squares:
        return None
    return next((row for row, tensor, sign in found if signs[tensor] == {sign}), None)


_TWO = 2


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
    elif name in _KEEPS:
        yield live[0].tensor, sign
    elif name in _JOINS:
        yield from ((use.tensor, sign) for use in live)
