"""GV207."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import cause_of, is_gradient
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, short_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_module
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.derivatives.straight_lines import is_of_layers, is_straight
from gradviz.graph.call_log import Call, TensorUse, ValueFacts
from gradviz.graph.model import CallSite


class SecondDerivativeZero(Rule):
    """The second derivative of a network is zero everywhere, because its activations are piecewise linear.

    What it finds
    -------------
    Calls of ``autograd.grad()`` on what an earlier one returned, whose results are exactly zero at every step, where
    all activations of the network are made of straight lines: ``relu``, ``leaky_relu``, ``hardtanh``, ``max_pool``, or
    ``where(z > 0, z, 0.1 * z)``. Also those of ``torch.func``: ``grad(grad(f))``, ``hessian(f)``, ``jacfwd(grad(f))``.
    And calls that raise, because the first derivative is a constant: its function is linear, without a parameter.

    Why it matters
    --------------
    Such a network consists of flat pieces: its slope changes from piece to piece, and has a derivative of zero within
    each. A residual with a second derivative (Laplacian, curvature, Hessian) then trains nothing, and nothing raises.

    Example
    -------
    net = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(3):
        x = torch.rand(32, 1, requires_grad=True)
        u = net(x)
        slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        bend = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]
        loss = (bend + torch.sin(x)).square().mean() + net(torch.zeros(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(3):
        x = torch.rand(32, 1, requires_grad=True)
        u = net(x)
        slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        bend = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]
        loss = (bend + torch.sin(x)).square().mean() + net(torch.zeros(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV207"
    name = "second_derivative_zero"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[_Second]] = defaultdict(list)
        firsts: dict[int, int] = {}
        """By memory that a derivative of this step returned: the call that computed it."""
        for row, call in enumerate(flow.log.calls):
            if call.kind == "step":
                firsts.clear()
            if not call.outputs or not flow.has_step_after(row):
                continue
            second = None
            if call.kind == "backward" and is_gradient(call):
                second = _second(flow, row, call) or _second_of_memory(flow, row, call, firsts)
                firsts.update((storage, row) for storage in _memories(flow, call.outputs))
            elif plain_name(call.function) == "zeros_like":
                second = _no_second(flow, row, call)
            elif plain_name(call.function) == _FORWARD:
                second = _second_forward(flow, row, call, firsts)
                firsts.update((storage, row) for storage in _memories(flow, call.outputs[1:]))
            if second is not None:
                lines[call.call_site].append(second)
        found: dict[int | None, list[_Second]] = defaultdict(list)
        for seconds in lines.values():
            if len(seconds) > 1 and all(each.is_zero for each in seconds):
                found[flow.log.calls[seconds[-1].activations[-1]].call_site] += seconds
        for seconds in found.values():
            yield self._finding(case, seconds)
        for cut_off in case.cut_off:
            if cause_of(flow, cut_off) == self.name:
                yield self._of_linear(case, cut_off)

    def _of_linear(self, case: Case, found: CutOff) -> Finding:
        flow = case.dataflow
        first = flow.log.calls[found.cut.call]
        differentiated = next(use.tensor for use in first.inputs if use.place.startswith(_OUTPUTS))
        made = flow.newest_producer(differentiated, found.cut.call)
        while made is not None and plain_name(flow.log.calls[made].function) in _REDUCTIONS:
            differentiated = flow.log.calls[made].inputs[0].tensor
            made = flow.newest_producer(differentiated, made)
        there = None if made is None else location_of_call(flow, made)
        asked = location_of_call(flow, found.cut.call)
        by = next(use.tensor for use in first.inputs if use.place.startswith(_INPUTS))
        return self.finding(
            f"the derivative{at_line(asked)} of {case.tensor_name(differentiated)} by {case.tensor_name(by)} is a "
            "constant, although it asks for a graph: no parameter and nothing curved is between them, so no further "
            "derivative exists",
            severity="error" if found.is_refused else self.severity,
            symptom="raises" if found.is_refused else "grad_none",
            why="the slope of a straight line depends on nothing",
            fix="compute it with the network whose derivative is meant",
            location=there or asked,
            symptom_location=location_of_call(flow, found.backward) if found.is_refused else asked,
            tensors=names_of(flow, found.tensors),
        )

    def _finding(self, case: Case, seconds: list[_Second]) -> Finding:
        flow = case.dataflow
        activation, location = _line_to_edit(case, seconds[-1])
        asked = location_of_call(flow, seconds[0].row)
        function = short_name(flow.log.calls[activation].function)
        asked_for = (use.tensor for each in seconds for use in flow.log.calls[each.row].asked)
        leaves = dict.fromkeys([*(leaf for each in seconds for leaf in each.leaves), *asked_for])
        return self.finding(
            f"the second derivative{at_line(asked)} is exactly zero at every step, because {function}() is made of "
            "straight lines: no gradient comes from it",
            symptom="grad_zero",
            why="a network of such activations is flat in pieces: its slope is constant within each",
            fix="use a smooth activation: torch.tanh, F.silu or torch.sin",
            location=location,
            symptom_location=asked if asked != location else None,
            tensors=names_of(flow, leaves),
            evidence={"times": len(seconds)},
        )


_OUTPUTS = ("root", "0", "outputs")
_INPUTS = ("asked", "1", "inputs")
_REDUCTIONS = ("sum", "mean")


class _Second(Struct, frozen=True):
    """A call of ``autograd.grad()`` on the result of another one."""

    row: int
    activations: tuple[int, ...]
    """Those of the network, in order, all made of straight lines."""
    leaves: tuple[int, ...]
    """Those of the network."""
    is_zero: bool


def _second(flow: Dataflow, row: int, call: Call) -> _Second | None:
    """The call, if the first derivative was taken of a network whose calls are all made of straight lines."""
    since = flow.step_before(row)
    above = [each for use in call.roots for each in flow.ancestors(use.tensor, row, since)]
    firsts = [each for each in above if is_gradient(flow.log.calls[each])]
    values = [use.values or _values_later(flow, use.tensor) for use in call.outputs]
    is_zero = all(each is not None and each.zeros == each.count for each in values)
    return _of_network(flow, row, firsts, is_zero=is_zero) if firsts else None


def _second_of_memory(flow: Dataflow, row: int, call: Call, firsts: dict[int, int]) -> _Second | None:
    """The same inside of ``torch.func.grad``, where each level has another tensor in the memory of the derivative."""
    found = [firsts[storage] for storage in _memories(flow, call.roots) if storage in firsts]
    if not found:
        return None
    results = [_values_later(flow, use.tensor) for use in call.outputs]
    is_zero = all(each is not None and each.zeros == each.count for each in results)
    return _of_network(flow, row, found, is_zero=is_zero)


def _second_forward(flow: Dataflow, row: int, call: Call, firsts: dict[int, int]) -> _Second | None:
    """The same for a derivative forward, as ``torch.func.hessian`` takes it: of the result of a call it has the value,
    and the derivative, if there is one."""
    found = [firsts[storage] for storage in _memories(flow, call.inputs) if storage in firsts]
    if not found:
        return None
    results = [_values_later(flow, use.tensor) for use in call.outputs[1:]]
    is_zero = all(each is not None and each.zeros == each.count for each in results)
    return _of_network(flow, row, found, is_zero=is_zero)


_FORWARD = "_unpack_dual"


def _no_second(flow: Dataflow, row: int, call: Call) -> _Second | None:
    """The zeros that ``torch.func.grad`` gives for a second derivative if the first one does not depend on the input:
    they come right behind the call of the first one, on its line."""
    backward = flow.backward_before(row)
    first = None if backward is None else flow.log.calls[backward]
    if backward is None or first is None or not first.scalars.get("create_graph") or row - backward > _NEAR:
        return None
    is_of_it = first.call_site == call.call_site and not any(use.requires_grad for use in first.outputs)
    inputs = _memories(flow, first.asked)
    is_of_input = not inputs.isdisjoint(_memories(flow, call.inputs))
    return _of_network(flow, row, [backward], is_zero=True) if is_of_it and is_of_input else None


_NEAR = 3


def _memories(flow: Dataflow, uses: Iterable[TensorUse]) -> set[int]:
    storages = (flow.log.tensors[use.tensor].storage for use in uses)
    return {storage for storage in storages if storage is not None}


def _values_later(flow: Dataflow, tensor: int) -> ValueFacts | None:
    """The values in the memory of a tensor when they are read for the first time."""
    readings = (flow.values(each, len(flow.log.calls)) for each in flow.sharing_memory(tensor))
    return next((each for each in readings if each is not None), None)


def _of_network(flow: Dataflow, row: int, firsts: list[int], *, is_zero: bool) -> _Second | None:
    """What a second derivative is of, if all calls of the network are made of straight lines."""
    since = flow.step_before(row)
    network = set[int]()
    for first in sorted(firsts):  # a solver takes many, one after the other: the first ones have little above them
        for use in flow.log.calls[first].inputs:
            if use.place.startswith(_OUTPUTS):
                above = flow.ancestors(use.tensor, first, since)
                if not all(is_of_layers(flow.log.calls[each]) for each in above):
                    return None
                network.update(above)
    straight = [each for each in network if is_straight(flow, each)]
    if not straight:
        return None
    leaves = (use.tensor for each in sorted(network) for use in flow.log.calls[each].inputs if use.is_live_leaf)
    return _Second(row, tuple(sorted(straight)), tuple(dict.fromkeys(leaves)), is_zero)


def _line_to_edit(case: Case, second: _Second) -> tuple[int, Location | None]:
    """The first activation that a module computes, and the line that made that module; else the last one and its line.

    What is computed by hand before the first layer (``abs()``, a clamp) may be there to prepare the data.
    """
    flow = case.dataflow
    for row in second.activations:
        location = location_of_line(_line_of_activation(flow, flow.log.calls[row]))
        if location is not None and not plain_name(flow.log.calls[row].function).startswith("max_pool"):
            return row, location
    return second.activations[-1], location_of_call(flow, second.activations[-1])


def _line_of_activation(flow: Dataflow, call: Call) -> CallSite | None:
    """The line that made the module of torch in which a call ran; if several may have, the first, if one function has
    all of them."""
    known = line_of_module(flow, call)
    if known is not None or call.scope is None:
        return flow.line(known)
    name, calls = f".{flow.log.scopes[call.scope].class_name}", flow.log.calls
    rows = [row for row in flow.rows_of_kind("make_module") if calls[row].function.endswith(name)]
    lines = [flow.line_of(row) for row in rows if calls[row].function.startswith("torch.nn.")]
    functions = {None if line is None else (line.file, line.function) for line in lines}
    return lines[0] if len(functions) == 1 else None
