"""The scales that a term is a product of: ``exp(-v) * (y - m)**2``, ``L / sigma**2``, ``(x * exp(s) + t)**2``."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.origins import is_one_number
from gradviz.analysis.rules.bases.losses.scales.scale_powers import SHAPING, Power, powers_of
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse

_MAX_FACTORS = 400
_BOTH = 2
_ARRANGE = SHAPING | {
    "cat", "stack", "chunk", "split", "getitem", "setitem", "index_select", "gather", "flip", "unbind", "where", "T",
    "t", "mT", "solve_triangular", "select", "masked_fill", "roll",
}  # fmt: skip
_NEVER_NEGATIVE = frozenset({"square", "abs", "exp", "softplus", "relu", "mse_loss", "l1_loss", "sigmoid", "sqrt"})
_Factor = tuple[TensorUse, float, bool]
"""What a call takes, with its power, and whether only its size counts: it is squared, or its absolute value taken."""


def powers_in_product(flow: Dataflow, row: int, *, inside_squares: bool = True) -> Iterator[Power]:
    """The powers of scales with which the result of a call grows, where everything else in the product is not negative.

    Args:
        inside_squares: also look for scales of what is squared.
    """
    call = flow.log.calls[row]
    if call.outputs:
        yield from powers_of(flow, call.outputs[0].tensor, row + 1, 1.0)
    waiting, seen = [(row, 1.0, False)], set[tuple[int, bool]]()
    while waiting and len(seen) < _MAX_FACTORS:
        made, power, is_size = waiting.pop()
        if (made, is_size) in seen:
            continue
        seen.add((made, is_size))
        # Of what `addcmul` returns, the product is a part: only for the term itself it is what grows.
        is_added = made == row and not is_size and _adds_product(call)
        of_product = _of_added_product(flow, made) if is_added else _factors(flow, made)
        factors = _sized_factors(flow, made) if is_size else of_product
        for use, own, becomes_size in factors:
            if becomes_size and not inside_squares:
                continue
            yield from powers_of(flow, use.tensor, made, power * own, is_squared=becomes_size)
            above = flow.newest_producer(use.tensor, made)
            if above is not None:
                waiting.append((above, power * own, becomes_size))


def _factors(flow: Dataflow, row: int) -> Iterator[_Factor]:
    """The factors of a product that is not negative."""
    call = flow.log.calls[row]
    name, live = plain_name(call.function), call.live_inputs
    power = number_of(call, "1", "exponent", missing=0.0)
    if not live:
        return
    if name in ("square", "abs") or (name == "pow" and power > 0 and power % _BOTH == 0):
        yield live[0], 1.0 if name == "abs" else 2.0, True
    elif name in ("mul", "div") and len(call.inputs) == _BOTH:
        first, second = call.inputs
        if name == "mul" and first.tensor == second.tensor:
            yield first, 2.0, True
            return
        if first.requires_grad and _is_never_negative(flow, second, row):
            yield first, 1.0, False
        if second.requires_grad and _is_never_negative(flow, first, row):
            yield second, 1.0 if name == "mul" else -1.0, False
    elif name in SHAPING or _is_multiple(call, name):
        yield live[0], 1.0, False


def _adds_product(call: Call) -> bool:
    """Whether it is ``addcmul(a, x, y)`` or ``addcdiv(a, x, y)``, which add a positive multiple of a product."""
    is_positive = number_of(call, "value", missing=1.0) > 0
    return plain_name(call.function) in ("addcmul", "addcdiv") and is_positive and len(call.inputs) > _BOTH


def _of_added_product(flow: Dataflow, row: int) -> Iterator[_Factor]:
    """The factors of the product that ``addcmul(a, x, y)`` adds."""
    call = flow.log.calls[row]
    one, other = call.inputs[1:3]
    if one.requires_grad and _is_never_negative(flow, other, row):
        yield one, 1.0, False
    if other.requires_grad and _is_never_negative(flow, one, row):
        yield other, 1.0 if plain_name(call.function) == "addcmul" else -1.0, False


def _is_multiple(call: Call, name: str) -> bool:
    """Whether it multiplies with, or divides by, a positive number."""
    is_scaled = name == "mul" or (name == "div" and not is_number_first(call))
    return is_scaled and number_of(call, "1", "other", missing=0.0) > 0


def _sized_factors(flow: Dataflow, row: int) -> Iterator[_Factor]:
    """The factors of the size of something, and those of its parts, if it is a sum or joined from several."""
    call = flow.log.calls[row]
    name, live = plain_name(call.function), call.live_inputs
    if name in ("mul", "neg", "abs") or name in _ARRANGE:
        yield from ((use, 1.0, True) for use in live)
    elif name == "div" and not is_number_first(call):
        yield from ((use, 1.0 if use.place == "0" else -1.0, True) for use in live)
    elif name in ("add", "sub") and all(
        use.requires_grad or is_one_number(flow.values_of(use, row)) for use in call.inputs
    ):
        yield from ((use, 1.0, True) for use in live)
    elif name in ("addcmul", "addcdiv") and (
        call.inputs[0].requires_grad or is_one_number(flow.values_of(call.inputs[0], row))
    ):
        yield from ((use, -1.0 if name == "addcdiv" and use is call.inputs[2] else 1.0, True) for use in live)


def _is_never_negative(flow: Dataflow, use: TensorUse, row: int) -> bool:
    values = flow.values_of(use, row)
    if values is not None and values.minimum is not None:
        return values.minimum >= 0
    made = flow.newest_producer(use.tensor, row)
    return made is not None and _is_square(flow.log.calls[made])


def _is_square(call: Call) -> bool:
    name = plain_name(call.function)
    return name in _NEVER_NEGATIVE or (name == "pow" and number_of(call, "1", "exponent", missing=1.0) % _BOTH == 0)
