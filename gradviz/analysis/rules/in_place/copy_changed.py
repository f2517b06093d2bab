"""GV990."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import Call


class CopyChanged(Rule):
    """A line changes the elements that an index has copied, and throws the copy away.

    What it finds
    -------------
    A statement such as ``scores[users].masked_fill_(seen, -inf)`` or ``table[[0, 1]][:, 0] = 5``: an index of several
    numbers or a mask, ``index_select()``, ``gather()`` and a ``reshape()`` or ``to()`` that copies make a new tensor.
    The change goes there, nothing reads it, and the program goes on with the elements as they were. An index of one
    number and a slice make views, and are left alone.

    Why it matters
    --------------
    Nothing raises, and nothing changes: the mask, the bound or the value that stands there has no effect.

    Example
    -------
    model = torch.nn.Linear(4, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        scores, users = model(torch.randn(8, 4)), torch.tensor([1, 3])
        scores[users].fill_(-1e9)
        best = scores.argmax(1)

    Instead
    -------
    model = torch.nn.Linear(4, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        scores, users = model(torch.randn(8, 4)), torch.tensor([1, 3])
        scores[users] = -1e9
        best = scores.argmax(1)
    """

    code = "GV990"
    name = "copy_changed"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told = set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if call.call_site in told or not call.changed or call.kind != "operation" or not call.inputs:
                continue
            copied = _copied_on_line(flow, row)
            if copied is None or any(flow.users(use.tensor, row) for use in call.outputs):
                continue
            maker = flow.log.calls[copied]
            later = _read_later(flow, _first_of_line(flow, copied), row)
            location = location_of_call(flow, row)
            statement = None if location is None else _statement(case, location)
            if later is not None and location is not None and statement is not None:
                told.add(call.call_site)
                yield self._finding(flow, call, maker, location, later, statement)

    def _finding(
        self, flow: Dataflow, call: Call, maker: Call, location: Location, later: int, statement: ast.stmt
    ) -> Finding:
        name, source = plain_name(maker.function), _source_of(statement)
        is_index = name == "getitem"
        what = "indexing with numbers or a mask" if is_index else f"{name}()"
        change = "the assignment" if plain_name(call.function) == "setitem" else f"{plain_name(call.function)}_()"
        used = location_of_call(flow, later)
        return self.finding(
            f"{what} makes a copy, and {change} changes only this copy, which nothing reads: "
            f"{source or 'the first tensor'} stays as it was",
            symptom="none",
            why="numbers, lists and masks as an index copy elements; only an index of one number and a slice give a "
            "view of the same memory"
            if is_index
            else "the new tensor has memory of its own, and a change there does not come back",
            fix=_fix(statement),
            location=location,
            symptom_location=used if used != location else None,
        )


_COPIES = frozenset({
    "getitem", "index_select", "gather", "take", "take_along_dim", "masked_select", "reshape", "flatten", "contiguous",
    "to", "float", "half", "double", "long", "int", "cpu", "cuda", "bfloat16",
})  # fmt: skip
_MAX_CHAIN = 4


def _copied_on_line(flow: Dataflow, row: int) -> int | None:
    """The call of the same line whose result a call changes, by views or as it is, if it has copied elements of a
    tensor that was there before."""
    tensors, line = flow.log.tensors, flow.line_of(row)
    given, before = flow.log.calls[row].inputs[0].tensor, row
    for _ in range(_MAX_CHAIN):
        made = flow.newest_producer(given, before)
        maker = None if made is None else flow.log.calls[made]
        if made is None or maker is None or not maker.inputs or flow.line_of(made) != line or maker.changed:
            return None
        source = maker.inputs[0].tensor
        memory = tensors[source].storage, tensors[given].storage
        if any(user not in (before, row) for user in flow.users(given, made)) or None in memory:
            return None
        if memory[0] != memory[1]:
            first = flow.newest_producer(_first_of_line(flow, made), made)
            is_older = first is None or flow.line_of(first) != line
            return made if plain_name(maker.function) in _COPIES and is_older else None
        given, before = source, made
    return None


def _read_later(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The next call that takes a tensor; of a gradient, that is the step of the optimizer."""
    users = iter(flow.users(tensor, row))
    leaf = flow.log.tensors[tensor].gradient_of
    if leaf is None:
        return next(users, None)
    return next(iter(flow.changes(leaf, row, len(flow.log.calls))), next(users, None))


def _first_of_line(flow: Dataflow, row: int) -> int:
    """What a call takes, or the tensor of the same memory of which its line made that: ``w`` of ``w.data[index]``."""
    tensors, given = flow.log.tensors, flow.log.calls[row].inputs[0].tensor
    for made, maker in flow.makers(given, row, _MAX_CHAIN):
        source = maker.inputs[0].tensor if maker.inputs else None
        if source is None or flow.line_of(made) != flow.line_of(row):
            break
        if tensors[source].storage != tensors[given].storage:
            break
        given = source
    return given


def _statement(case: Case, location: Location) -> ast.stmt | None:
    """The statement of a line, if it does nothing with the value of its expression."""
    lines = case.capture.sources.get(location.file)
    statement = tree_of(lines).statement_at(location.line) if lines else None
    if isinstance(statement, ast.Assign):
        return statement if all(isinstance(each, ast.Subscript) for each in statement.targets) else None
    return statement if isinstance(statement, (ast.Expr, ast.AugAssign)) else None


def _fix(statement: ast.stmt) -> str:
    value = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        inner, method = value.func.value, value.func.attr.rstrip("_")
        if isinstance(inner, ast.Subscript) and method not in _WITHOUT_RESULT:
            result: ast.expr = ast.Call(ast.Attribute(inner, method), value.args, value.keywords)
            if method in ("fill", "copy"):
                result = next(iter(value.args), result)
            new = "0" if method == "zero" else ast.unparse(result)
            return f"write the result back: {ast.unparse(inner)} = {new}"
    if isinstance(statement, (ast.Assign, ast.AugAssign)):
        return "give both indexes in one pair of brackets, on the left of the assignment: x[rows, 0] = 5"
    return "assign the result to the name that is read later, or to its elements: x[index] = result"


_WITHOUT_RESULT = frozenset({"normal", "uniform", "random", "bernoulli", "exponential", "geometric", "log_normal"})


def _source_of(statement: ast.stmt) -> str | None:
    """The name of what is indexed: ``scores`` of ``scores[users].masked_fill_(...)``."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=inner))):
            node = inner
        case ast.Assign(targets=[inner]) | ast.AugAssign(target=inner):
            node = inner
        case _:
            return None
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else getattr(node.func, "value", node.func)
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
