"""The names of a function: which mean the same memory, which are changed in place, and where they are read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from gradviz.analysis.sources.parsed_lines import FUNCTIONS, function_around
from gradviz.analysis.sources.source_tree import LOOPS, is_read, tree_of

_OTHER_SHAPE = frozenset({
    "view", "view_as", "squeeze", "unsqueeze", "transpose", "permute", "movedim", "unflatten", "swapaxes", "T", "mT",
})  # fmt: skip
"""They return the same memory in another shape."""
_MAY_COPY = frozenset({
    "flatten", "reshape", "reshape_as", "ravel", "contiguous", "to", "float", "double", "type", "type_as", "cpu",
})  # fmt: skip
"""They return the same memory where nothing has to be rearranged or converted."""
_SAME_MEMORY = frozenset({"detach", "data", "requires_grad_"}) | _OTHER_SHAPE | _MAY_COPY
_OF_SHAPE = frozenset({"shape", "size", "dim", "ndim", "device", "dtype", "numel", "item", "requires_grad", "grad"})
"""What is no reading of the values of a tensor; and the value of a loss that is only shown."""


class NamesInFunction:
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

    def aliases(self) -> Iterator[tuple[int, str, str, ast.expr]]:
        """Every assignment of a name to what another one means: its line, both names, and the value."""
        for target, value in self.tree.assignments:
            meant = _same_tensor(value)
            if isinstance(target, ast.Name) and target in self._names and meant is not None and meant != target.id:
                yield target.lineno, target.id, meant, value

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
        read = (each for each in here if is_read(each) and not self._is_of_shape(each) and not self._is_filled(each))
        return any(places[each.lineno] <= end for each in read)

    def _is_added_to(self, name: ast.Name) -> bool:
        around = self.tree.parent(name)
        return isinstance(around, ast.AugAssign) and around.target is name

    def _is_filled(self, name: ast.Name) -> bool:
        """Whether it only gets other values: ``p.data.copy_(own)``."""
        node: ast.AST = name
        around = self.tree.parent(name)
        while isinstance(around, ast.Attribute) or (isinstance(around, ast.Call) and around.func is node):
            if isinstance(around, ast.Attribute) and around.attr not in _SAME_MEMORY:
                return around.attr == "copy_"
            node, around = around, self.tree.parent(around)
        return False

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
    """``x`` for ``x``, ``x.detach()``, ``x.data`` and ``torch.flatten(x, 1)``."""
    while True:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SAME_MEMORY:
            owner = value.func.value
            is_of_torch = isinstance(owner, ast.Name) and owner.id == "torch" and bool(value.args)
            value = value.args[0] if is_of_torch else owner
        elif isinstance(value, ast.Attribute) and value.attr in _SAME_MEMORY:
            value = value.value
        else:
            return value.id if isinstance(value, ast.Name) else None


def is_view(value: ast.expr) -> bool:
    """Whether it has a function that may give the same memory in another shape or type."""
    names = (each.attr for each in ast.walk(value) if isinstance(each, ast.Attribute))
    return any(name in _OTHER_SHAPE or name in _MAY_COPY for name in names)


def functions_that_may_copy(value: ast.expr) -> tuple[str, ...]:
    """The functions in it that give the same memory only where nothing has to be rearranged or converted."""
    names = (each.attr for each in ast.walk(value) if isinstance(each, ast.Attribute))
    return tuple(name for name in names if name in _MAY_COPY)


def place_in_results(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> tuple[int | None] | None:
    """Where a function returns what a name means: with None if alone; None if it does not return it."""
    for node in ast.walk(function):
        value = node.value if isinstance(node, ast.Return) else None
        if isinstance(value, ast.Name) and value.id == name:
            return (None,)
        for index, part in enumerate(value.elts) if isinstance(value, ast.Tuple) else ():
            if isinstance(part, ast.Name) and part.id == name:
                return (index,)
    return None
