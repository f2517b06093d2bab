"""Two names of one tensor that is changed in place under one of them and read under both.

>>> lines = dict(enumerate('''for ids in loader:
...     labels = ids
...     ids[mask] = 0
...     loss = f(model(ids), labels)
... '''.splitlines(), start=1))
>>> two_names(lines, 3)
TwoNames(changed='ids', other='labels', line=2, is_view=False)
>>> lines[2] = "    labels = ids.clone()"
>>> two_names(lines, 3)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.source_tree import LOOPS, is_read, tree_of
from gradviz.analysis.rules.bases.unread_names import FUNCTIONS, function_around

_OTHER_SHAPE = frozenset({
    "view", "view_as", "squeeze", "unsqueeze", "transpose", "permute", "movedim", "unflatten", "swapaxes", "T", "mT",
})  # fmt: skip
"""They return the same memory in another shape."""
_SAME_MEMORY = frozenset({"detach", "data", "requires_grad_"}) | _OTHER_SHAPE
_OF_SHAPE = frozenset({"shape", "size", "dim", "ndim", "device", "dtype", "numel", "item", "requires_grad", "grad"})
"""What is no reading of the values of a tensor; and the value of a loss that is only shown."""


class TwoNames(Struct, frozen=True):
    """An assignment that gives a tensor a second name."""

    changed: str
    """The name under which it is changed."""
    other: str
    line: int
    """The line that assigns the one name to the other."""
    is_view: bool = False
    """Whether that gives the one name another shape, which it needs."""


def two_names(lines: Mapping[int, str], line: int) -> TwoNames | None:
    """The two names of the tensor that a line changes in place, if both are read afterwards."""
    code = _Function(lines, line)
    changed = code.changed_on(line)
    if changed is None:
        return None
    for assigned, name, meant, is_view in code.aliases():
        other = meant if name == changed else name if meant == changed else None
        if other is None or assigned == line:
            continue
        order = code.order(assigned, line)
        if order is None or code.is_bound(order[: order.index(line)], {changed, other}):
            continue
        after = order[order.index(line) + 1 :]
        if code.is_read(after, changed) and code.is_read(after, other):
            return TwoNames(changed, other, assigned, is_view)
    return None


def reset_in_vain(lines: Mapping[int, str], line: int) -> TwoNames | None:
    """The two names of the dictionary or list of which a line in a loop replaces an element, if each round of the loop
    gives it the second name again, as if that brought the former elements back.

    >>> lines = dict(enumerate('''for x in tasks:
    ...     fast = slow
    ...     fast["w"] = slow["w"] - gradient(fast, x)
    ... '''.splitlines(), start=1))
    >>> reset_in_vain(lines, 3)
    TwoNames(changed='fast', other='slow', line=2, is_view=False)
    """
    code = _Function(lines, line)
    changed = code.changed_on(line)
    for assigned, name, meant, _ in code.aliases():
        if name != changed or assigned >= line:
            continue
        loop = code.loop_around(assigned, line)
        if (
            loop is not None
            and not code.is_bound(loop, {meant})
            and not code.is_bound(range(assigned + 1, line), {name})
        ):
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
    code = _Function(lines, line)
    changed, function = code.changed_on(line), code.function
    if changed is None or function is None:
        return None
    arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args) if each.arg != "self"]
    is_bound_before = code.is_bound(range(function.lineno, line), {changed})
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
    code = _Function(lines, line)
    for target, value in code.tree.assignments:
        statement = code.statement_of(value)
        given = value.args[position] if isinstance(value, ast.Call) and len(value.args) > position else None
        is_here = statement.lineno <= line <= (statement.end_lineno or 0)
        if not is_here or not isinstance(target, ast.Name) or not isinstance(given, ast.Name) or target.id == given.id:
            continue
        after = code.lines_after(line)
        loads = sum(isinstance(each, ast.Name) and each.id == given.id for each in ast.walk(statement))
        if (loads > 1 or code.is_read(after, given.id)) and code.is_read(after, target.id):
            return given.id, target.id
    return None


class _Function:
    """The code of a function, or of the program around a line without its functions."""

    def __init__(self, lines: Mapping[int, str], line: int) -> None:
        numbers = function_around(lines, line) or range(0)
        self._last = max(numbers, default=0)
        self.tree = tree_of({number: lines[number] for number in numbers} or {1: ""})
        only = self.tree.module.body[0] if len(self.tree.module.body) == 1 else None
        self.function = only if isinstance(only, FUNCTIONS) else None
        inner = () if self.function is not None else (*FUNCTIONS, ast.ClassDef)
        self._names = [
            node
            for node in self.tree.nodes
            if isinstance(node, ast.Name) and not any(isinstance(each, inner) for each in self.tree.around(node))
        ]

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The statement that a node is a part of."""
        return next(each for each in (node, *self.tree.around(node)) if isinstance(each, ast.stmt))

    def changed_on(self, line: int) -> str | None:
        """The name of the tensor that a line changes in place."""
        for name in self._names:
            statement = self.statement_of(name)
            if statement.lineno <= line <= (statement.end_lineno or 0) and _changed(statement) == name.id:
                return name.id
        return None

    def aliases(self) -> Iterator[tuple[int, str, str, bool]]:
        """Every assignment of a name to what another one means: its line, both names, and whether that is a view."""
        for target, value in self.tree.assignments:
            meant = _same_tensor(value)
            if isinstance(target, ast.Name) and target in self._names and meant is not None and meant != target.id:
                yield target.lineno, target.id, meant, _is_view(value)

    def order(self, start: int, line: int) -> list[int] | None:
        """The lines in the order in which they run after a line, if the other line is one of them. The last lines of a
        loop are followed by its first ones."""
        if start < line:
            return self.lines_after(start)
        loop = self.loop_around(line, start)
        return None if loop is None else [*range(start + 1, loop[-1] + 1), *range(loop[0], start + 1)]

    def loop_around(self, first: int, last: int) -> range | None:
        """The lines of the innermost loop that runs both lines."""
        loops = (each for each in self.tree.nodes if isinstance(each, LOOPS))
        around = [each for each in loops if each.lineno < first and last <= (each.end_lineno or 0)]
        inner = max(around, key=lambda each: each.lineno, default=None)
        return None if inner is None else range(inner.lineno, (inner.end_lineno or 0) + 1)

    def lines_after(self, line: int) -> list[int]:
        return list(range(line + 1, self._last + 1))

    def is_bound(self, lines: Sequence[int], names: set[str]) -> bool:
        """Whether one of the lines gives one of the names to something else."""
        return any(each.id in names and each.lineno in lines and not is_read(each) for each in self._names)

    def is_read(self, order: list[int], name: str) -> bool:
        """Whether one of the lines reads the values that a name means, before another one binds it again."""
        places = {line: index for index, line in enumerate(order)}
        here = [each for each in self._names if each.id == name and each.lineno in places]
        bound = [places[each.lineno] for each in here if not is_read(each) and not self._is_added_to(each)]
        end = min(bound, default=len(order))
        return any(places[each.lineno] <= end for each in here if is_read(each) and not self._is_of_shape(each))

    def _is_added_to(self, name: ast.Name) -> bool:
        around = self.tree.parent(name)
        return isinstance(around, ast.AugAssign) and around.target is name

    def _is_of_shape(self, name: ast.Name) -> bool:
        around = self.tree.parent(name)
        return isinstance(around, ast.Attribute) and around.attr in _OF_SHAPE


def _changed(statement: ast.AST) -> str | None:
    """``x`` for ``x += y``, ``x[0] = y``, ``x.mul_(2).add_(1)`` and ``torch._foreach_mul_(x, 2)``."""
    if isinstance(statement, ast.AugAssign):
        return _root(statement.target)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        return _root(statement.targets[0])
    value = statement.value if isinstance(statement, ast.Expr) else None
    is_changing, call = False, None
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        is_changing |= value.func.attr.endswith("_") and not value.func.attr.startswith("__")
        call, value = value, value.func.value
    if isinstance(value, ast.Name) and value.id in _MODULES and call is not None and call.args:
        value = call.args[0]
    return value.id if is_changing and isinstance(value, ast.Name) else None


_MODULES = frozenset({"torch", "F", "nn"})


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


def _is_view(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr in _OTHER_SHAPE for each in ast.walk(value))


def _returns(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Whether a function returns what a name means, alone or with others."""
    returned = (node.value for node in ast.walk(function) if isinstance(node, ast.Return))
    parts = (part for value in returned for part in (value.elts if isinstance(value, ast.Tuple) else [value]))
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)
