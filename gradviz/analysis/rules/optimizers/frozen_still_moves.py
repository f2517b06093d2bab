"""GV788."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.zeroed_gradients import Zeroed, zeroed_gradients
from gradviz.graph.call_log import Call


class FrozenStillMoves(Rule):
    """Parameters that are frozen in the middle of a training are still moved by their optimizer.

    What it finds
    -------------
    Parameters whose ``requires_grad`` a program sets to False after some steps, and that later steps of their optimizer
    change, because they kept a ``.grad``: that of the last step before, or zeros. Also parameters whose gradient the
    program, or a hook, sets to zero before each step from some step on.

    Why it matters
    --------------
    ``step()`` leaves out what has no ``.grad``; it does not look at ``requires_grad``. With a ``.grad`` of zeros weight
    decay and momentum still move the weights, and with an old one each step repeats it. What was to be kept is lost.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    for step in range(8):
        if step == 4:
            model[0].requires_grad_(False)
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    for step in range(8):
        if step == 4:
            model[0].requires_grad_(False)
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV788"
    name = "frozen_still_moves"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, int, int]]] = defaultdict(list)
        freezings = {number: _last_freezing(flow, number) for number in sorted(case.histories.trained)}
        moved = dict(_moved_though_frozen(flow)) if any(freezings.values()) else {}
        for number, frozen in freezings.items():
            steps = [] if frozen is None else _steps_that_move(case, number, frozen, moved)
            if frozen is not None and len(steps) >= _MIN_STEPS and _is_moved(case, number, frozen):
                lines[flow.log.calls[frozen].call_site].append((number, frozen, len(steps)))
        for found in lines.values():
            yield self._finding(case, [number for number, *_ in found], found[0][1], max(each[2] for each in found))
        yield from self._with_gradients_of_zero(case)

    def _with_gradients_of_zero(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[Location | None, list[Zeroed]] = defaultdict(list)
        for zeroed in zeroed_gradients(case):
            if len(zeroed.steps) >= _MIN_STEPS and _is_moved(case, zeroed.parameter, zeroed.row):
                lines[zeroed.location].append(zeroed)
        for location, found in lines.items():
            numbers, steps = [each.parameter for each in found], max(len(each.steps) for each in found)
            yield self.finding(
                f"the gradient of {case.histories.together(numbers)} is set to zero from some step on, and {steps:,} "
                "later steps of the optimizer still move " + ("it" if len(numbers) == 1 else "them"),
                symptom="grad_wrong",
                why="to step() a gradient of zeros is a gradient: weight decay and momentum move the weights as before",
                fix="set .grad = None on what is frozen, after each backward(); or call requires_grad_(False) on it",
                location=location,
                symptom_location=location_of_call(flow, found[0].steps[0]),
                tensors=names_of(flow, numbers),
                evidence={"parameters": len(numbers), "steps": steps},
            )

    def _finding(self, case: Case, numbers: list[int], frozen: int, steps: int) -> Finding:
        flow = case.dataflow
        step = next(row for row in flow.rows_of_kind("step") if row > frozen)
        return self.finding(
            f"{case.histories.together(numbers)} {'is' if len(numbers) == 1 else 'are'} frozen here, and still moved "
            f"by {steps:,} later steps of the optimizer",
            symptom="grad_wrong",
            why="step() does not look at requires_grad: a .grad that is left over, or filled with zeros, is enough for "
            "weight decay and momentum",
            fix="let zero_grad() set gradients to None, or set .grad = None on what is frozen; or make the optimizer "
            "anew without it",
            location=location_of_call(flow, frozen),
            symptom_location=location_of_call(flow, step),
            tensors=names_of(flow, numbers),
            evidence={"parameters": len(numbers), "steps": steps},
        )


_MIN_STEPS = 2


def _last_freezing(flow: Dataflow, number: int) -> int | None:
    """The last call that set a parameter's requires_grad to False, after a step."""
    first = next(iter(flow.rows_of_kind("step")), None)
    rows = (row for row in reversed(flow.users(number)) if flow.log.calls[row].function in _SETS)
    frozen = next((row for row in rows if _freezes(flow.log.calls[row], number)), None)
    return frozen if frozen is not None and first is not None and frozen > first else None


_SETS = frozenset({"torch.Tensor.requires_grad_", "torch.Tensor.requires_grad.__set__"})


def _freezes(call: Call, number: int) -> bool:
    was = any(use.tensor == number and use.requires_grad for use in call.inputs)
    return was and any(use.tensor == number and not use.requires_grad for use in call.outputs)


def _moved_though_frozen(flow: Dataflow) -> Iterator[tuple[int, frozenset[int]]]:
    """The steps, each with the tensors that it changed and that did not require grad."""
    for row in flow.rows_of_kind("step"):
        call = flow.log.calls[row]
        live = {use.tensor for use in call.inputs if use.requires_grad}
        yield row, frozenset(use.tensor for use in call.changed) - live


def _steps_that_move(case: Case, number: int, frozen: int, moved: Mapping[int, frozenset[int]]) -> list[int]:
    """The steps after the freezing that change a parameter which is frozen, and which the forward before used so."""
    flow, uses = case.dataflow, case.histories.forward_uses(number, after=frozen)
    found = list[int]()
    for row, tensors in moved.items():
        if row > frozen and number in tensors:
            last = bisect_left(uses, row) - 1
            if last >= 0 and not _requires_grad_at(flow, uses[last], number):
                found.append(row)
    return found


def _requires_grad_at(flow: Dataflow, row: int, number: int) -> bool:
    return any(use.tensor == number and use.requires_grad for use in flow.log.calls[row].inputs)


def _is_moved(case: Case, number: int, frozen: int) -> bool:
    """Whether the values at the last use are others than at the first one after the freezing."""
    flow, uses = case.dataflow, case.histories.forward_uses(number, after=frozen)
    if len(uses) < _MIN_STEPS:
        return False
    first, last = (
        next(flow.values_of(use, row) for use in flow.log.calls[row].inputs if use.tensor == number)
        for row in (uses[0], uses[-1])
    )
    return first is not None and last is not None and first != last
