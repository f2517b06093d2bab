"""Weights of classes that a program computes of how often the classes occur.

>>> tree = SourceTree(dict(enumerate('''counts = np.bincount(y)
... share = counts / len(y)
... few = torch.tensor(counts.sum() / counts)
... many = torch.tensor(share * 2)
... '''.splitlines(), start=1)))
>>> grows_with_count(tree, 3), grows_with_count(tree, 4)
(False, True)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.sources.source_tree import SourceTree, called_name

_COUNTS = frozenset({"bincount", "unique", "Counter", "value_counts"})
_TOTALS = frozenset({"len", "sum", "max", "mean"})
_TENSORS = frozenset({"tensor", "as_tensor", "from_numpy", "FloatTensor"})
_INVERTS = frozenset({"reciprocal", "power", "pow", "compute_class_weight", "compute_sample_weight"})
_MAX_NAMES = 8


def grows_with_count(tree: SourceTree, line: int) -> bool:
    """Whether what becomes a tensor at a line is made of counts, and is not divided by them: such weights bring back
    the shares that the classes have in the data."""
    statement = tree.statement_at(line)
    made = [] if statement is None else [each for each in ast.walk(statement) if called_name(each) in _TENSORS]
    given = [each.args[0] for each in made if isinstance(each, ast.Call) and each.args]
    parts = [part for each in given for part in _behind(tree, each)]
    return any(called_name(each) in _COUNTS for each in parts) and not any(_inverts(tree, each) for each in parts)


def _behind(tree: SourceTree, node: ast.expr) -> Iterator[ast.AST]:
    """The parts of an expression, and those of what its variables are given."""
    waiting, seen = [node], set[ast.AST]()
    while waiting and len(seen) < _MAX_NAMES:
        value = waiting.pop()
        seen.add(value)
        yield from ast.walk(value)
        keys = {tree.key_of(each) for each in ast.walk(value)} - {None}
        waiting += [given for target, given in tree.assignments if tree.key_of(target) in keys and given not in seen]


def _inverts(tree: SourceTree, node: ast.AST) -> bool:
    """Whether a part divides by something else than a number or a sum of all."""
    if called_name(node) in _INVERTS or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)):
        return True
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or isinstance(node.right, ast.Constant):
        return False
    key = tree.key_of(node.right)
    given = tree.values_of(key)
    return not all(called_name(each) in _TOTALS for each in given or [node.right])
