"""GV681."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class ArgumentsSwapped(Rule):
    """A loss gets the target as its input, and the model's answer as its target.

    What it finds
    -------------
    Calls of ``binary_cross_entropy`` and of the losses of a Poisson or a normal distribution whose first argument never
    has a gradient, and whose second one always has.

    Why it matters
    --------------
    These losses are not symmetric. ``binary_cross_entropy(y, p)`` is linear in ``p``: its gradient is the same for all
    answers, however far they are from the target, and there is no minimum at the target.

    Example
    -------
    functional = torch.nn.functional
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        share = torch.sigmoid(x[:, :1])
        loss = functional.binary_cross_entropy(share, torch.sigmoid(model(x)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    functional = torch.nn.functional
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        share = torch.sigmoid(x[:, :1])
        loss = functional.binary_cross_entropy(torch.sigmoid(model(x)), share)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV681"
    name = "arguments_swapped"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, bool]]] = defaultdict(list)
        for row, call in calls_named(flow, _NOT_SYMMETRIC):
            if len(call.inputs) > 1 and flow.has_step_after(row):
                lines[call.call_site].append((row, _is_swapped(call)))
        for calls in lines.values():
            if len(calls) >= _MIN_CALLS and all(is_swapped for _, is_swapped in calls):
                yield self._finding(case, calls[-1][0])

    def _finding(self, case: Case, row: int) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        name = plain_name(call.function)
        return self.finding(
            f"{name}() gets the answer of the model as its second argument, and data as its first: they are swapped",
            symptom="grad_wrong",
            why="the first argument is the prediction, the second the target; this loss is not the same for both",
            fix=f"swap the two: {name}(prediction, target)",
            location=location_of_call(flow, row),
            tensors=leaf_names_above(flow, call.live_inputs[0].tensor, row, since=flow.step_before(row)),
        )


_NOT_SYMMETRIC = frozenset({
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "poisson_nll_loss", "gaussian_nll_loss",
})  # fmt: skip
_MIN_CALLS = 2


def _is_swapped(call: Call) -> bool:
    inputs = {use.place: use for use in call.inputs}
    first = inputs.get("0") or inputs.get("input")
    second = inputs.get("1") or inputs.get("target")
    return first is not None and second is not None and not first.requires_grad and second.requires_grad
