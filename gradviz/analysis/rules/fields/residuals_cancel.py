"""GV890."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.graph.call_log import Call


class ResidualsCancel(Rule):
    """The residuals of an equation are averaged before they are squared: those above 0 cancel those below.

    What it finds
    -------------
    The mean of a sum or difference in which a derivative of a network with respect to its inputs stands, over all
    points, whose square or absolute value is part of a loss. Nothing else uses the residuals. Residuals that are
    multiplied by a function of the points before, as in a weak form, and means that are compared with a number are left
    alone. It is a note where the loss also has another equation at single points, as a balance of the whole may be
    meant; and where one term is multiplied by a function of the points, as behind an integration by parts.

    Why it matters
    --------------
    Only the mean of all residuals is brought to 0, which nearly every function can do. The loss falls to 0 at once, and
    the network solves another equation, or none.

    Example
    -------
    net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.rand(16, 1, requires_grad=True)
        u = net(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        residual = slope + u
        loss = residual.mean() ** 2 + (net(torch.zeros(1, 1)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.rand(16, 1, requires_grad=True)
        u = net(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        residual = slope + u
        loss = (residual**2).mean() + (net(torch.zeros(1, 1)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV890"
    name = "residuals_cancel"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, frozenset({"mean"})):
            if call.call_site in told or not (call.live_inputs and call.outputs) or not flow.has_step_after(row):
                continue
            bent = _bent_later(flow, row, call)
            if bent is None or not _is_residual(flow, call.inputs[0].tensor, row):
                continue
            below = flow.descendants(call.outputs[0].tensor, row)
            if any(flow.log.calls[each].kind == "backward" for each in below):
                told.add(call.call_site)
                may_be_meant = _has_equation_of_points(flow, row) or _is_weighted(flow, row)
                yield self._finding(flow, row, bent, may_be_meant=may_be_meant)

    def _finding(self, flow: Dataflow, row: int, bent: int, *, may_be_meant: bool) -> Finding:
        count = prod(shape_of(flow, flow.log.calls[row].inputs[0].tensor))
        location, averaged = location_of_call(flow, bent), location_of_call(flow, row)
        return self.finding(
            f"the residuals at {count:,} points are averaged, and only their mean is squared: those above 0 cancel "
            "those below",
            severity="note" if may_be_meant else self.severity,
            symptom="grad_wrong",
            why="the mean of all residuals can be 0 where none of them is: the loss says nothing about single points",
            fix="square each residual before the average: (residual ** 2).mean()",
            location=location,
            symptom_location=averaged if averaged != location else None,
            evidence={"points": count},
        )


_MIN_POINTS = 4


def _bent_later(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that squares a mean over all points, or takes its absolute value, if nothing else uses the mean or what
    it is the mean of."""
    source, mean = call.inputs[0].tensor, call.outputs[0].tensor
    if prod(shape_of(flow, mean)) != 1 or prod(shape_of(flow, source)) < _MIN_POINTS:
        return None
    users = [user for user in flow.users(mean, row) if plain_name(flow.log.calls[user].function) != "item"]
    others = [user for user in flow.users(source) if user != row and flow.log.calls[user].grad_mode == "enabled"]
    if len(users) != 1 or others:
        return None
    used = flow.log.calls[users[0]]
    is_bent = is_square(used) or plain_name(used.function) == "abs" or _is_error_from_zero(flow, users[0], used)
    return users[0] if is_bent else None


def _is_error_from_zero(flow: Dataflow, row: int, call: Call) -> bool:
    if plain_name(call.function) not in _ERRORS or len(call.inputs) < _BOTH:
        return False
    values = flow.values_of(call.inputs[1], row)
    return values is not None and values.count == values.zeros


_BOTH = 2
_ERRORS = frozenset({"mse_loss", "l1_loss"})
_SUMS = frozenset({"add", "sub"})
_ELEMENTWISE = frozenset({"add", "sub", "mul", "div", "neg", "pow", "square", "getitem", "squeeze"})
_MAX_CALLS = 24


def _has_equation_of_points(flow: Dataflow, mean: int) -> bool:
    """Whether single residuals are squared in the same step, or compared with what they should be."""
    for row in range(flow.step_before(mean), flow.next_of_kind("step", mean)):
        call = flow.log.calls[row]
        if not call.live_inputs or prod(shape_of(flow, call.inputs[0].tensor)) < _MIN_POINTS:
            continue
        if (is_square(call) or plain_name(call.function) in _ERRORS) and _is_residual(flow, call.inputs[0].tensor, row):
            return True
    return False


def _is_weighted(flow: Dataflow, mean: int) -> bool:
    """Whether a term of what is averaged is multiplied by what is computed of the points alone."""
    source, roles = flow.log.calls[mean].inputs[0].tensor, flow.log.tensors
    onward = flow.makers_above(
        source, mean, _MAX_CALLS, lambda call: call.inputs if plain_name(call.function) in _ELEMENTWISE else ()
    )
    for row, call in onward:
        for use in call.inputs if plain_name(call.function) == "mul" and len(call.inputs) == _BOTH else ():
            above = (flow.log.calls[each] for each in flow.ancestors(use.tensor, row, flow.step_before(mean)))
            is_of_network = any(roles[each.tensor].role == "parameter" for made in above for each in made.inputs)
            if not is_of_network and prod(shape_of(flow, use.tensor)) >= _MIN_POINTS:
                return True
    return False


def _is_residual(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor is a sum or a difference in which a derivative by the inputs of a network stands."""
    made = flow.newest_producer(tensor, row)
    if made is None or plain_name(flow.log.calls[made].function) not in _SUMS:
        return False
    waiting, seen = [(use.tensor, made) for use in flow.log.calls[made].inputs], 0
    while waiting and seen < _MAX_CALLS:
        seen += 1
        each, before = waiting.pop()
        maker = flow.newest_producer(each, before)
        call = None if maker is None else flow.log.calls[maker]
        if maker is None or call is None:
            continue
        if call.function.endswith("autograd.grad"):
            return all(flow.log.tensors[use.tensor].role != "parameter" for use in call.inputs)
        if plain_name(call.function) in _ELEMENTWISE:
            waiting += [(use.tensor, maker) for use in call.inputs]
    return False
