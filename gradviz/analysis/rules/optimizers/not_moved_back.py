"""GV740."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.moves_by_gradient import goes_up_gradient
from gradviz.graph.call_log import ValueFacts


class NotMovedBack(Rule):
    """Parameters are moved up their gradient for a second backward call, and are not moved back.

    What it finds
    -------------
    A program that, at every step, adds a positive multiple of its gradient to each parameter, as a sharpness-aware
    minimization does, calls ``backward()`` there, and steps from there: nothing takes the multiple off again, and
    nothing copies the values of before back. Also programs that take something else off than they added, such as a
    multiple of the second gradient: the parameters are not what they were.

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
        off: dict[int, tuple[int, int]] = {}
        for tensor, events in case.gradient_events.events.items():
            steps = [row for row, kind in events if kind == "step"]
            backwards = [row for row, kind in events if kind == "backward"]
            within = [
                (backwards[bisect_right(backwards, one) : bisect_left(backwards, other)], other)
                for one, other in pairwise([0, *steps])
            ]
            moves = [_move_to(case, tensor, *each) for each in within]
            if len(moves) >= _MIN_STEPS and all(moves) and moves[0] is not None:
                found[tensor] = moves[0], steps[0]
            ways = [way for each in within if (way := _way_off(case, tensor, *each)) is not None]
            if len(ways) >= max(_MIN_STEPS, len(within) / 2):
                off[tensor] = ways[0]
        if found:
            yield self._finding(case, found)
        if off:
            yield self._off(case, off)

    def _off(self, case: Case, off: dict[int, tuple[int, int]]) -> Finding:
        flow = case.dataflow
        move, back = min(off.values())
        here, moved = location_of_call(flow, back), location_of_call(flow, move)
        return self.finding(
            f"{case.histories.together(sorted(off))} are moved{at_line(moved)}, and moved back by something else: they "
            "are not what they were",
            symptom="grad_wrong",
            why="the second backward() computes other gradients: what they give is not what was added, and the "
            "difference stays in the parameters",
            fix="keep what was added and subtract it, or copy the parameters of before back",
            location=here,
            symptom_location=moved if moved != here else None,
            tensors=names_of(flow, sorted(off)),
            evidence={"parameters": len(off)},
        )

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
    rows = _changes(case, tensor, backwards, step)
    (row,) = rows if len(rows) == 1 else (step,)
    return row if len(rows) == 1 and row < backwards[-1] and goes_up_gradient(case, tensor, row) else None


def _changes(case: Case, tensor: int, backwards: list[int], step: int) -> list[int]:
    """What the program itself does to a parameter between the first of several backward calls and the step."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    if len(backwards) < _TWO:
        return []
    assigned = (row for row in flow.data_assignments.get(tensor, ()) if backwards[0] < row < step)
    changed = (row for row in flow.changes(tensor, backwards[0], step) if calls[row].kind == "operation")
    return sorted({*changed, *assigned})


def _way_off(case: Case, tensor: int, backwards: list[int], step: int) -> tuple[int, int] | None:
    """The move up the gradient and the way back, if nothing else changes the values, which are not those of before."""
    flow, rows = case.dataflow, _changes(case, tensor, backwards, step)
    if len(rows) != _TWO or not rows[0] < backwards[-1] < rows[1] or flow.log.calls[step].kind != "step":
        return None
    earlier = flow.changes(tensor, -1, rows[0])
    before = _values_after(flow, tensor, earlier[-1]) if earlier else flow.values(tensor, rows[0])
    moved, after = (_values_after(flow, tensor, row) for row in rows)
    dtype = flow.log.tensors[tensor].facts.dtype
    if before is None or moved is None or after is None or dtype not in ("float32", "float64"):
        return None
    if not goes_up_gradient(case, tensor, rows[0]):
        return None
    apart = _apart(before, after)
    largest = max(abs(before.minimum or 0.0), abs(before.maximum or 0.0))
    return (rows[0], rows[1]) if apart > max(_SHARE * _apart(before, moved), _ROUNDING * largest) else None


def _values_after(flow: Dataflow, tensor: int, row: int) -> ValueFacts | None:
    """The values that a call wrote into a tensor, also through another one, or gave it with other memory."""
    call = flow.log.calls[row]
    if call.function == "torch.Tensor.data.__set__":
        return flow.values_of(call.inputs[-1], row)
    size, memory = flow.log.tensors[tensor].facts.elements, flow.memory_of(tensor)
    own = (use for use in call.changed if flow.memory_of(use.tensor) == memory)
    return next((use.values for use in own if use.values is not None and use.values.count == size), None)


def _apart(one: ValueFacts, other: ValueFacts) -> float:
    """How far the smallest and the largest values of a tensor are apart at two times, whichever is more."""
    pairs = (one.minimum, other.minimum), (one.maximum, other.maximum)
    return max(abs((first or 0.0) - (second or 0.0)) for first, second in pairs)


_SHARE = 0.02
_ROUNDING = 1e-5


_TWO = 2
