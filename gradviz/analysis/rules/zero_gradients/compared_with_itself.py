"""GV784."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.dataflow.values.shared_memory import taken_without_copy
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, calls_in_training
from gradviz.graph.call_log import Call


class ComparedWithItself(Rule):
    """A term of a loss compares a tensor with itself, so that it is always 0 and teaches nothing.

    What it finds
    -------------
    Squared or absolute differences, and losses such as ``mse_loss``, that are 0 at every step because their two sides
    share their memory: a parameter and what ``detach()``, ``.data`` or ``state_dict()`` gave of it, or one tensor that
    has two names.

    Why it matters
    --------------
    ``detach()`` copies nothing. What should hold parameters near their old values follows each step instead: the term
    is 0, its gradient is 0, and the rest of the loss trains as if it were not there.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    anchor = [p.detach() for p in model.parameters()]
    for step in range(4):
        near = sum((p - old).square().sum() for p, old in zip(model.parameters(), anchor))
        loss = model(torch.randn(5, 4)).square().mean() + 0.1 * near
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    anchor = [p.detach().clone() for p in model.parameters()]
    for step in range(4):
        near = sum((p - old).square().sum() for p, old in zip(model.parameters(), anchor))
        loss = model(torch.randn(5, 4)).square().mean() + 0.1 * near
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV784"
    name = "compared_with_itself"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        by_line: dict[Location | None, list[int]] = defaultdict(list)
        for rows in calls_in_training(flow, _COMPARE):
            by_line[location_of_call(flow, rows[0])] += rows
        for rows in by_line.values():
            shared = [found for row in rows if (found := _shared(flow, row)) is not None]
            steps = {flow.step_before(each.row) for each in shared}
            is_always = len(steps) >= _MIN_STEPS and steps == {flow.step_before(row) for row in rows}
            if is_always and case.histories.backward_through(shared[-1].row) is not None:
                yield self._finding(case, shared)

    def _finding(self, case: Case, found: list[_Shared]) -> Finding:
        flow, last = case.dataflow, found[-1]
        compared, taken = location_of_call(flow, last.row), location_of_line(flow.line_of(last.taken))
        is_kept = last.taken < flow.step_before(last.row)
        location = taken if is_kept and taken is not None else compared
        call = flow.log.calls[last.row]
        names = leaf_names_above(flow, call.live_inputs[0].tensor, last.row + 1, since=flow.step_before(last.row))
        return self.finding(
            f"both sides of {call_words(call)}{at_line(compared)} share their memory: the difference is 0 all "
            f"{len(found):,} times, and so is its gradient",
            symptom="grad_zero",
            why="detach(), .data and state_dict() share the memory of a tensor, and an assignment copies nothing: both "
            "sides change together",
            fix="keep a copy of the values: .detach().clone(), or copy.deepcopy(model.state_dict())"
            if is_kept
            else "look where the two names were assigned: compare with the other tensor that you mean, or keep its "
            "values with .clone() before they change",
            location=location,
            symptom_location=compared if compared != location else None,
            tensors=names if is_kept else (),
            evidence={"times": len(found)},
        )


_COMPARE = frozenset({
    "sub", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "pairwise_distance", "dist",
})  # fmt: skip
_EVEN = frozenset({"abs", "square", "norm", "vector_norm", "mse_loss"})
"""Their slope where everything is 0 is 0; that of ``exp`` is not, which ``exp(x - x.detach())`` uses."""
_MIN_STEPS = 3
_MAX_STEPS = 12


class _Shared(Struct, frozen=True):
    """A call that compares what shares its memory."""

    row: int
    taken: int
    """The call that took one side from the other one; the same call where both sides are one tensor."""


def _shared(flow: Dataflow, row: int) -> _Shared | None:
    call = flow.log.calls[row]
    values = call.outputs[0].values if call.outputs else None
    if values is None or values.zeros != values.count:
        return None
    if plain_name(call.function) == "sub" and not _has_no_slope(flow, row):
        return None
    taken = taken_without_copy(flow, row)
    return None if taken is None else _Shared(row, taken)


def _has_no_slope(flow: Dataflow, row: int) -> bool:
    """Whether all that uses a difference, once multiplied by weights, has a slope of 0 where it is 0."""
    waiting, count, is_used = [(row, flow.log.calls[row].outputs[0].tensor)], 0, False
    while waiting:
        after, tensor = waiting.pop()
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            count += 1
            if count > _MAX_STEPS:
                return False
            if _is_even(call):
                is_used = True
            elif call.kind == "operation" and plain_name(call.function) in _PASS and call.outputs:
                waiting.append((user, call.outputs[0].tensor))
            elif call.kind == "operation" and call.outputs:
                return False
    return is_used


_PASS = SHAPE_ONLY | {"mul", "div", "cat", "stack"}


def _is_even(call: Call) -> bool:
    exponent = call.scalars.get("1", call.scalars.get("exponent"))
    is_even_power = plain_name(call.function) == "pow" and isinstance(exponent, int | float) and exponent % 2 == 0
    return plain_name(call.function) in _EVEN or is_even_power or is_squared(call)
