"""Statements that copy a list of tensors and not the tensors, and the lines that use the tensors of the new list.

>>> tree = SourceTree(dict(enumerate('''new = list(grads)
... for i in range(2):
...     for g in grads:
...         new[i] -= new[i] @ g * g
... same = list(grads)
... slow = {name: p for name, p in new.items()}
... for name, p in slow.items():
...     p.lerp_(new[name], 0.5)
... '''.splitlines(), start=1)))
>>> [(each.line, each.name, each.changed_at, each.together_at) for each in shallow_copies(tree)]
[(1, 'new', (4,), ()), (6, 'slow', (8,), (8,))]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, is_read


class ShallowCopy(Struct, frozen=True):
    """A second list or dict of the same tensors."""

    line: int
    name: str
    source: str
    changed_at: tuple[int, ...]
    """The lines that change a tensor of the second list in place."""
    together_at: tuple[int, ...]
    """The lines that read tensors of both lists, or both as a whole."""


_WRAPS = frozenset({"enumerate", "zip", "reversed"})
_ENTRIES = frozenset({"items", "values"})
_COPIES = frozenset({"list", "tuple", "dict"})


def shallow_copies(tree: SourceTree) -> Iterator[ShallowCopy]:
    """Those whose tensors some line changes, or reads together with those of the first list."""
    for target, value in tree.assignments:
        source, key = _copied(value), tree.key_of(target)
        if source is None or key is None or tree.times_bound(key) != 1:
            continue
        changed = tuple(sorted(set(_changing_lines(tree, key))))
        original = tree.key_of(source)
        read = set() if original is None else _reading_lines(tree, key) & _reading_lines(tree, original)
        if changed or read:
            together = tuple(sorted(read - {value.lineno}))
            yield ShallowCopy(value.lineno, key.name, ast.unparse(source), changed, together)


def _copied(value: ast.expr) -> ast.expr | None:
    """The list or dict that an expression copies."""
    name = called_name(value)
    if isinstance(value, ast.Call) and name in _COPIES and len(value.args) == 1 and not value.keywords:
        return _named(value.args[0])
    if isinstance(value, ast.Call) and name == "copy" and isinstance(value.func, ast.Attribute):
        return _named(value.args[0]) if value.args else _named(value.func.value)
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
        return _named(value.value) if value.slice.lower is None and value.slice.upper is None else None
    if isinstance(value, ast.List) and len(value.elts) == 1 and isinstance(value.elts[0], ast.Starred):
        return _named(value.elts[0].value)
    if isinstance(value, ast.Dict) and value.keys == [None]:
        return _named(value.values[0])
    if isinstance(value, (ast.ListComp, ast.DictComp)) and len(value.generators) == 1:
        return _copied_one_by_one(value, value.generators[0])
    return None


def _copied_one_by_one(value: ast.ListComp | ast.DictComp, part: ast.comprehension) -> ast.expr | None:
    """The list of ``[each for each in xs]``, or the dict of ``{name: each for name, each in xs.items()}``."""
    target = ast.dump(part.target).replace("Store", "Load")
    if part.ifs:
        return None
    if isinstance(value, ast.ListComp):
        return _named(part.iter) if ast.dump(value.elt) == target else None
    if not isinstance(part.iter, ast.Call) or not isinstance(part.iter.func, ast.Attribute):
        return None
    is_same = ast.dump(ast.Tuple([value.key, value.value], ast.Load())) == target
    return _named(part.iter.func.value) if is_same and part.iter.func.attr == "items" else None


def _named(node: ast.expr) -> ast.expr | None:
    return node if isinstance(node, (ast.Name, ast.Attribute)) else None


def _changing_lines(tree: SourceTree, key: Key) -> Iterator[int]:
    elements = set(_elements(tree, key, ast.For))
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


def _reading_lines(tree: SourceTree, key: Key) -> set[int]:
    """The lines that read a list or one of its elements."""
    keys = {key, *_elements(tree, key, ast.For, ast.comprehension)}
    reads = (node for node in tree.nodes if isinstance(node, (ast.Name, ast.Attribute)) and is_read(node))
    return {node.lineno for node in reads if tree.key_of(node) in keys}


def _elements(tree: SourceTree, key: Key, *loops: type[ast.For | ast.comprehension]) -> Iterator[Key]:
    """The variables of loops over the list, or over the entries of the dict."""
    for node in tree.nodes:
        if not isinstance(node, loops):
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
    elif isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and called_name(over) in _ENTRIES:
        is_pair = called_name(over) == "items" and isinstance(target, ast.Tuple)
        yield target.elts[-1] if is_pair and isinstance(target, ast.Tuple) else target, over.func.value
    else:
        yield target, over
