"""GV996."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, called_name, decorator_that_keeps_results, last_line


class KeptFromBeforeSteps(Rule):
    """A model keeps what it has computed of its weights, and takes it again after the weights have changed.

    What it finds
    -------------
    A result of trained parameters that a method computes only where an attribute has none yet, such as
    ``if self._table is None: self._table = self.item(features)``, which later calls take as it is, after further steps
    of the optimizer, where nothing in the program ever empties the attribute.

    Why it matters
    --------------
    What is scored is a mixture of the present weights and of those of the first call: the score says little of the
    training, and may even fall while the model gets better.

    Example
    -------
    class Ranker(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.user, self.item, self._table = torch.nn.Embedding(8, 4), torch.nn.Linear(6, 4), None
        def table(self, features):
            if self._table is None:
                self._table = self.item(features)
            return self._table
    model, features, users = Ranker(), torch.randn(9, 6), torch.arange(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = -(model.user(users) * model.item(features[:8])).sum(1).sigmoid().log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            print((model.user(users) @ model.table(features).t()).argmax(1))

    Instead
    -------
    class Ranker(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.user, self.item = torch.nn.Embedding(8, 4), torch.nn.Linear(6, 4)
        def table(self, features):
            return self.item(features)
    model, features, users = Ranker(), torch.randn(9, 6), torch.arange(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = -(model.user(users) * model.item(features[:8])).sum(1).sigmoid().log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            print((model.user(users) @ model.table(features).t()).argmax(1))
    """

    code = "GV996"
    name = "kept_from_before_steps"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.steps else ():
            ran = LinesThatRan(case.dataflow, file)
            for kept in _kept_once(tree):
                steps = _steps_before_use(case, ran, kept)
                if steps:
                    yield self._finding(file, kept, steps)

    def _finding(self, file: str, kept: _Kept, steps: int) -> Finding:
        return self.finding(
            f"{kept.name} keeps what was computed of trained weights, is used again after {steps:,} further "
            f"{'step' if steps == 1 else 'steps'} have changed them, and is never emptied",
            symptom="none",
            why="the weights of the first call are mixed with those of now, so what is scored is not the model",
            fix=f"compute it anew for each evaluation, or set {kept.name} to None whenever the weights change",
            location=Location(file, kept.first),
        )


class _Kept(Struct, frozen=True):
    """Statements that compute an attribute only where it has no value yet."""

    name: str
    """``self._table``."""
    first: int
    last: int


def _kept_once(tree: SourceTree) -> Iterator[_Kept]:
    """In the order of the source; not where something empties the attribute again."""
    for node in tree.nodes:
        if isinstance(node, ast.FunctionDef) and _is_cached(node) and not _is_emptied(tree, node.name, node):
            yield _Kept(f"self.{node.name}", node.body[0].lineno, last_line(node.body[-1]))
        if not isinstance(node, ast.If) or (name := _asked_for(node.test)) is None:
            continue
        attribute = name.partition(".")[2]
        sets = [each for each in node.body if isinstance(each, ast.Assign) and _sets(each, name)]
        if sets and not _is_emptied(tree, attribute, node):
            yield _Kept(name, node.body[0].lineno, last_line(sets[-1]))


def _is_cached(function: ast.FunctionDef) -> bool:
    """Whether a decorator keeps what a method of an object has returned, and the method takes nothing else."""
    is_kept = decorator_that_keeps_results(function) is not None
    return is_kept and [each.arg for each in function.args.args] == ["self"]


def _asked_for(test: ast.expr) -> str | None:
    """``self.x`` of ``self.x is None``, of ``not hasattr(self, "x")`` and of ``key not in self.x``."""
    match test:
        case ast.Compare(
            left=ast.Attribute(value=ast.Name(id="self")) as left,
            ops=[ast.Is()],
            comparators=[ast.Constant(value=None)],
        ):
            return ast.unparse(left)
        case ast.UnaryOp(
            op=ast.Not(),
            operand=ast.Call(func=ast.Name(id="hasattr"), args=[ast.Name(id="self"), ast.Constant(value=str(name))]),
        ):
            return f"self.{name}"
        case ast.Compare(ops=[ast.NotIn()], comparators=[ast.Attribute(value=ast.Name(id="self")) as holder]):
            return ast.unparse(holder)
    return None


def _sets(statement: ast.Assign, name: str) -> bool:
    """``self.x = ...``, and ``self.x[key] = ...``."""
    targets = (each.value if isinstance(each, ast.Subscript) else each for each in statement.targets)
    return any(ast.unparse(each) == name for each in targets)


def _is_emptied(tree: SourceTree, attribute: str, guard: ast.If | ast.FunctionDef) -> bool:
    """Whether anything but a constructor, and but the guarded lines, sets the attribute, deletes it or clears it."""
    inside = set(ast.walk(guard))
    for node in tree.nodes:
        if node in inside:
            continue
        text = ast.unparse(node) if isinstance(node, ast.Call) and called_name(node) in _EMPTY else ""
        if f".{attribute}" in text or f"'{attribute}'" in text:
            return True
        is_named = isinstance(node, ast.Attribute) and node.attr == attribute and not isinstance(node.ctx, ast.Load)
        if is_named and getattr(tree.scope(node), "name", "") != "__init__":
            return True
    return False


_EMPTY = frozenset({"clear", "pop", "delattr", "setattr", "cache_clear"})


def _steps_before_use(case: Case, ran: LinesThatRan, kept: _Kept) -> int:
    """How many steps lie between what was kept of trained weights and its last use in an evaluation; 0 if there is no
    such use, or it is computed again."""
    flow, histories = case.dataflow, case.histories
    rows = ran.rows_in(kept.first, kept.last)
    if not rows or ran.moments(rows) > 1:
        return 0
    calls = [flow.log.calls[row] for row in rows]
    weights = {use.tensor for call in calls for use in call.inputs if use.tensor in histories.trained}
    made = {use.tensor for call in calls for use in call.outputs if not use.requires_grad}
    users = [user for tensor in made for user in flow.users(tensor, rows[-1])]
    if not weights or not users or any(flow.log.calls[user].grad_mode == "enabled" for user in users):
        return 0
    changes = {row for number in weights for row in flow.changes(number, rows[-1], max(users))}
    return len([row for row in changes if flow.log.calls[row].kind == "step"])
