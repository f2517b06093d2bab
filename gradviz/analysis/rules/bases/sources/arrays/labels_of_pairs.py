"""Whether a program labels a pair 1 where two classes are equal, or where they differ.

>>> tree = SourceTree(dict(enumerate('''def __getitem__(self, i):
...     j = self.other[i]
...     label = 1.0 if self.cls[i] == self.cls[j] else 0.0
...     return self.x[i], self.x[j], label
... '''.splitlines(), start=1)))
>>> one_for_alike(tree)
[True]
"""

from __future__ import annotations

import ast
import re

from gradviz.analysis.sources.source_tree import SourceTree, called_name

_CONVERTS = frozenset({"float", "int", "tensor", "float32", "astype", "as_tensor"})
_NUMBER = re.compile(r"(?:_?[0-9]+|_[a-z]|_[ij])$")


def one_for_alike(tree: SourceTree) -> list[bool]:
    """For each number that a comparison of two classes becomes, whether it is 1 where they are equal."""
    found = list[bool]()
    for node in tree.nodes:
        match node:
            case ast.IfExp(test=test, body=ast.Constant(value=one), orelse=ast.Constant(value=other)):
                is_alike = None if {one, other} != {0, 1} else _compares_classes(test)
                senses = [] if is_alike is None else [is_alike is bool(one)]
            case ast.Call() if called_name(node) in _CONVERTS:
                given = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
                senses = [sense for each in given if (sense := _compares_classes(each)) is not None]
            case _:
                continue
        found += senses if senses and _is_kept(tree, node) else []
    return found


def _is_kept(tree: SourceTree, node: ast.AST) -> bool:
    """Whether a number stays what it is: nothing computes with it, as ``1 - same`` does, and nothing counts it."""
    around = tree.parent(node)
    while isinstance(around, ast.Call) and (called_name(around) in _CONVERTS or around.func is node):
        node, around = around, tree.parent(around)
    if isinstance(around, (ast.Attribute, ast.keyword)):
        return _is_kept(tree, around)
    if isinstance(around, (ast.BinOp, ast.UnaryOp, ast.AugAssign, ast.Compare, ast.GeneratorExp)):
        return False
    keys = {tree.key_of(target) for target, value in tree.assignments if value is node} - {None}
    computed = (each for each in tree.nodes if isinstance(each, (ast.BinOp, ast.AugAssign)))
    sides = (side for each in computed for side in ast.iter_child_nodes(each))
    return not any(tree.key_of(side) in keys for side in sides if keys)


def _compares_classes(test: ast.expr) -> bool | None:
    """Whether it is true where two of one kind are equal; None for any other comparison."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as sign], comparators=[right]):
            one, other = _stem(left), _stem(right)
            is_pair = one == other and ast.unparse(left) != ast.unparse(right)
            return isinstance(sign, ast.Eq) if is_pair and one else None
    return None


def _stem(node: ast.expr) -> str:
    """``self.cls`` of ``self.cls[i]``, ``y`` of ``y1`` and ``y_a``."""
    if isinstance(node, ast.Call) and called_name(node) == "item" and isinstance(node.func, ast.Attribute):
        node = node.func.value
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value)
    return _NUMBER.sub("", ast.unparse(node)) if isinstance(node, (ast.Name, ast.Attribute)) else ""
