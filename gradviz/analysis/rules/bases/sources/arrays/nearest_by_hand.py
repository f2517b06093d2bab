"""Nearest neighbours that NumPy looks for, and whose labels a program reads.

>>> tree = SourceTree(dict(enumerate('''def score(queries, table, labels):
...     for q in queries:
...         distances = np.linalg.norm(table - q, axis=1)
...         best = np.argsort(distances)[-5:]
...         votes = np.bincount(labels[best]).argmax()
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

from gradviz.analysis.rules.bases.sources.arrays.resolved_values import source_of, taken_by
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    SourceTree,
    called_name,
    last_name,
    names_in,
    parameters_of,
)

_LABELS = re.compile(r"lab|class|target|truth|(^|_)(y|ids?|identit)", re.IGNORECASE)
_DISTANCES = frozenset({"norm", "cdist", "pairwise_distances", "euclidean_distances"})
_PRODUCTS = frozenset({"dot", "matmul", "mm"})
_ENDS = {"argmax": True, "argmin": False}
_TAKES_OUT = re.compile(r"diag|identity|tri[lu]|delete\(|!=|continue|\[1\]|\[1:|1:|\+ 1|inf|eye\(")
_VOTES = frozenset({"mode", "most_common", "argmax", "eq", "equal", "accuracy_score"})
_CHOOSE = frozenset({"where", "masked_where", "masked_array"})
_BOTH = 2


def farthest_by_hand(tree: SourceTree) -> Iterator[int]:
    """The lines that take the largest distances, where the labels of what is found are read."""
    for node, values, is_largest in _ends(tree):
        measured = source_of(tree, values)
        is_far = measured is not None and _is_distance(tree, measured) and is_largest
        if is_far and any(_is_vote(tree, each) for each in _labels_read(tree, node)):
            yield node.lineno


def found_among_themselves(tree: SourceTree) -> Iterator[int]:
    """The lines that take what is nearest to a vector of a set among all of this set, where nothing takes it out."""
    for node, values, is_largest in _ends(tree):
        measured = source_of(tree, values)
        is_read = measured is not None and any(_labels_read(tree, node))
        if measured is None or not is_read or _may_mask(measured) or _takes_out(tree, node, values):
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
    if name in _ENDS and isinstance(node, ast.Call) and (values := taken_by(node)) is not None:
        return values, _ENDS[name]
    if not isinstance(node, ast.Subscript):
        return None
    order, is_turned = node.value, False
    if isinstance(order, ast.Subscript) and _is_reversed(order):
        order, is_turned = order.value, True
    part = node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) else node.slice
    if called_name(order) != "argsort" or not isinstance(part, ast.Slice) or not isinstance(order, ast.Call):
        return None
    values = taken_by(order)
    if values is None or part.step is not None or (part.lower is None) == (part.upper is None):
        return None
    is_last = isinstance(part.lower, ast.UnaryOp) and isinstance(part.lower.op, ast.USub)
    if part.lower is not None and not is_last:
        return None
    return values, is_last is not is_turned


def _is_reversed(node: ast.Subscript) -> bool:
    part = node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) else node.slice
    return isinstance(part, ast.Slice) and part.step is not None and ast.unparse(part) == "::-1"


def _is_distance(tree: SourceTree, node: ast.expr) -> bool:
    """``norm(table - row)``, ``cdist(a, b)``, and the sum of squares, perhaps its root; not the errors of a table, each
    row less its target."""
    name = called_name(node)
    if name == "norm" and isinstance(node, ast.Call) and node.args:
        made = source_of(tree, node.args[0])
        return isinstance(made, ast.BinOp) and _is_with_one_row(tree, made)
    if name in _DISTANCES:
        return True
    if name not in ("sum", "sqrt") or not isinstance(node, ast.Call):
        return False
    inner = taken_by(node)
    made = None if inner is None else source_of(tree, inner)
    if made is None:
        return False
    if name == "sqrt":
        return _is_distance(tree, made)
    if not isinstance(made, ast.BinOp) or not isinstance(made.op, ast.Pow):
        return False
    difference = source_of(tree, made.left)
    return isinstance(difference, ast.BinOp) and _is_with_one_row(tree, difference)


def _is_with_one_row(tree: SourceTree, difference: ast.BinOp) -> bool:
    """``table - q`` of a query in a loop, or of an argument, ``table - table[i]`` and ``a[:, None] - b``."""
    turned = {name for loop in tree.loops_around(difference) for name in names_in(getattr(loop, "target", loop))}
    scope = tree.scope(difference)
    given = set(parameters_of(scope)) if isinstance(scope, FUNCTIONS) else set[str]()
    for side in (difference.left, difference.right):
        if isinstance(side, ast.Name) and side.id in turned | given:
            return True
        if isinstance(side, ast.Subscript):
            index = side.slice.elts if isinstance(side.slice, ast.Tuple) else [side.slice]
            if any(isinstance(each, ast.Constant) or last_name(each) in {"newaxis", *turned} for each in index):
                return True
    return False


def _is_with_itself(tree: SourceTree, node: ast.expr) -> bool:
    """Whether both sides are one set of vectors, or the set and some of them: ``z @ z.T``, ``z @ z[i]``."""
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
    is_one = len(sides) == _BOTH and len(roots) == 1 and len({ast.unparse(each) for each in sides}) == _BOTH
    return is_one and not all(_is_part(each) for each in sides)


def _is_part(node: ast.expr) -> bool:
    """``z[:n]``, ``z[n:].T``: of two parts of a set, none has what is in the other one."""
    while isinstance(node, ast.Attribute) and node.attr == "T":
        node = node.value
    return isinstance(node, ast.Subscript) and not re.search("None|newaxis", ast.unparse(node.slice))


def _root(node: ast.expr) -> ast.expr:
    """``z`` of ``z[i]`` and ``z.T``."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "T"):
        node = node.value
    return node


def _may_mask(measured: ast.expr) -> bool:
    """``np.where(keep, z @ z.T, -1)``, ``z @ z.T - 9 * same``: whether something else may hide the diagonal."""
    for part in ast.walk(measured):
        if called_name(part) in _CHOOSE:
            return True
        if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Sub, ast.Mult)):
            sides = (part.left, part.right)
            has_product = [any(_is_product(each) for each in ast.walk(side)) for side in sides]
            others = [side for side, has in zip(sides, has_product, strict=True) if not has]
            if any(has_product) and any(names_in(side) for side in others):
                return True
    return False


def _is_product(node: ast.AST) -> bool:
    return called_name(node) in _PRODUCTS or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult))


def _takes_out(tree: SourceTree, node: ast.expr, values: ast.expr) -> bool:
    """Whether the function of a search takes a sample out of what is searched, or writes into the values by hand."""
    if _TAKES_OUT.search(ast.unparse(tree.scope(node))):
        return True
    key = tree.key_of(values)
    written = [target.value for target, _ in tree.assignments if isinstance(target, ast.Subscript)]
    statements = (each.value for each in tree.nodes if isinstance(each, ast.Expr))
    written += [each.args[0] for each in statements if isinstance(each, ast.Call) and each.args]
    return key is not None and any(tree.key_of(each) == key for each in written)


def _labels_read(tree: SourceTree, node: ast.expr) -> Iterator[ast.Subscript]:
    """Where labels are looked up at these places, on the spot or by the name that they are given."""
    key = next((tree.key_of(target) for target, value in tree.assignments if value is node), None)
    for each in tree.nodes:
        if not isinstance(each, ast.Subscript) or not _LABELS.search(ast.unparse(each.value)):
            continue
        if each.slice is node or (key is not None and tree.key_of(each.slice) == key):
            yield each


def _is_vote(tree: SourceTree, labels: ast.expr) -> bool:
    """Whether labels are compared with others, or the most frequent of them is taken, on the spot or by their name:
    those of outliers and of large errors are shown, or counted."""
    if any(_decides(each) for each in tree.around(labels) if isinstance(each, ast.expr)):
        return True
    given = [target for target, value in tree.assignments if labels in ast.walk(value)]
    parts = [part for each in given for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
    keys = {tree.key_of(each) for each in parts} - {None}
    read = (each for each in tree.nodes if keys and isinstance(each, ast.Name) and tree.key_of(each) in keys)
    return any(_decides(part) for each in read for part in tree.around(each) if isinstance(part, ast.expr))


def _decides(node: ast.expr) -> bool:
    match node:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return not isinstance(left, ast.Constant) and not isinstance(right, ast.Constant)
    return called_name(node) in _VOTES
