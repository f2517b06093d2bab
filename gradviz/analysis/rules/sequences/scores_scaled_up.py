"""GV631."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose, prod, sqrt

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.graph.call_log import Call


class ScoresScaledUp(Rule):
    """The scores of an attention are multiplied by the root that they should be divided by.

    What it finds
    -------------
    A product of queries and keys, both computed by a model, that is multiplied by the square root of their length, or
    divided by one over it, on its way to ``softmax()``.

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
        for row, call in enumerate(flow.log.calls):
            if plain_name(call.function) != "softmax" or not call.live_inputs or not flow.has_step_after(row):
                continue
            scaled = _scaled_up(flow, call.live_inputs[0].tensor, row)
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


_PRODUCTS = frozenset({"matmul", "bmm", "einsum", "mm", "baddbmm"})
_PASSED = frozenset({"add", "masked_fill", "where", "mul", "div", "view", "reshape", "sub", "float", "to"})
_MOST_CALLS = 8
_LEAST_FACTOR = 1.9


def _scaled_up(flow: Dataflow, tensor: int, row: int) -> tuple[int, int] | None:
    """The call that multiplies the product behind some scores by the root of the length, and that length."""
    factors: list[tuple[int, float]] = []
    for _ in range(_MOST_CALLS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.live_inputs:
            return None
        name = plain_name(call.function)
        if name in _PRODUCTS and len(call.inputs) == 2 and len(call.live_inputs) == 2:
            length = shape_of(flow, call.inputs[0].tensor)[-1]
            product = prod(factor for _, factor in factors)
            is_up = product > _LEAST_FACTOR and isclose(product, sqrt(length), rel_tol=1e-3)
            return (max(factors, key=lambda each: each[1])[0], length) if is_up else None
        if name not in _PASSED or len(call.live_inputs) != 1:
            return None
        factor = _factor(flow, call, name, made)
        if factor is None:
            return None
        factors += [(made, factor)] if factor != 1 else []
        tensor, row = call.live_inputs[0].tensor, made
    return None


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
