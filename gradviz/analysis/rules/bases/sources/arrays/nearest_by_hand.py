"""Nearest neighbours that NumPy looks for, and whose labels a program reads.

>>> tree = SourceTree(dict(enumerate('''def score(queries, table, labels):
...     for q in queries:
...         distances = np.linalg.norm(table - q, axis=1)
...         best = np.argsort(distances)[-5:]
...         votes = labels[best]
... def own(z, labels):
...     near = z @ z.T
...     return labels[np.argmax(near, axis=1)] == labels
... '''.splitlines(), start=1)))
>>> list(farthest_by_hand(tree)), list(found_among_themselves(tree))
([4], [8])
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradviz.analysis.rules.bases.sources.arrays.resolved_values import source_of
from gradviz.analysis.rules.bases.sources.source_tree import SourceTree, called_name

_LABELS = re.compile(r"lab|class|target|truth|(^|_)(y|ids?|identit)", re.IGNORECASE)
_DISTANCES = frozenset({"norm", "cdist", "pairwise_distances", "euclidean_distances"})
_PRODUCTS = frozenset({"dot", "matmul", "mm"})
_ENDS = {"argmax": True, "argmin": False}
_TAKES_OUT = re.compile(r"fill_diagonal|delete\(|!=|\[1\]|\[1:|1:|\+ 1|inf|eye\(")
_BOTH = 2


def farthest_by_hand(tree: SourceTree) -> Iterator[int]:
    """The lines that take the largest distances, where the labels of what is found are read."""
    for node, values, is_largest in _ends(tree):
        measured = source_of(tree, values)
        if measured is not None and _is_distance(tree, measured) and is_largest and _reads_labels(tree, node):
            yield node.lineno


def found_among_themselves(tree: SourceTree) -> Iterator[int]:
    """The lines that take what is nearest to a vector of a set among all of this set, where nothing takes it out."""
    for node, values, is_largest in _ends(tree):
        measured = source_of(tree, values)
        if measured is None or not _reads_labels(tree, node) or _TAKES_OUT.search(ast.unparse(tree.scope(node))):
            continue
        is_scored = any(isinstance(each, ast.Compare) for each in ast.walk(tree.scope(node)))
        if is_scored and is_largest is not _is_distance(tree, measured) and _is_with_itself(tree, measured):
            yield node.lineno


def _ends(tree: SourceTree) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """The places of the largest or the smallest values, the values, and whether they are the largest ones."""
    for node in tree.nodes:
        found = _end(node) if isinstance(node, ast.expr) else None
        if found is None:
            continue
        values, is_largest = found
        while isinstance(values, ast.UnaryOp) and isinstance(values.op, ast.USub):
            values, is_largest = values.operand, not is_largest
        yield node, values, is_largest  # type: ignore[misc]


def _end(node: ast.expr) -> tuple[ast.expr, bool] | None:
    name = called_name(node)
    if name in _ENDS and isinstance(node, ast.Call) and (values := _taken(node)) is not None:
        return values, _ENDS[name]
    if not isinstance(node, ast.Subscript):
        return None
    order, is_turned = node.value, False
    if isinstance(order, ast.Subscript) and _is_reversed(order):
        order, is_turned = order.value, True
    part = node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) else node.slice
    if called_name(order) != "argsort" or not isinstance(part, ast.Slice) or not isinstance(order, ast.Call):
        return None
    values = _taken(order)
    if values is None or part.step is not None or (part.lower is None) == (part.upper is None):
        return None
    is_last = isinstance(part.lower, ast.UnaryOp) and isinstance(part.lower.op, ast.USub)
    if part.lower is not None and not is_last:
        return None
    return values, is_last is not is_turned


def _is_reversed(node: ast.Subscript) -> bool:
    part = node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) else node.slice
    return isinstance(part, ast.Slice) and part.step is not None and ast.unparse(part) == "::-1"


def _taken(call: ast.Call) -> ast.expr | None:
    """What ``np.argmax(x)`` and ``x.argmax()`` take."""
    if not isinstance(call.func, ast.Attribute):
        return None
    root = call.func.value
    is_function = isinstance(root, ast.Name) and root.id in ("np", "numpy", "torch")
    return (call.args[0] if call.args else None) if is_function else root


def _is_distance(tree: SourceTree, node: ast.expr) -> bool:
    """``norm(a - b)``, ``cdist(a, b)``, and the sum of squares, perhaps its root."""
    name = called_name(node)
    if name in _DISTANCES:
        return True
    if name not in ("sum", "sqrt") or not isinstance(node, ast.Call):
        return False
    inner = _taken(node)
    made = None if inner is None else source_of(tree, inner)
    if made is None:
        return False
    if name == "sqrt":
        return _is_distance(tree, made)
    is_square = isinstance(made, ast.BinOp) and isinstance(made.op, ast.Pow)
    return is_square and isinstance(getattr(made, "left", None), ast.BinOp)


def _is_with_itself(tree: SourceTree, node: ast.expr) -> bool:
    """Whether both sides are one set of vectors, or the set and one of them: ``z @ z.T``, ``z @ z[i]``."""
    sides: list[ast.expr] = []
    for part in ast.walk(node):
        match part:
            case ast.BinOp(left=left, op=ast.MatMult() | ast.Sub(), right=right):
                sides = [left, right]
            case ast.Call(args=given) if called_name(part) in (*_PRODUCTS, "cdist"):
                sides = given if len(given) == _BOTH else [*sides, part.func, *given]
        if len(sides) == _BOTH:
            break
    roots = {ast.unparse(_root(each)) for each in sides}
    return len(sides) == _BOTH and len(roots) == 1 and len({ast.unparse(each) for each in sides}) == _BOTH


def _root(node: ast.expr) -> ast.expr:
    """``z`` of ``z[i]`` and ``z.T``."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "T"):
        node = node.value
    return node


def _reads_labels(tree: SourceTree, node: ast.expr) -> bool:
    """Whether labels are looked up at these places, on the spot or by the name that they are given."""
    key = next((tree.key_of(target) for target, value in tree.assignments if value is node), None)
    looked_up = (each for each in tree.nodes if isinstance(each, ast.Subscript))
    return any(
        (each.slice is node or (key is not None and tree.key_of(each.slice) == key))
        and _LABELS.search(ast.unparse(each.value)) is not None
        for each in looked_up
    )
