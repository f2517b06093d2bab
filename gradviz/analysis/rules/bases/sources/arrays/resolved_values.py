"""What a variable was computed of, through conversions between tensors, arrays, lists and numbers.

>>> tree = SourceTree(dict(enumerate('''found = (scores > 0.5).long()
... kept = []
... for x in loader:
...     kept.append(found.cpu().numpy())
... table = np.concatenate(kept)
... '''.splitlines(), start=1)))
>>> [ast.unparse(each) for each in sources_of(tree, tree.assignments[-1][1])]
['scores > 0.5']
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name

_METHODS = frozenset({
    "numpy", "cpu", "detach", "item", "tolist", "astype", "float", "double", "long", "int", "squeeze", "ravel",
    "flatten", "to", "bool", "copy", "clone", "view", "reshape", "type",
})  # fmt: skip
_FUNCTIONS = frozenset({
    "array", "asarray", "tensor", "as_tensor", "from_numpy", "float", "int", "list", "concatenate", "cat", "vstack",
    "hstack", "stack", "squeeze", "ravel",
})  # fmt: skip
LIBRARIES = frozenset({"np", "numpy", "torch"})
_ADD_TO_LIST = frozenset({"append", "extend"})
_MAX_STEPS = 12


def sources_of(tree: SourceTree, node: ast.expr) -> list[ast.expr]:
    """The expressions that are no conversion of another one: one, or what is put into a list. Empty where a variable
    is given several values, or is an argument."""
    for _ in range(_MAX_STEPS):
        inner = _converted(node)
        key = tree.key_of(node) if inner is None else None
        if key is not None:
            given = tree.values_of(key)
            added = list(_added(tree, key))
            if added:
                is_started = all(isinstance(each, ast.List) and not each.elts for each in given)
                return [source for each in added for source in sources_of(tree, each)] if is_started else []
            if tree.times_bound(key) != 1 or len(given) != 1:
                return []
            inner = given[0]
        if inner is None:
            return [node]
        node = inner
    return []


def source_of(tree: SourceTree, node: ast.expr) -> ast.expr | None:
    """The only one."""
    found = sources_of(tree, node)
    return found[0] if len(found) == 1 else None


def is_of_library(call: ast.Call, libraries: Container[str] = LIBRARIES) -> bool:
    """Whether a call is that of a function of NumPy or torch: ``np.mean(x)``, not ``x.mean()``."""
    return getattr(getattr(call.func, "value", None), "id", "") in libraries


def taken_by(call: ast.Call, libraries: Container[str] = LIBRARIES) -> ast.expr | None:
    """What ``np.argmax(x)`` and ``x.argmax()`` take."""
    if is_of_library(call, libraries):
        return call.args[0] if call.args else None
    return getattr(call.func, "value", None)


def _converted(node: ast.expr) -> ast.expr | None:
    """What a conversion takes."""
    name = called_name(node)
    if not isinstance(node, ast.Call):
        return node.elts[0] if isinstance(node, ast.List) and len(node.elts) == 1 else None
    is_function = isinstance(node.func, ast.Name) or is_of_library(node)
    if is_function:
        return node.args[0] if name in _FUNCTIONS and node.args else None
    return node.func.value if name in _METHODS and isinstance(node.func, ast.Attribute) else None


def _added(tree: SourceTree, key: Key) -> Iterator[ast.expr]:
    for node in tree.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr=name), args=[value]) if name in _ADD_TO_LIST:
                if tree.key_of(held) == key:
                    yield value
            case ast.AugAssign(target=held, op=ast.Add(), value=value) if tree.key_of(held) == key:
                yield value
