"""Two names of one tensor that is changed in place under one of them and read under both.

>>> lines = dict(enumerate('''for ids in loader:
...     labels = ids
...     ids[mask] = 0
...     loss = f(model(ids), labels)
... '''.splitlines(), start=1))
>>> two_names(lines, 3)
TwoNames(changed='ids', other='labels', line=2)
>>> lines[2] = "    labels = ids.clone()"
>>> two_names(lines, 3)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gradviz.analysis.rules.bases.unread_names import FUNCTIONS, function_around, parsed

_SAME_MEMORY = frozenset({"detach", "view", "view_as", "data", "squeeze", "unsqueeze", "requires_grad_"})
_OF_SHAPE = frozenset({"shape", "size", "dim", "ndim", "device", "dtype", "numel", "item", "requires_grad", "grad"})
"""What is no reading of the values of a tensor; and the value of a loss that is only shown."""


class TwoNames(Struct, frozen=True):
    """An assignment that gives a tensor a second name."""

    changed: str
    """The name under which it is changed."""
    other: str
    line: int
    """The line that assigns the one name to the other."""


def two_names(lines: Mapping[int, str], line: int) -> TwoNames | None:
    """The two names of the tensor that a line changes in place, if both are read afterwards."""
    code = _Code.around(lines, line)
    changed = None if code is None else code.changed_on(line)
    if code is None or changed is None:
        return None
    for assigned, name, meant in code.aliases():
        other = meant if name == changed else name if meant == changed else None
        if other is None or assigned == line:
            continue
        order = code.order(assigned, line)
        if order is None or code.is_bound_within(order, {changed, other}, line):
            continue
        after = order[order.index(line) + 1 :]
        if code.is_read(after, changed) and code.is_read(after, other):
            return TwoNames(changed, other, assigned)
    return None


def reset_in_vain(lines: Mapping[int, str], line: int) -> TwoNames | None:
    """The two names of the dictionary or list of which a line in a loop replaces an element, if each round of the loop
    gives it the second name again, as if that brought the former elements back.

    >>> lines = dict(enumerate('''for x in tasks:
    ...     fast = slow
    ...     fast["w"] = slow["w"] - gradient(fast, x)
    ... '''.splitlines(), start=1))
    >>> reset_in_vain(lines, 3)
    TwoNames(changed='fast', other='slow', line=2)
    """
    code = _Code.around(lines, line)
    changed = None if code is None else code.changed_on(line)
    for assigned, name, meant in () if code is None else code.aliases():
        if code is None or name != changed or assigned >= line:
            continue
        loop = code.loop_around(assigned, line)
        if loop is not None and not code.is_bound_within([*loop, line], {meant}, line):
            between = range(assigned + 1, line + 1)
            if not code.is_bound_within([*between, line], {name}, line):
                return TwoNames(name, meant, assigned)
    return None


def returned_argument(lines: Mapping[int, str], line: int) -> tuple[str, int] | None:
    """The argument of the function around a line that the line changes in place and the function returns: its name, and
    its position without ``self``.

    >>> lines = dict(enumerate('''def noisy(x, scale):
    ...     x += scale * torch.randn_like(x)
    ...     return x
    ... '''.splitlines(), start=1))
    >>> returned_argument(lines, 2)
    ('x', 0)
    """
    code = _Code.around(lines, line)
    changed = None if code is None else code.changed_on(line)
    function = None if code is None else code.function
    if code is None or changed is None or function is None:
        return None
    arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args) if each.arg != "self"]
    is_bound_before = any(node.id == changed and code.line_of(node) < line for node in code.names(ast.Store))
    if changed not in arguments or is_bound_before or not _returns(function, changed):
        return None
    return changed, arguments.index(changed)


def given_and_kept(lines: Mapping[int, str], line: int, position: int) -> tuple[str, str] | None:
    """The name that a call on a line gives at a position, and the other name that its result gets, if the values of
    both are read afterwards.

    >>> lines = dict(enumerate('''for x in loader:
    ...     hidden = noisy(x, 0.1)
    ...     loss = mse(model(hidden), x)
    ... '''.splitlines(), start=1))
    >>> given_and_kept(lines, 2, 0)
    ('x', 'hidden')
    """
    code = _Code.around(lines, line)
    for statement in () if code is None else code.statements_on(line):
        if code is None or not isinstance(statement, ast.Assign):
            continue
        for target, value in _pairs(statement):
            given = value.args[position] if isinstance(value, ast.Call) and len(value.args) > position else None
            if not isinstance(target, ast.Name) or not isinstance(given, ast.Name) or target.id == given.id:
                continue
            after = code.lines_after(line)
            loads = sum(isinstance(each, ast.Name) and each.id == given.id for each in ast.walk(statement.value))
            is_given_read = loads > 1 or code.is_read(after, given.id)
            if is_given_read and code.is_read(after, target.id):
                return given.id, target.id
    return None


class _Code(Struct, frozen=True):
    """The syntax of a function, or of the program around a line."""

    first: int
    """The line of the file that the syntax counts as line 1."""
    last: int
    module: ast.Module
    nodes: list[ast.AST]

    @staticmethod
    def around(lines: Mapping[int, str], line: int) -> _Code | None:
        numbers = function_around(lines, line)
        tree = None if numbers is None else parsed([lines[number] for number in numbers])
        if numbers is None or tree is None:
            return None
        module, trimmed = tree
        only = module.body[0] if len(module.body) == 1 else None
        nodes = list(ast.walk(module)) if isinstance(only, FUNCTIONS) else list(_outside_functions(module))
        return _Code(numbers[0] + trimmed, numbers[-1], module, nodes)

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        only = self.module.body[0] if len(self.module.body) == 1 else None
        return only if isinstance(only, FUNCTIONS) else None

    def line_of(self, node: ast.expr | ast.stmt) -> int:
        return self.first + node.lineno - 1

    def end_of(self, node: ast.expr | ast.stmt) -> int:
        return self.first + (node.end_lineno or node.lineno) - 1

    def statements_on(self, line: int) -> Iterator[ast.stmt]:
        """Statements without a body on a line."""
        for node in self.nodes:
            is_simple = isinstance(node, ast.stmt) and not hasattr(node, "body")
            if is_simple and isinstance(node, ast.stmt) and self.line_of(node) <= line <= self.end_of(node):
                yield node

    def changed_on(self, line: int) -> str | None:
        """The name of the tensor that a line changes in place."""
        return next((name for each in self.statements_on(line) if (name := _changed(each)) is not None), None)

    def aliases(self) -> Iterator[tuple[int, str, str]]:
        """Every assignment of a name to what another one means: its line, and both names."""
        assignments = (node for node in self.nodes if isinstance(node, ast.Assign))
        for target, value in (pair for each in assignments for pair in _pairs(each)):
            meant = _same_tensor(value)
            if isinstance(target, ast.Name) and meant is not None and meant != target.id:
                yield self.line_of(target), target.id, meant

    def order(self, start: int, line: int) -> list[int] | None:
        """The lines in the order in which they run after a line, if the other line is one of them. The last lines of a
        loop are followed by its first ones."""
        if start < line:
            return list(range(start + 1, self.last + 1))
        loop = self.loop_around(line, start)
        return None if loop is None else [*range(start + 1, loop[-1] + 1), *range(loop[0], start + 1)]

    def loop_around(self, first: int, last: int) -> range | None:
        """The lines of the innermost loop that runs both lines."""
        loops = (each for each in self.nodes if isinstance(each, ast.For | ast.While | ast.AsyncFor))
        around = [each for each in loops if self.line_of(each) < first and last <= self.end_of(each)]
        inner = max(around, key=self.line_of, default=None)
        return None if inner is None else range(self.line_of(inner), self.end_of(inner) + 1)

    def lines_after(self, line: int) -> list[int]:
        return list(range(line + 1, self.last + 1))

    def names(self, context: type[ast.expr_context]) -> Iterator[ast.Name]:
        return (node for node in self.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context))

    def is_bound_within(self, order: list[int], names: set[str], until: int) -> bool:
        """Whether a line before the last one gives one of the names to something else."""
        before = set(order[: order.index(until)])
        return any(node.id in names and self.line_of(node) in before for node in self.names(ast.Store))

    def is_read(self, order: list[int], name: str) -> bool:
        """Whether one of the lines reads the values that a name means, before another one binds it again."""
        places = {line: index for index, line in enumerate(order)}
        added = {id(node.target) for node in self.nodes if isinstance(node, ast.AugAssign)}
        bound = (self.line_of(node) for node in self.names(ast.Store) if node.id == name and id(node) not in added)
        end = min((places[line] for line in bound if line in places), default=len(order))
        shown = {id(node.value) for node in self.nodes if isinstance(node, ast.Attribute) and node.attr in _OF_SHAPE}
        reads = (node for node in self.names(ast.Load) if node.id == name and id(node) not in shown)
        return any(places.get(self.line_of(node), len(order) + 1) <= end for node in reads)


def _outside_functions(module: ast.Module) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [each for each in ast.iter_child_nodes(node) if not isinstance(each, (*FUNCTIONS, ast.ClassDef))]


def _pairs(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What each target of an assignment gets."""
    for target in statement.targets:
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            yield from zip(target.elts, statement.value.elts, strict=False)
        else:
            yield target, statement.value


def _changed(statement: ast.stmt) -> str | None:
    """``x`` for ``x += y``, ``x[0] = y`` and ``x.mul_(2).add_(1)``."""
    if isinstance(statement, ast.AugAssign):
        return _root(statement.target)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        return _root(statement.targets[0])
    value = statement.value if isinstance(statement, ast.Expr) else None
    is_changing = False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        is_changing |= value.func.attr.endswith("_") and not value.func.attr.startswith("_")
        value = value.func.value
    return value.id if is_changing and isinstance(value, ast.Name) else None


def _root(target: ast.expr) -> str | None:
    while isinstance(target, ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None


def _same_tensor(value: ast.expr) -> str | None:
    """``x`` for ``x``, ``x.detach()`` and ``x.data``."""
    while True:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SAME_MEMORY:
            value = value.func.value
        elif isinstance(value, ast.Attribute) and value.attr in _SAME_MEMORY:
            value = value.value
        else:
            return value.id if isinstance(value, ast.Name) else None


def _returns(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Whether a function returns what a name means, alone or with others."""
    returned = (node.value for node in ast.walk(function) if isinstance(node, ast.Return))
    parts = (part for value in returned for part in (value.elts if isinstance(value, ast.Tuple) else [value]))
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)
