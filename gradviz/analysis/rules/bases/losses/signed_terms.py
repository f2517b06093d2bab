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
    "permute", "transpose", "double", "expand_as", "nanmean", "diagonal", "narrow", "index_select", "gather",
    "take_along_dim", "movedim", "trace",
})  # fmt: skip
_ROUGHLY_KEEPS = frozenset({"exp", "log", "min", "minimum", "clamp", "where", "masked_fill", "max", "maximum"})
PRODUCTS = frozenset({"mul", "dot", "matmul", "mv", "mm", "bmm", "einsum", "tensordot", "vdot", "vecdot", "inner"})
"""They are linear in each of the two tensors that they take."""
_CONTRACTIONS = PRODUCTS - {"mul"}
_TWO = 2


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
    elif name in PRODUCTS or name == "div":
        yield from _of_product(flow, row, call, name)
    elif name == "lerp":
        yield from _of_mixture(call)
    elif name == "addcmul":
        yield from ((use, 1, True, False, False) for use in live if use.place in ("0", "input"))
    elif name in _KEEPS or name in _ROUGHLY_KEEPS:
        yield from ((use, 1, name in _KEEPS, False, False) for use in live)


def _of_mixture(call: Call) -> Iterator[Operand]:
    """``lerp(a, b, w)`` with a number between 0 and 1 is a sum of both."""
    if 0 < number_of(call, "2", "weight", missing=0.0) < 1:
        yield from ((use, 1, True, True, False) for use in call.live_inputs)


def _of_product(flow: Dataflow, row: int, call: Call, name: str) -> Iterator[Operand]:
    live = call.live_inputs
    others = [use for use in call.inputs if not use.requires_grad]
    if len(live) > 1:
        if name == "div":  # as by a variance
            yield live[0], 1, False, False, False
    elif (
        not live
        or (name in _CONTRACTIONS and len(call.inputs) != _TWO)
        or (name == "div" and (live[0].place != "0" or is_number_first(call)))
    ):
        return
    elif not others:
        factor = number_of(call, "1", "0", "other", missing=0.0)
        if factor:
            yield live[0], 1 if factor > 0 else -1, True, True, False
    else:
        values = flow.values_of(others[0], row)
        lowest, highest = (None, None) if values is None else (values.minimum, values.maximum)
        if lowest is None or highest is None:
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
    """Whether its result is a sum of parts of its inputs, or a product with what has no gradient."""
    name = plain_name(call.function)
    is_product = (name in PRODUCTS or name == "div") and len(call.live_inputs) == 1
    return name in ("add", "sub", "neg") or name in _KEEPS or is_product


OPERAND = ("1", "other", "0")
"""Where a call of two operands has the one that is a number."""


def number_of(call: Call, *places: str, missing: float) -> float:
    """The number that a call got at the first of these places where it got one."""
    values = (call.scalars.get(place) for place in places)
    return next((float(value) for value in values if type(value) in (int, float)), missing)  # type: ignore[arg-type]
