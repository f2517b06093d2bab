"""GV208."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, calls_named, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.linear_terms import linear_rows
from gradviz.graph.call_log import Call


class AlwaysAtTheBound(Rule):
    """A clamp gives its bound for all values at every step, so no gradient goes through it.

    What it finds
    -------------
    ``clamp()`` and its like on values with a gradient, where all results are one and the same bound, other than zero,
    each time, though the values differ. Other paths still bring gradients to the parameters. A bound of zero, and a
    clamp whose results are only added up, are left alone: so is a margin that nothing exceeds.

    Why it matters
    --------------
    Beyond a bound the derivative is zero. What is clamped is a constant then, whatever the parameters are: a bound of
    the wrong sign or size, or values on another scale than was thought.

    Example
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(4):
        x = torch.randn(8, 4)
        mean, spread = model(x).unbind(1)
        spread = spread.clamp(min=10.0)
        loss = ((mean - x[:, 0]) / spread).square().mean() + spread.log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(4):
        x = torch.randn(8, 4)
        mean, spread = model(x).unbind(1)
        spread = torch.nn.functional.softplus(spread) + 0.01
        loss = ((mean - x[:, 0]) / spread).square().mean() + spread.log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV208"
    name = "always_at_the_bound"
    severity = "warning"
    yields_to = ("saturation", "masked_out", "zero_gradient_op")

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, float | None]]] = defaultdict(list)
        for row, call in calls_named(flow, _CLAMPS):
            if call.live_inputs and flow.has_step_after(row):
                lines[call.call_site].append((row, _bound(flow, row, call)))
        for calls in lines.values():
            bounds = {bound for _, bound in calls}
            bound = next(iter(bounds))
            row = calls[-1][0]
            if len(bounds) == 1 and bound and len(calls) >= _MIN_CALLS and _is_in_a_loss(case, row):
                yield self._finding(flow, row, bound, len(calls))

    def _finding(self, flow: Dataflow, row: int, bound: float, count: int) -> Finding:
        call = flow.log.calls[row]
        return self.finding(
            f"{call_words(call)} gives its bound, {bound:.4g}, for all values all {count:,} times: no gradient goes "
            "through it",
            symptom="grad_zero",
            why="beyond a bound the derivative is zero, so what is clamped is a constant for the loss",
            fix="choose bounds around the values that occur, or a smooth function such as softplus",
            location=location_of_call(flow, row),
            tensors=leaf_names_above(flow, call.live_inputs[0].tensor, row, since=flow.step_before(row)),
            evidence={"bound": bound, "times": count},
        )


_CLAMPS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "hardtanh"})
_MIN_CALLS = 3


def _bound(flow: Dataflow, row: int, call: Call) -> float | None:
    """The bound that all results are, if they were made of values that differ; else None."""
    given = flow.values_of(call.live_inputs[0], row)
    values = call.outputs[0].values if call.outputs else None
    if given is None or values is None or values.minimum != values.maximum or given.minimum == given.maximum:
        return None
    return values.minimum


def _is_in_a_loss(case: Case, row: int) -> bool:
    """Whether the next backward goes through the call, and its result is more than a summand of the loss."""
    flow = case.dataflow
    backward = case.histories.backward_after(row)
    if backward is None or row not in case.backward_calls.reached(backward).members:
        return False
    roots = flow.log.calls[backward].roots
    added = {each for use in roots for each in linear_rows(flow, backward, use.tensor)}
    return added.isdisjoint(user for use in flow.log.calls[row].outputs for user in flow.users(use.tensor, row))
