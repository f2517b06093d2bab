"""Statements that copy a list of tensors and not the tensors, and the lines that change them through the new list.

>>> tree = SourceTree(dict(enumerate('''new = list(grads)
... for i in range(2):
...     for g in grads:
...         new[i] -= new[i] @ g * g
... same = list(grads)
... '''.splitlines(), start=1)))
>>> [(each.line, each.name, each.changed_at) for each in shallow_copies(tree)]
[(1, 'new', (4,))]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.source_tree import Key, SourceTree, called_name, is_read


class ShallowCopy(Struct, frozen=True):
    """A second list of the same tensors."""

    line: int
    name: str
    source: str
    changed_at: tuple[int, ...]
    """The lines that change a tensor of the second list in place."""


_WRAPS = frozenset({"enumerate", "zip", "reversed"})


def shallow_copies(tree: SourceTree) -> Iterator[ShallowCopy]:
    """Those whose tensors some line changes."""
    for target, value in tree.assignments:
        source, key = _copied(value), tree.key_of(target)
        if source is None or key is None or tree.times_bound(key) != 1:
            continue
        changed = tuple(sorted(set(_changing_lines(tree, key))))
        if changed:
            yield ShallowCopy(value.lineno, key.name, source, changed)


def _copied(value: ast.expr) -> str | None:
    """The list that an expression copies."""
    name = called_name(value)
    if isinstance(value, ast.Call) and name == "list" and len(value.args) == 1:
        return _name(value.args[0])
    if isinstance(value, ast.Call) and name == "copy" and isinstance(value.func, ast.Attribute):
        return _name(value.args[0]) if value.args else _name(value.func.value)
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
        return _name(value.value) if value.slice.lower is None and value.slice.upper is None else None
    if isinstance(value, ast.ListComp) and len(value.generators) == 1 and not value.generators[0].ifs:
        part = value.generators[0]
        return _name(part.iter) if ast.dump(value.elt) == ast.dump(part.target).replace("Store", "Load") else None
    return None


def _name(node: ast.expr) -> str | None:
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else None


def _changing_lines(tree: SourceTree, key: Key) -> Iterator[int]:
    elements = set(_elements(tree, key))
    for node in tree.nodes:
        changed: ast.expr | None = None
        if isinstance(node, ast.AugAssign):
            changed = node.target
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and called_name(node).endswith("_"):
            changed = node.func.value
        if changed is None:
            continue
        is_item = isinstance(changed, ast.Subscript) and tree.key_of(changed.value) == key
        if is_item or (isinstance(changed, ast.Name) and tree.key_of(changed) in elements):
            yield changed.lineno


def _elements(tree: SourceTree, key: Key) -> Iterator[Key]:
    """The variables of loops over the list."""
    for node in tree.nodes:
        if not isinstance(node, ast.For):
            continue
        for target, over in _pairs(node.target, node.iter):
            element = tree.key_of(target)
            if element is not None and isinstance(over, (ast.Name, ast.Attribute)) and is_read(over):
                yield from (element,) if tree.key_of(over) == key else ()


def _pairs(target: ast.expr, over: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The variables of a loop with what each takes its values from."""
    if isinstance(over, ast.Call) and called_name(over) in _WRAPS and over.args:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        parts = parts[1:] if called_name(over) == "enumerate" else parts
        for part, each in zip(parts, over.args, strict=False):
            yield from _pairs(part, each)
    else:
        yield target, over
