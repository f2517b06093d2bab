"""Lines that compute nothing but the logarithm of a number.

>>> lines = ["a = tensor(math.log(1 / 0.07))", "b = ones([]) * np.log(14)", "c = tensor(sqrt(2) * math.log(9))",
...          "d = tensor(14.3)  # exp(log(1 / 0.07))", "start = math.log(5)", "e = tensor(start)", "logger.log(a)"]
>>> tree = SourceTree(dict(enumerate(lines, start=1)))
>>> [number for number in range(1, 8) if computes_logarithm(tree, number)]
[1, 2, 5, 6]
"""

from __future__ import annotations

import ast

from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_line

_KEEP = frozenset({
    "tensor", "as_tensor", "full", "full_like", "Tensor", "FloatTensor", "Parameter", "float", "fill_", "constant_",
    "clamp", "clamp_", "clip", "clip_", "ones", "float32", "array", "log", "minimum", "maximum", "min", "max",
})  # fmt: skip
"""What a number may go through and still be a logarithm. A product with ``ones()`` has its value, too."""


def computes_logarithm(tree: SourceTree, line: int) -> bool:
    """Whether a statement has a logarithm as it is, or a variable with one: it is no factor of another number."""
    simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
    statements = (each for each in tree.nodes if isinstance(each, simple) and each.lineno <= line <= last_line(each))
    for node in (each for statement in statements for each in ast.walk(statement)):
        is_log = called_name(node) == "log" or (isinstance(node, ast.Name) and _is_logarithm(tree, node))
        if is_log and isinstance(node, ast.expr) and _is_kept(tree, node):
            return True
    return False


def _is_logarithm(tree: SourceTree, name: ast.Name) -> bool:
    """Whether a variable is given a logarithm, and nothing else."""
    key = tree.key_of(name)
    values = tree.values_of(key)
    return len(values) == 1 and key is not None and tree.times_bound(key) == 1 and called_name(values[0]) == "log"


def _is_kept(tree: SourceTree, node: ast.expr) -> bool:
    """Whether nothing computes another number of it, and something takes it: a logger that is told something logs."""
    for around in tree.around(node):
        if isinstance(around, ast.Expr):
            return node is not around.value
        if isinstance(around, ast.stmt):
            return True
        is_kept = called_name(around) in _KEEP or isinstance(around, (ast.UnaryOp, ast.Attribute, ast.keyword))
        is_of_ones = isinstance(around, ast.BinOp) and isinstance(around.op, ast.Mult) and _has_ones(around)
        if not (is_kept or is_of_ones or isinstance(around, (ast.List, ast.Tuple))):
            return False
    return True


def _has_ones(product: ast.BinOp) -> bool:
    return any(called_name(each) == "ones" for each in (product.left, product.right))
