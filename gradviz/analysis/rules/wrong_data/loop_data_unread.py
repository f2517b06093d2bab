"""GV877."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, callers
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.sources.source_tree import LOOPS, SourceTree, called_name, is_read, tree_of


class LoopDataUnread(Rule):
    """A loop goes through batches, and what it trains on is something else.

    What it finds
    -------------
    The innermost loop around the line that calls ``backward()``, where it unpacks two names or more for each turn, and
    nothing in it reads these names, nor what is assigned from them; or where it counts with a step
    (``range(0, n, batch_size)``), and nothing reads what is assigned from the number. Names that begin with an
    underscore are left out.

    Why it matters
    --------------
    Variables of an earlier loop or of the whole file have nearly the same names as those of the loop. The model is then
    trained on one and the same batch in every step, or on what happens to be in those variables, and nothing raises.

    Example
    -------
    data, targets = torch.randn(60, 4), torch.randn(60, 1)
    x, y = data[:20], targets[:20]
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in zip(data.split(20), targets.split(20)):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    data, targets = torch.randn(60, 4), torch.randn(60, 1)
    x, y = data[:20], targets[:20]
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in zip(data.split(20), targets.split(20)):
        loss = torch.nn.functional.mse_loss(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV877"
    name = "loop_data_unread"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[Location]()
        for row in case.histories.last_backward_of_each_line:
            line = next(callers(flow, row), None)
            lines = {} if line is None else case.capture.sources.get(line.file, {})
            if line is None or not lines or not flow.has_step_after(row):
                continue
            tree = tree_of(lines)
            loop = _loop_around(tree, line.line)
            names = [] if loop is None else _unread(loop, _data_names(loop))
            if loop is None or not names or _is_read_by_functions(tree, loop, names):
                continue
            location = Location(line.file, loop.lineno)
            if location not in told:
                told.add(location)
                yield self._finding(case, location, names, row)

    def _finding(self, case: Case, location: Location, names: list[str], row: int) -> Finding:
        flow = case.dataflow
        roots = flow.log.calls[row].roots
        made = flow.newest_producer(roots[0].tensor, row) if roots else None
        loss = None if made is None else case.location_of_call(made)
        together = " and ".join(names)
        return self.finding(
            f"the loop{at_line(location)} takes {together} for each turn, and nothing in it reads "
            f"{'it' if len(names) == 1 else 'them'}: each step trains on something else",
            symptom="grad_wrong",
            why="the loss is computed from variables that the loop does not change",
            fix=f"compute the loss{at_line(loss)} from {together}; if they are not needed, write _ for them",
            location=loss or location,
            symptom_location=location if loss is not None and loss != location else None,
        )


_STEPPED = 3
"""Arguments of a ``range()`` that counts with a step."""
_COUNTS = frozenset({"range", "trange", "count", "arange"})


def _loop_around(tree: SourceTree, line: int) -> ast.For | None:
    """The innermost loop around the statement at a line, in its function; None if that is no ``for``."""
    inside = [
        node
        for node in tree.nodes
        if isinstance(node, LOOPS) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
    ]
    innermost = max(inside, key=lambda node: node.lineno, default=None)
    is_function_between = innermost is not None and any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        and node.lineno <= line <= (node.end_lineno or 0)
        and node.lineno > innermost.lineno
        for node in tree.nodes
    )
    return innermost if isinstance(innermost, ast.For) and not is_function_between else None


def _data_names(loop: ast.For) -> list[str]:
    """The names that stand for data in each turn of a loop; none where it only counts."""
    counts = [
        len(each.args) for each in ast.walk(loop.iter) if isinstance(each, ast.Call) and called_name(each) in _COUNTS
    ]
    target = loop.target
    if isinstance(target, ast.Tuple) and called_name(loop.iter) == "enumerate":
        target = target.elts[-1]
    names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
    if any(each.startswith("_") for each in names):
        return []
    if counts:
        return names if max(counts) == _STEPPED and isinstance(loop.target, ast.Name) else []
    return names if isinstance(target, ast.Tuple) and len(names) > 1 else []


def _unread(loop: ast.For, names: list[str]) -> list[str]:
    """The data of each turn, if no statement of a loop reads one of its names for anything but another name that
    nothing reads: what is cut out with a number, else the names themselves."""
    nodes = [each for statement in (*loop.body, *loop.orelse) for each in ast.walk(statement)]
    moves = [
        each for each in nodes if isinstance(each, ast.Assign) and all(_are_plain(target) for target in each.targets)
    ]
    known, passed = dict.fromkeys(names), set[ast.AST]()
    for move in moves:  # in the order of the program
        read = [each for each in ast.walk(move.value) if isinstance(each, ast.Name) and each.id in known]
        if read:
            passed.update(read)
            targets = (each for target in move.targets for each in ast.walk(target))
            known |= dict.fromkeys(each.id for each in targets if isinstance(each, ast.Name))
    is_read_here = any(
        isinstance(each, ast.Name) and each.id in known and is_read(each) and each not in passed for each in nodes
    )
    if is_read_here or not names:
        return []
    return names if isinstance(loop.target, ast.Tuple) else list(known)[1:]


def _is_read_by_functions(tree: SourceTree, loop: ast.For, names: list[str]) -> bool:
    """Whether another function reads variables of a loop: as global ones, or as those of the function around both."""
    keys = {
        tree.key_of(each)
        for each in ast.walk(loop)
        if isinstance(each, ast.Name) and each.id in names and not is_read(each)
    }
    return any(
        isinstance(each, ast.Name)
        and each.id in names
        and is_read(each)
        and tree.scope(each) != tree.scope(loop)
        and tree.key_of(each) in keys
        for each in tree.nodes
    )


def _are_plain(target: ast.expr) -> bool:
    """Whether an assignment only binds names."""
    return all(
        isinstance(each, (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)) for each in ast.walk(target)
    )
