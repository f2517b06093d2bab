"""GV729."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow, passes_on
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class UpdateDiscarded(Rule):
    """New values of parameters are computed from their gradients, and never written back.

    What it finds
    -------------
    ``p = p - rate * p.grad`` for a parameter that nothing changes, in several steps, where nothing uses the result.
    Programs that write it back (``copy_()``, ``.data``) or that compute with it, as meta learning does, are left alone.

    Why it matters
    --------------
    The assignment gives the name of a loop's variable to a new tensor. The parameter of the model stays as it is, and
    every step computes the gradient of the same values.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    for step in range(4):
        model.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p = p - 0.1 * p.grad

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    for step in range(4):
        model.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
    """

    code = "GV729"
    name = "update_discarded"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, histories = case.dataflow, case.histories
        if not histories.reached_by:
            return
        still = {
            number
            for number in histories.reached - histories.trained
            if flow.log.tensors[number].role == "parameter" and _never_changes(flow, number, min(histories.reached_by))
        }
        found: dict[Location, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for row, call in enumerate(flow.log.calls if still else ()):
            updated = _updated_by(flow, row, call, still)
            here = location_of_call(flow, row) if updated is not None else None
            if updated is not None and here is not None:
                found[here][updated] += 1
        for here, counts in found.items():
            repeated = [number for number, count in counts.items() if count >= _MIN_STEPS]
            if repeated:
                yield self._finding(case, here, repeated, max(counts.values()))

    def _finding(self, case: Case, here: Location, parameters: list[int], steps: int) -> Finding:
        return self.finding(
            f"new values of {case.histories.together(parameters)} are computed {steps:,} times and never written back: "
            f"{'it keeps its' if len(parameters) == 1 else 'they keep their'} first values",
            severity="error",
            symptom="grad_wrong",
            why="the assignment binds a variable to a new tensor, and leaves the parameter as it is",
            fix="change the parameter in place, under torch.no_grad(): p -= rate * p.grad, or p.copy_(new), or use an "
            "optimizer",
            location=here,
            tensors=names_of(case.dataflow, parameters),
            evidence={"steps": steps, "parameters": len(parameters)},
        )


_MIN_STEPS = 2
_MAX_MAKERS = 20
_COPIES = frozenset({"detach", "data", "clone"})
_UPDATES = frozenset({"sub", "add"})


def _never_changes(flow: Dataflow, number: int, first: int) -> bool:
    """Whether nothing changes its values after the first backward call."""
    end = flow.log.tensors[number].end
    is_written = bool(flow.data_assignments.get(number))
    is_changed = end is not None and end.has_changed
    return not (is_written or is_changed or flow.changes(number, first, len(flow.log.calls)))


def _updated_by(flow: Dataflow, row: int, call: Call, still: set[int]) -> int | None:
    """The parameter that is added to something made of its gradient, if nothing uses the sum."""
    if call.kind != "operation" or plain_name(call.function) not in _UPDATES or len(call.inputs) < 2 or call.changed:
        return None
    if any(flow.users(use.tensor, row) for use in call.outputs):
        return None
    for use, other in ((call.inputs[0], call.inputs[1]), (call.inputs[1], call.inputs[0])):
        parameter = _parameter_of(flow, use.tensor, row, still)
        if parameter is not None and _is_made_of_gradient(flow, other.tensor, row, parameter):
            return parameter
    return None


def _parameter_of(flow: Dataflow, tensor: int, before: int, still: set[int]) -> int | None:
    if tensor in still:
        return tensor
    for _, call in flow.makers(tensor, before, 2):
        if plain_name(call.function) in _COPIES and call.inputs and call.inputs[0].tensor in still:
            return call.inputs[0].tensor
    return None


def _is_made_of_gradient(flow: Dataflow, tensor: int, before: int, parameter: int) -> bool:
    waiting, seen = [(tensor, before)], set[int]()
    while waiting and len(seen) < _MAX_MAKERS:
        tensor, before = waiting.pop(0)
        if flow.log.tensors[tensor].gradient_of == parameter:
            return True
        made = flow.producers(tensor, before)[-1:]
        call = flow.log.calls[made[0]] if made else None
        if call is not None and made[0] not in seen and passes_on(call) and call.kind == "operation":
            seen.add(made[0])
            waiting += [(use.tensor, made[0]) for use in call.inputs]
    return False
