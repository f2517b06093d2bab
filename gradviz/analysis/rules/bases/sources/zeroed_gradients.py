"""Gradients that a program sets to zero from some step on, before each step of the optimizer, to keep parameters."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.custom_functions import return_location
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.hook_changes import Hooks, hooked_gradients
from gradviz.analysis.finding import Location
from gradviz.graph.call_log import Call

_ASSIGNS = "torch.Tensor.grad.__set__"


class Zeroed(Struct, frozen=True):
    """A parameter whose gradient is zero at all steps since one of them, though it was not before."""

    parameter: int
    row: int
    """The first call that made it zero; or the first backward in which a hook did."""
    steps: tuple[int, ...]
    """The steps since then."""
    location: Location | None


def zeroed_gradients(case: Case) -> list[Zeroed]:
    """Every such parameter."""
    flow = case.dataflow
    steps = flow.rows_of_kind("step")
    measured = {_step_after(flow, row) for row in _measured_backwards(case)}
    zeroed = []
    for found, known in ((_by_hand(flow), set(steps)), (_by_hooks(case), measured)):
        by_parameter: dict[int, dict[int, tuple[int, Location | None]]] = defaultdict(dict)
        for number, row, location in found:
            by_parameter[number].setdefault(_step_after(flow, row), (row, location))
        steps_of = _steps_of(flow, by_parameter)
        for number, by_step in by_parameter.items():
            first = min(by_step)
            since = tuple(step for step in steps_of[number] if step >= first)
            is_new = any(step < first and step in known for step in steps_of[number])
            if is_new and known.intersection(since) == set(by_step):
                zeroed.append(Zeroed(number, by_step[first][0], since, by_step[first][1]))
    return zeroed


def _step_after(flow: Dataflow, row: int) -> int:
    """The next step; the end of the log if there is none."""
    steps = flow.rows_of_kind("step")
    index = bisect_right(steps, row)
    return steps[index] if index < len(steps) else len(flow.log.calls)


def _steps_of(flow: Dataflow, parameters: Container[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for step in flow.rows_of_kind("step"):
        for use in flow.log.calls[step].inputs:
            if use.tensor in parameters:
                found[use.tensor].append(step)
    return found


def _measured_backwards(case: Case) -> Iterator[int]:
    for index in case.measured_graphs:
        backward = case.graphs[index].backward
        row = None if backward is None else case.dataflow.row_of_backward(backward.number)
        yield from () if row is None else (row,)


def _by_hand(flow: Dataflow) -> Iterator[tuple[int, int, Location | None]]:
    """Between a backward and a step: ``p.grad.zero_()``, ``p.grad *= 0`` and ``p.grad = torch.zeros_like(p)``."""
    for row in flow.rows_of_kind("operation"):
        call = flow.log.calls[row]
        number = _zeroed_by(flow, row, call) if call.inside is None else None
        if number is not None and (flow.backward_before(row) or 0) > flow.step_before(row):
            yield number, row, location_of_call(flow, row)


def _zeroed_by(flow: Dataflow, row: int, call: Call) -> int | None:
    """The parameter whose gradient a call makes zero."""
    if call.function == _ASSIGNS and len(call.inputs) > 1:
        values = flow.values_of(call.inputs[1], row)
        return call.inputs[0].tensor if values is not None and values.zeros == values.count else None
    for use in call.outputs if call.inputs and call.function.endswith("_") else ():
        of = flow.log.tensors[use.tensor].gradient_of
        if of is not None and use.values is not None and use.values.zeros == use.values.count:
            return of
    return None


def _by_hooks(case: Case) -> Iterator[tuple[int, int, Location | None]]:
    flow, hooks = case.dataflow, Hooks(case.dataflow)
    numbers = {name: number for number in case.histories.trained for name in flow.log.tensors[number].names}
    for index in case.measured_graphs:
        graph = case.graphs[index]
        row = None if graph.backward is None else flow.row_of_backward(graph.backward.number)
        for hooked in hooked_gradients(graph) if row is not None else ():
            node = hooked.node
            number = next((numbers[name] for name in node.names if name in numbers), None)
            definitions = hooks.definitions(graph, node)
            if hooked.alteration == "zero" and node.is_leaf and number is not None and row is not None:
                location = return_location(definitions[-1]) if definitions else None
                yield number, row, location or _line_of_registration(flow, number, row)


def _line_of_registration(flow: Dataflow, number: int, before: int) -> Location | None:
    """The last line that registered a hook on a parameter: that of a hook without a source, ``torch.zeros_like``."""
    rows = [each for each in flow.users(number) if each < before and _REGISTERS in flow.log.calls[each].function]
    return location_of_call(flow, rows[-1]) if rows else None


_REGISTERS = "register_hook"
