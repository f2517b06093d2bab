"""GV981."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.sources.source_tree import SourceTree, tree_of


class DerivativeByScaledInput(Rule):
    """An equation is formed with derivatives by inputs that were scaled for the network.

    What it finds
    -------------
    Inputs that were multiplied or divided until they lie between -1 and 1, a second derivative by them, and a loss in
    which it is added to something of another order (a first derivative, the solution, a source), where nothing that was
    written for the equation mentions the numbers of the scaling.

    Why it matters
    --------------
    With s = x / L, the derivative by x is that by s, divided by L, and the second one is divided by L twice. Without
    these factors the terms of the equation have other weights: the network solves another equation.

    Example
    -------
    length, speed = 5.0, 0.3
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(3):
        x, t = torch.rand(16, 1) * length, torch.rand(16, 1)
        s = (x / length).requires_grad_(True)
        t.requires_grad_(True)
        u = net(torch.cat([s, t], 1))
        u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
        u_x = torch.autograd.grad(u.sum(), s, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x.sum(), s, create_graph=True)[0]
        loss = (u_t - speed * u_xx).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    length, speed = 5.0, 0.3
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(3):
        x, t = torch.rand(16, 1) * length, torch.rand(16, 1)
        x.requires_grad_(True)
        t.requires_grad_(True)
        u = net(torch.cat([x / length, t], 1))
        u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
        u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
        loss = (u_t - speed * u_xx).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV981"
    name = "derivative_by_scaled_input"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row in flow.rows_of_kind("backward"):
            call = flow.log.calls[row]
            if not (call.asked and call.outputs and call.roots) or not flow.has_step_after(row):
                continue
            if call.call_site in told or not _is_second(flow, row):
                continue
            told.add(call.call_site)
            equation = _equation(flow, row)
            scaling = _scaling(flow, call.asked[0].tensor, row)
            if equation and scaling is not None and not _mentions(case, scaling, equation):
                yield self._finding(flow, row, scaling)

    def _finding(self, flow: Dataflow, row: int, scaling: int) -> Finding:
        location, derived = location_of_call(flow, scaling), location_of_call(flow, row)
        return self.finding(
            "the inputs are scaled here for the network, and the equation takes derivatives by the scaled ones"
            f"{at_line(derived)}, without the factors that this brings",
            symptom="grad_wrong",
            why="with s = x / L, du/dx is du/ds / L, and the second derivative is divided by L twice: the terms of the "
            "equation have other weights than those of the problem",
            fix="differentiate by the inputs from before: set requires_grad_(True) on them, and scale inside of the "
            "network; or divide each derivative by its factor",
            location=location,
            symptom_location=derived,
        )


_MAX_SHAPING = 12
_MAX_ROWS = 400
_WITHIN = 1.001
_SHAPES = frozenset({
    "cat", "stack", "view", "reshape", "unsqueeze", "squeeze", "requires_grad", "detach", "clone", "to", "float",
    "double", "getitem", "flatten", "add", "sub",
})  # fmt: skip
_SCALES = frozenset({"mul", "div"})
_WHOLE = frozenset({"arange", "randint", "randperm", "long", "int"})


# -- what was scaled ---------------------------------------------------------------------------------------------------


def _scaling(flow: Dataflow, asked: int, row: int) -> int | None:
    """The call that multiplied or divided an input which reached beyond -1 and 1 before, so that it no longer does."""
    waiting = [(asked, row)]
    for _ in range(_MAX_SHAPING):
        if not waiting:
            break
        tensor, before = waiting.pop()
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None:
            continue
        name = plain_name(call.function)
        if name in _SCALES and len(call.inputs) == 1 and _is_into_unit(flow, asked, row, made):
            return made
        if name in _SHAPES | _SCALES and call.kind == "operation":
            waiting.extend((use.tensor, made) for use in call.inputs)
    return None


def _is_into_unit(flow: Dataflow, asked: int, row: int, scaling: int) -> bool:
    call = flow.log.calls[scaling]
    given = flow.values_of(call.inputs[0], scaling)
    result = flow.values(asked, row)
    if given is None or result is None or None in (given.minimum, given.maximum, result.minimum, result.maximum):
        return False
    largest = [max(abs(each.minimum or 0), abs(each.maximum or 0)) for each in (given, result)]
    made = flow.newest_producer(call.inputs[0].tensor, scaling)
    # What draws points from an interval stands in one line; whole numbers are places of a grid.
    is_sampled = made is not None and location_of_call(flow, made) == location_of_call(flow, scaling)
    is_whole = any(plain_name(each.function) in _WHOLE for _, each in flow.makers(call.inputs[0].tensor, scaling, 4))
    return largest[0] > _WITHIN >= largest[1] and not is_sampled and not is_whole


# -- what the derivatives are added to ---------------------------------------------------------------------------------


def _is_second(flow: Dataflow, row: int) -> bool:
    """Whether a call differentiates a derivative again, by the same input."""
    call = flow.log.calls[row]
    above = flow.ancestors(call.roots[0].tensor, row, flow.step_before(row))
    return any(
        flow.log.calls[each].kind == "backward"
        and {use.tensor for use in flow.log.calls[each].asked} >= {call.asked[0].tensor}
        for each in above
    )


def _equation(flow: Dataflow, second: int) -> list[int]:
    """The calls with derivatives, up to the one that adds something of another order to a second one; empty if none
    does."""
    since, until = flow.step_before(second), flow.next_of_kind("step", second)
    orders: dict[int, int] = {}
    rows = list[int]()
    for row in range(since + 1, min(until, since + _MAX_ROWS)):
        call = flow.log.calls[row]
        if not call.outputs:
            continue
        if call.kind == "backward" and call.asked:
            order = 1 + max((orders.get(use.tensor, 0) for use in call.roots), default=0)
            orders |= {use.tensor: order for use in call.outputs}
            continue
        known = {orders[use.tensor] for use in call.inputs if orders.get(use.tensor)}
        if not known or call.kind != "operation" or plain_name(call.function) == "grad":
            continue
        orders |= {use.tensor: max(known) for use in call.outputs}
        rows.append(row)
        is_sum = plain_name(call.function) in ("add", "sub") and len(call.inputs) > 1
        if (
            is_sum
            and row > second
            and max(known) > 1
            and {orders.get(use.tensor, 0) for use in call.inputs} != {max(known)}
        ):
            return rows
    return []


# -- whether the program knows of the scaling --------------------------------------------------------------------------


def _mentions(case: Case, scaling: int, rows: list[int]) -> bool:
    """Whether the equation is written with the names of the scaling, or with what was computed of them; also if that
    cannot be seen."""
    flow = case.dataflow
    place = location_of_call(flow, scaling)
    lines = {location for row in rows if (location := location_of_call(flow, row)) is not None}
    source = None if place is None else case.capture.sources.get(place.file)
    if place is None or source is None or any(each.file != place.file for each in lines):
        return True
    tree = tree_of(source)
    names = _scale_names(tree, place)
    if not names:
        return True
    computed = _with_computed(tree, names)
    written = {name for each in lines for name in _names_in(tree.statement_at(each.line))}
    return bool(written & computed) or _is_without_units(case, tree, rows, computed - names, written)


def _is_without_units(case: Case, tree: SourceTree, rows: list[int], computed: set[str], written: set[str]) -> bool:
    """Whether another input is scaled by a number that is computed from this scaling and constants of the problem,
    ``t / (length**2 / diffusivity)``, which the equation does not name: then these have gone into the scales."""
    flow = case.dataflow
    since, until = flow.step_before(rows[0]), flow.next_of_kind("step", rows[0])
    for row in flow.rows_of_kind("backward"):
        call = flow.log.calls[row]
        for use in call.asked if since < row < until and call.outputs else ():
            scaling = _scaling(flow, use.tensor, row)
            place = None if scaling is None else location_of_call(flow, scaling)
            names = set[str]() if place is None else _scale_names(tree, place) & computed
            if names and not written & _sources_of(tree, names):
                return True
    return False


def _scale_names(tree: SourceTree, place: Location) -> set[str]:
    """The names by which a line multiplies or divides, other than those of tensors that a function is given."""
    statement = tree.statement_at(place.line)
    if statement is None:
        return set()
    scope = tree.scope(statement)
    given = {each.arg for each in scope.args.args} if isinstance(scope, ast.FunctionDef) else set()
    return {
        name
        for node in ast.walk(statement)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mult))
        for name in _names_in(node)
        if name not in given
    }


def _with_computed(tree: SourceTree, names: set[str]) -> set[str]:
    """These names, those of numbers that are computed from them, and those from which they are computed:
    ``factor = 1 / length``, ``weight = speed / length**2``."""
    return _closure(_sources_of(tree, names), [(value, target) for target, value in _arithmetic(tree)])


def _sources_of(tree: SourceTree, names: set[str]) -> set[str]:
    """These names, and those of numbers from which they are computed."""
    return _closure(names, _arithmetic(tree))


def _arithmetic(tree: SourceTree) -> list[tuple[set[str], set[str]]]:
    """The names that are assigned numbers, each with the names from which these are computed."""
    return [
        (_names_in(target), _names_in(value))
        for target, value in tree.assignments
        if all(isinstance(node, _ARITHMETIC) for node in ast.walk(value))
    ]


def _closure(names: set[str], leads_to: list[tuple[set[str], set[str]]]) -> set[str]:
    """These names, and all to which one of them leads."""
    known, count = set(names), -1
    while count != len(known):
        count = len(known)
        for start, end in leads_to:
            known |= end if known & start else set()
    return known


_ARITHMETIC = (
    ast.BinOp, ast.UnaryOp, ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.operator, ast.unaryop,
    ast.expr_context,
)  # fmt: skip


def _names_in(node: ast.AST | None) -> set[str]:
    nodes = () if node is None else ast.walk(node)
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in nodes
        if isinstance(each, (ast.Name, ast.Attribute))
    }
