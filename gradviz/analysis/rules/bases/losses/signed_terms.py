"""The terms of a loss with their signs: through sums, and products with numbers or tensors whose sign is known."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse


class Term(Struct, frozen=True):
    """A call that makes one of the terms of a loss."""

    row: int
    sign: int
    """1 if the loss grows with its result, -1 if it falls. Through a ratio or a clamp it is that of the direction."""
    is_sure: bool
    """Whether the sign is that of the whole result: it is not behind weights of both signs, or a choice of one term."""
    is_weighted: bool
    """Whether the loss multiplies it by a number or by a tensor without a gradient."""
    has_both_signs: bool
    """Whether such a tensor has positive and negative values, as advantages do."""
    path: tuple[int, ...]
    """The calls from the loss down to this one."""


MAX_TERMS = 1_000
_KEEPS = frozenset({
    "sum", "mean", "view", "reshape", "squeeze", "unsqueeze", "flatten", "to", "float", "clone", "stack", "cat",
    "getitem", "masked_select", "T", "t", "expand", "contiguous", "nansum", "select", "chunk", "split", "unbind",
    "permute", "transpose", "double", "expand_as", "nanmean", "diagonal", "ravel", "narrow", "movedim", "unflatten",
    "broadcast_to", "atleast_1d", "hstack", "vstack", "index_select", "gather", "take_along_dim", "trace",
})  # fmt: skip
_ROUGHLY_KEEPS = frozenset({
    "exp", "log", "log10", "log2", "log1p", "min", "minimum", "clamp", "where", "masked_fill", "max", "maximum",
})  # fmt: skip
PRODUCTS = frozenset({"mul", "dot", "matmul", "mv", "mm", "bmm", "inner", "vecdot", "tensordot", "einsum"})
"""They are linear in each of the two tensors that they take."""


def signed_terms(flow: Dataflow, backward: int, root: int) -> Iterator[Term]:
    """Every call from which a loss is made as a sum, the loss first."""
    first = flow.newest_producer(root, backward)
    waiting = [] if first is None else [Term(first, 1, True, False, False, (first,))]
    seen: set[tuple[int, int, bool, bool, bool]] = set()
    while waiting and len(seen) < MAX_TERMS:
        term = waiting.pop()
        key = (term.row, term.sign, term.is_sure, term.is_weighted, term.has_both_signs)
        if key in seen:
            continue
        seen.add(key)
        yield term
        for use, sign, is_sure, is_weighted, has_both in operands(flow, term.row):
            row = flow.newest_producer(use.tensor, term.row)
            if row is not None and len(term.path) < MAX_TERMS:
                waiting.append(
                    Term(
                        row,
                        sign * term.sign,
                        is_sure and term.is_sure,
                        is_weighted or term.is_weighted,
                        has_both or term.has_both_signs,
                        (*term.path, row),
                    )
                )


Operand = tuple[TensorUse, int, bool, bool, bool]


def operands(flow: Dataflow, row: int) -> Iterator[Operand]:
    """What a call takes that keeps or turns a sign: with its sign, and the flags of `Term`."""
    call = flow.log.calls[row]
    name, live = plain_name(call.function), call.live_inputs
    if call.kind != "operation":
        return
    if name == "add":
        factor = number_of(call, "alpha", missing=1.0)
        for use in live:
            yield use, -1 if factor < 0 and use.place in ("1", "other") else 1, True, False, False
    elif name == "sub":
        for use in live:
            is_taken_away = use.place in ("1", "other") or (is_number_first(call) and use.place == "0")
            yield use, -1 if is_taken_away else 1, True, False, False
    elif name == "neg":
        yield live[0], -1, True, False, False
    elif name == "lerp":
        yield from _of_lerp(flow, row, call)
    elif name in ("addcmul", "addcdiv"):
        yield from _of_added_product(flow, row, call, name)
    elif name == "einsum" and len(call.inputs) == 1:  # a sum over some axes, or an exchange of axes
        yield from ((use, 1, True, False, False) for use in live)
    elif name in PRODUCTS or name == "div":
        yield from _of_product(flow, row, call, name)
    elif name in _KEEPS or name in _ROUGHLY_KEEPS:
        yield from ((use, 1, name in _KEEPS, False, False) for use in live)


def _of_lerp(flow: Dataflow, row: int, call: Call) -> Iterator[Operand]:
    """``lerp(a, b, w)`` is ``(1 - w) * a + w * b``: both are added where ``w`` is between 0 and 1."""
    weight = next((use for use in call.inputs if use.place in ("2", "weight")), None)
    values = None if weight is None else flow.values_of(weight, row)
    number = number_of(call, "2", "weight", missing=-1.0)
    is_share = 0 <= number <= 1
    if weight is not None:
        least, most = (None, None) if values is None else (values.minimum, values.maximum)
        is_share = least is not None and most is not None and 0 <= least <= most <= 1
    yield from ((use, 1, is_share, True, False) for use in call.live_inputs if use is not weight)


def _of_added_product(flow: Dataflow, row: int, call: Call, name: str) -> Iterator[Operand]:
    """``addcmul(a, x, y, value=v)`` is ``a + v * x * y``."""
    first, rest = call.inputs[0], call.inputs[1:]
    if first.requires_grad:
        yield first, 1, True, False, False
    sign = -1 if number_of(call, "value", missing=1.0) < 0 else 1
    of_product = _of_factors(flow, row, tuple(rest), "mul" if name == "addcmul" else "div")
    yield from ((use, sign * own, is_sure, True, has_both) for use, own, is_sure, _, has_both in of_product)


def _of_product(flow: Dataflow, row: int, call: Call, name: str) -> Iterator[Operand]:
    live = call.live_inputs
    if name == "div" and len(live) == 1 and (live[0].place != "0" or is_number_first(call)):
        return
    if len(call.inputs) == 1 and live:
        factor = number_of(call, "1", "0", "other", missing=0.0)
        if factor:
            yield live[0], 1 if factor > 0 else -1, True, True, False
        return
    yield from _of_factors(flow, row, call.inputs, name)


def _of_factors(flow: Dataflow, row: int, inputs: tuple[TensorUse, ...], name: str) -> Iterator[Operand]:
    live = [use for use in inputs if use.requires_grad]
    others = [use for use in inputs if not use.requires_grad]
    if len(live) > 1:
        if name == "div":  # as by a variance
            yield live[0], 1, False, False, False
    elif live and (name != "div" or live[0] is inputs[0]):
        values = flow.values_of(others[0], row)
        lowest, highest = (None, None) if values is None else (values.minimum, values.maximum)
        if lowest is None or highest is None or len(others) > 1:
            yield live[0], 1, False, True, False
        elif lowest < 0 < highest:
            yield live[0], 1, False, True, True
        else:
            is_one = not shape_of(flow, others[0].tensor)
            yield live[0], -1 if highest <= 0 and is_one else 1, lowest >= 0 or is_one, True, False


def is_number_first(call: Call) -> bool:
    """Whether a number comes before the tensor: ``1 / s``, ``1 - s``, ``2 ** s``."""
    method = call.function.rpartition(".")[2]
    return method.startswith(("__r", "rsub")) or (len(call.inputs) == 1 and call.inputs[0].place in ("1", "other"))


def is_linear(call: Call) -> bool:
    """Whether its result is a sum of parts of its inputs, or a product with what has no gradient.

    Of ``addcmul(a, x, y)`` this is so for ``a``, and for one factor where the other one has no gradient; `operands`
    gives others as not sure, or not at all.
    """
    name = plain_name(call.function)
    is_product = (name in PRODUCTS or name == "div") and len(call.live_inputs) == 1
    is_mixed = name == "lerp" and all(use.place not in ("2", "weight") for use in call.live_inputs)
    return name in ("add", "sub", "neg", "addcmul", "addcdiv") or name in _KEEPS or is_product or is_mixed


OPERAND = ("1", "other", "0")
"""Where a call of two operands has the one that is a number."""


def number_of(call: Call, *places: str, missing: float) -> float:
    """The number that a call got at the first of these places where it got one."""
    values = (call.scalars.get(place) for place in places)
    return next((float(value) for value in values if type(value) in (int, float)), missing)  # type: ignore[arg-type]
