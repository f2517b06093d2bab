"""GV609."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule

_MAX_BETWEEN = 4
"""Backward calls between the two that are compared."""


class GradientCountedTwice(Rule):
    """The same loss goes backward twice before a step, so its gradient counts twice.

    What it finds
    -------------
    Two backward calls without a step in between, where the second starts from the same loss, or from a sum that
    contains the loss of the first.

    Why it matters
    --------------
    ``backward()`` adds to ``.grad``. The gradient of the first loss is in it twice, so this loss weighs twice as much
    as was written.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        error = model(torch.randn(5, 4)).square().mean()
        error.backward(retain_graph=True)
        loss = error + 0.1 * model.weight.square().sum()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        error = model(torch.randn(5, 4)).square().mean()
        loss = error + 0.1 * model.weight.square().sum()
        loss.backward()
        optimizer.step()
    """

    code = "GV609"
    name = "gradient_counted_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        told: set[object] = set()
        events = case.gradient_events.events if histories.reached_by else {}
        for first, second, tensor in _pairs(histories):
            both = histories.reached_by[first] & histories.reached_by[second]
            leaves = sorted(leaf for leaf in both if _meet_in_a_step(events.get(leaf, []), first, second))
            lines = location_of_call(histories.flow, first), location_of_call(histories.flow, second)
            if leaves and lines not in told:
                told.add(lines)
                yield self._finding(histories, first, second, tensor, leaves)

    def _finding(
        self, histories: ParameterHistories, first: int, second: int, tensor: int, leaves: list[int]
    ) -> Finding:
        flow = histories.flow
        is_same = any(use.tensor == tensor for use in flow.log.calls[second].roots)
        what = "starts from the same loss" if is_same else "starts from a sum that contains it"
        here, there = location_of_call(flow, first), location_of_call(flow, second)
        return self.finding(
            f"the gradient of {histories.name(tensor)} counts twice: the next backward {what}, with no step in between",
            symptom="grad_wrong",
            why="backward() adds to .grad, so what both calls go through is in it twice",
            fix="leave out one of the two backward calls",
            location=here,
            symptom_location=there if there != here else None,
            tensors=names_of(flow, leaves),
            evidence={"parameters": len(leaves)},
        )


def _pairs(histories: ParameterHistories) -> Iterator[tuple[int, int, int]]:
    """Backward calls that keep their graph, with a later one that goes through the same root, and that root."""
    calls, flow = histories.log.calls, histories.flow
    rows = [row for row in histories.reached_by if calls[row].function.endswith(".backward")]
    for index, first in enumerate(rows):
        if not calls[first].scalars.get("retain_graph"):
            continue
        for second in rows[index + 1 : index + 1 + _MAX_BETWEEN]:
            roots = {use.tensor for use in calls[second].roots}
            for use in calls[first].roots:
                made = flow.producers(use.tensor, first)
                below = flow.descendants(use.tensor, made[-1] if made else None, second, live=True)
                # The derivative of a loss is another quantity than the loss.
                is_differentiated = any(is_gradient(calls[row]) for row in below) or any(
                    calls[row].kind == "backward" and row not in (first, second) for row in below
                )
                is_in_sum = any(out.tensor in roots for row in below for out in calls[row].outputs)
                if use.tensor in roots or (is_in_sum and not is_differentiated):
                    yield first, second, use.tensor


def _meet_in_a_step(events: Sequence[tuple[int, str]], first: int, second: int) -> bool:
    """Whether one step uses the gradients of both."""
    between = [kind for row, kind in events if first < row < second]
    after = next((kind for row, kind in events if row > second and kind != "backward"), None)
    return all(kind == "backward" for kind in between) and after == "step"
