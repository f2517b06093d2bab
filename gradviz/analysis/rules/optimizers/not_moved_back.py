"""GV740."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.moves_by_gradient import goes_up_gradient


class NotMovedBack(Rule):
    """Parameters are moved up their gradient for a second backward call, and are not moved back.

    What it finds
    -------------
    A program that, at every step, adds a positive multiple of its gradient to each parameter, as a sharpness-aware
    minimization does, calls ``backward()`` there, and steps from there: nothing takes the multiple off again, and
    nothing copies the values of before back.

    Why it matters
    --------------
    The step should start from the parameters of before. Without the way back, each step also goes up the gradient by
    what was added, which is often as far as the optimizer goes down.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(3):
        x, y = torch.randn(16, 4), torch.randn(16, 1)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.05 * p.grad)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(3):
        x, y = torch.randn(16, 4), torch.randn(16, 1)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        moves = [0.05 * p.grad for p in model.parameters()]
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves):
                p.add_(move)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves):
                p.sub_(move)
        optimizer.step()
    """

    code = "GV740"
    name = "not_moved_back"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        found: dict[int, tuple[int, int]] = {}
        for tensor, events in case.gradient_events.events.items():
            steps = [row for row, kind in events if kind == "step"]
            backwards = [row for row, kind in events if kind == "backward"]
            moves = [
                _move_to(case, tensor, backwards[bisect_right(backwards, one) : bisect_left(backwards, other)], other)
                for one, other in pairwise([0, *steps])
            ]
            if len(moves) >= _MIN_STEPS and all(moves) and moves[0] is not None:
                found[tensor] = moves[0], steps[0]
        if found:
            yield self._finding(case, found)

    def _finding(self, case: Case, found: dict[int, tuple[int, int]]) -> Finding:
        flow = case.dataflow
        move, step = min(found.values())
        here, stepped = location_of_call(flow, move), location_of_call(flow, step)
        return self.finding(
            f"{case.histories.together(sorted(found))} are moved up their gradient, and the step{at_line(stepped)} "
            "starts from there: nothing moves them back",
            symptom="grad_wrong",
            why="the second backward() is to see the gradient at another point; the step belongs to the first point",
            fix="keep what was added, and subtract it after the second backward(), before step()",
            location=here,
            symptom_location=stepped,
            tensors=names_of(flow, sorted(found)),
            evidence={"parameters": len(found)},
        )


_MIN_STEPS = 2


def _move_to(case: Case, tensor: int, backwards: list[int], step: int) -> int | None:
    """The only change of a parameter between two backward calls before a step, if it goes up its gradient."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    if len(backwards) < _TWO:
        return None
    assigned = (row for row in flow.data_assignments.get(tensor, ()) if backwards[0] < row < step)
    changed = (row for row in flow.changes(tensor, backwards[0], step) if calls[row].kind == "operation")
    rows = {*changed, *assigned}
    (row,) = rows if len(rows) == 1 else (step,)
    return row if row < backwards[-1] and goes_up_gradient(case, tensor, row) else None


_TWO = 2
