"""GV631."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose, prod, sqrt

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.analysis.rules.bases.sequences.attention.score_products import Product, product_of
from gradviz.graph.call_log import Call


class ScoresScaledUp(Rule):
    """The scores of an attention are multiplied by the root that they should be divided by.

    What it finds
    -------------
    A product of queries and keys, both computed by a model, that is multiplied by the square root of their length, or
    divided by one over it, on its way to ``softmax()``: before the product, by the call that makes it (``alpha=``,
    ``scale=``), or behind it.

    Why it matters
    --------------
    The scores are as many times too large as the keys are long. ``softmax()`` of them is nearly 0 or 1, and passes
    almost no gradient on: the attention does not learn where to look.

    Example
    -------
    query, key, value = (torch.nn.Linear(16, 16) for _ in range(3))
    optimizer = torch.optim.SGD([*query.parameters(), *key.parameters(), *value.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(8, 5, 16)
        scores = query(x) @ key(x).transpose(1, 2) * 16**0.5
        loss = (torch.softmax(scores, dim=-1) @ value(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    query, key, value = (torch.nn.Linear(16, 16) for _ in range(3))
    optimizer = torch.optim.SGD([*query.parameters(), *key.parameters(), *value.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(8, 5, 16)
        scores = query(x) @ key(x).transpose(1, 2) / 16**0.5
        loss = (torch.softmax(scores, dim=-1) @ value(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV631"
    name = "scores_scaled_up"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("softmax", _FUSED)):
            name = plain_name(call.function)
            if not call.live_inputs or not flow.has_step_after(row):
                continue
            scaled = _scaled_in(flow, row, call) if name == _FUSED else _scaled_up(flow, call.inputs[0].tensor, row)
            if scaled is not None and flow.log.calls[scaled[0]].call_site not in told:
                told.add(flow.log.calls[scaled[0]].call_site)
                yield self._finding(case, row, *scaled)

    def _finding(self, case: Case, softmax: int, row: int, length: int) -> Finding:
        flow = case.dataflow
        here, used = location_of_call(flow, row), location_of_call(flow, softmax)
        return self.finding(
            f"the scores of queries and keys of length {length} are multiplied by {sqrt(length):.3g}, the root of it, "
            "before softmax(): they are to be divided by it",
            symptom="grad_zero",
            why="softmax() of scores that large is nearly 0 or 1, and passes almost no gradient on",
            fix=f"divide by the root: scores / {length} ** 0.5",
            location=here,
            symptom_location=used if used != here else None,
            evidence={"factor": sqrt(length), "length": length},
        )


_FUSED = "scaled_dot_product_attention"
_PASSED = frozenset(
    {"addcmul", "add", "masked_fill", "where", "mul", "div", "view", "reshape", "sub", "float", "to", "unflatten"}
)
_BEFORE_PRODUCT = frozenset({
    "mul", "div", "view", "reshape", "transpose", "permute", "mT", "T", "t", "swapaxes", "unsqueeze", "flatten",
    "unflatten", "contiguous", "expand", "movedim", "unbind", "getitem", "chunk", "split", "float", "to",
})  # fmt: skip
_MOST_CALLS = 8
_LEAST_FACTOR = 1.9
_TWO = 2

_Factors = tuple[tuple[int, float], ...]
"""The calls that multiply with a number other than 1, with it."""


def _scaled_up(flow: Dataflow, tensor: int, row: int) -> tuple[int, int] | None:
    """The call that multiplies the product behind some scores by the root of the length, and that length."""
    waiting: list[tuple[int, int, _Factors]] = [(tensor, row, ())]
    for _ in range(_MOST_CALLS):
        if not waiting:
            break
        tensor, row, factors = waiting.pop()
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.live_inputs:
            continue
        product = product_of(flow, made, call)
        if product is not None:
            found = _with_root(flow, made, product, factors)
            if found is not None:
                return found
        elif plain_name(call.function) in _PASSED:
            waiting += _onward(flow, made, call, factors)
    return None


def _scaled_in(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """The same for the ``scale=`` of one call for the whole attention."""
    shape, scale = shape_of(flow, call.inputs[0].tensor), call.scalars.get("scale")
    if type(scale) is not float or not shape or len(call.live_inputs) < _TWO:
        return None
    return _with_root(flow, row, Product(call.inputs[:_TWO], shape[-1], scale), ())


def _onward(flow: Dataflow, row: int, call: Call, factors: _Factors) -> Iterator[tuple[int, int, _Factors]]:
    """What a call passes on, with the factors behind it: of a sum, each of its terms."""
    name, live = plain_name(call.function), call.live_inputs
    if name == "addcmul":
        yield from _terms_of_addcmul(flow, row, call, factors)
        return
    if len(live) > 1 and name not in ("add", "sub"):
        return
    for use in live:
        if name in ("add", "sub"):
            factor: float | None = number_of(call, "alpha", missing=1.0) if use.place in ("1", "other") else 1.0
        else:
            factor = _factor(flow, call, name, row)
        if factor:
            yield use.tensor, row, (*factors, *(((row, factor),) if factor != 1 else ()))


def _terms_of_addcmul(flow: Dataflow, row: int, call: Call, factors: _Factors) -> Iterator[tuple[int, int, _Factors]]:
    """The first operand of ``addcmul``, and one of its factors if the other is a number."""
    added, *both = call.inputs
    if added.requires_grad:
        yield added.tensor, row, factors
    scores, scales = ([use for use in both if use.requires_grad is is_live] for is_live in (True, False))
    values = flow.values_of(scales[0], row) if len(scores) == len(scales) == 1 else None
    if values is not None and values.count == 1 and values.minimum:
        factor = values.minimum * number_of(call, "value", missing=1.0)
        yield scores[0].tensor, row, (*factors, (row, factor))


def _with_root(flow: Dataflow, row: int, product: Product, factors: _Factors) -> tuple[int, int] | None:
    """The largest of the factors of a product, if all of them together are the root of its length."""
    found = [*factors, *(((row, product.factor),) if product.factor != 1 else ())]
    for use in product.sides:
        own = _before_product(flow, use.tensor, row)
        if own is None:
            return None
        found += own
    together = prod(factor for _, factor in found)
    is_up = together > _LEAST_FACTOR and isclose(together, sqrt(product.length), rel_tol=1e-3)
    return (max(found, key=lambda each: each[1])[0], product.length) if is_up else None


def _before_product(flow: Dataflow, tensor: int, row: int) -> _Factors | None:
    """The numbers that queries or keys were multiplied with; None if they have a length of one, as for cosines."""
    factors: list[tuple[int, float]] = []
    for made, call in flow.makers(tensor, row, _MOST_CALLS):
        name = plain_name(call.function)
        if name == "normalize" or (name == "div" and len(call.live_inputs) == _TWO):
            return None
        if name not in _BEFORE_PRODUCT or len(call.live_inputs) != 1 or not call.inputs[0].requires_grad:
            break
        factor = _factor(flow, call, name, made)
        if factor is None:
            break
        factors += [(made, factor)] if factor != 1 else []
    return tuple(factors)


def _factor(flow: Dataflow, call: Call, name: str, row: int) -> float | None:
    """What a call multiplies with; None if it is not one number."""
    if name not in ("mul", "div"):
        return 1.0
    if is_number_first(call) and name == "div":
        return None
    others = [use for use in call.inputs if not use.requires_grad]
    if others:
        values = flow.values_of(others[0], row)
        number = None if values is None or values.count != 1 else values.minimum
    else:
        number = number_of(call, "1", "0", "other", missing=0.0)
    if not number:
        return None
    return 1 / number if name == "div" else number
