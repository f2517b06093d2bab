"""GV207."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, short_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_module
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite


class SecondDerivativeZero(Rule):
    """The second derivative of a network is zero everywhere, because its activations are piecewise linear.

    What it finds
    -------------
    Calls of ``autograd.grad()`` on what an earlier one returned, whose results are exactly zero at every step, where
    all activations of the network are made of straight lines: ``relu``, ``leaky_relu``, ``hardtanh``, ``max_pool``.

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
        for row, call in enumerate(flow.log.calls):
            if call.kind == "backward" and is_gradient(call) and call.outputs and flow.has_step_after(row):
                second = _second(flow, row, call)
                if second is not None:
                    lines[call.call_site].append(second)
        found: dict[int | None, list[_Second]] = defaultdict(list)
        for seconds in lines.values():
            if len(seconds) > 1 and all(each.is_zero for each in seconds):
                found[flow.log.calls[seconds[-1].activations[-1]].call_site] += seconds
        for seconds in found.values():
            yield self._finding(case, seconds)

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


class _Second(Struct, frozen=True):
    """A call of ``autograd.grad()`` on the result of another one."""

    row: int
    activations: tuple[int, ...]
    """Those of the network, in order, all made of straight lines."""
    leaves: tuple[int, ...]
    """Those of the network."""
    is_zero: bool


_STRAIGHT = frozenset({
    "relu", "leaky_relu", "prelu", "hardtanh", "relu6", "rrelu", "threshold", "max_pool1d", "max_pool2d", "max_pool3d",
    "clamp", "clamp_min", "clip", "hardshrink", "softshrink", "abs", "maximum", "minimum",
})  # fmt: skip
_OF_LAYERS = _STRAIGHT | {
    "linear", "matmul", "mm", "addmm", "bmm", "mv", "conv1d", "conv2d", "conv3d", "add", "sub", "neg", "cat", "stack",
    "view", "reshape", "squeeze", "unsqueeze", "flatten", "getitem", "sum", "mean", "transpose", "permute", "t", "T",
    "requires_grad_", "requires_grad", "expand", "contiguous", "to", "float", "double", "clone", "ones_like", "unbind",
    "split", "chunk", "select", "narrow", "repeat", "dropout",
}  # fmt: skip
_SCALES = frozenset({"mul", "div"})


def _second(flow: Dataflow, row: int, call: Call) -> _Second | None:
    """The call, if the first derivative was taken of a network whose calls are all made of straight lines."""
    since = flow.step_before(row)
    above = [each for use in call.roots for each in flow.ancestors(use.tensor, row, since)]
    firsts = [each for each in above if is_gradient(flow.log.calls[each])]
    if not firsts:
        return None
    network = {
        each
        for first in firsts
        for use in flow.log.calls[first].inputs
        if use.place.startswith(("root", "0", "outputs"))
        for each in flow.ancestors(use.tensor, first, since)
    }
    straight = [each for each in network if plain_name(flow.log.calls[each].function) in _STRAIGHT]
    if not straight or not all(_is_of_layers(flow.log.calls[each]) for each in network):
        return None
    values = [use.values for use in call.outputs]
    is_zero = all(each is not None and each.zeros == each.count for each in values)
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


def _is_of_layers(call: Call) -> bool:
    """Whether a call is made of straight lines, or has nothing to do with the gradient."""
    name = plain_name(call.function)
    return name in _OF_LAYERS or not call.live_inputs or (name in _SCALES and len(call.live_inputs) == 1)
