"""Lines that ask whether a tensor has a gradient, and change that tensor by it only then.

>>> tree = SourceTree(dict(enumerate('''if delta.grad is not None:
...     delta.data.add_(delta.grad.sign(), alpha=0.1)
... for p in parameters:
...     if p.grad is not None:
...         p.data.add_(p.grad)
... '''.splitlines(), start=1)))
>>> [guards_own_update(tree, line) for line in (1, 4)]
[True, False]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.sources.source_tree import SourceTree, called_name


def guards_own_update(tree: SourceTree, line: int) -> bool:
    """Whether a line asks whether one tensor of the program has a gradient, and what follows changes this tensor.

    A variable of a loop stands for many tensors, of which some may be frozen.
    """
    for node in tree.nodes:
        if isinstance(node, ast.If) and node.test.lineno <= line <= (node.test.end_lineno or line):
            asked, is_there = _asked(node.test)
            if asked is not None and not _is_of_loop(tree, node, asked):
                body = node.body if is_there else node.orelse or _after(tree, node)
                return any(name == ast.unparse(asked) for statement in body for name in _changed(statement))
    return False


def _asked(test: ast.expr) -> tuple[ast.expr | None, bool]:
    """``x`` of ``x.grad is not None``, and whether the body runs where it has a gradient."""
    while isinstance(test, ast.BoolOp):
        test = test.values[0]
    is_there = True
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        is_there, test = isinstance(test.ops[0], ast.IsNot), test.left
    elif isinstance(test, ast.UnaryOp):
        is_there, test = False, test.operand
    is_gradient = isinstance(test, ast.Attribute) and test.attr == "grad"
    return (test.value, is_there) if is_gradient and isinstance(test, ast.Attribute) else (None, is_there)


def _is_of_loop(tree: SourceTree, node: ast.AST, asked: ast.expr) -> bool:
    names = {each.id for each in ast.walk(asked) if isinstance(each, ast.Name)}
    targets = (each.target for each in tree.around(node) if isinstance(each, (ast.For, ast.AsyncFor)))
    return any(isinstance(each, ast.Name) and each.id in names for target in targets for each in ast.walk(target))


def _after(tree: SourceTree, node: ast.If) -> list[ast.stmt]:
    """The statements behind one that leaves its block: ``if x.grad is None: return``."""
    parent = tree.parent(node)
    block = getattr(parent, "body", []) if node.body and isinstance(node.body[-1], (ast.Return, ast.Continue)) else []
    return block[block.index(node) + 1 :] if node in block else []


def _changed(statement: ast.stmt) -> Iterator[str]:
    """The tensors that a statement changes in place, or through ``.data``."""
    for node in ast.walk(statement):
        changed: ast.expr | None = None
        if isinstance(node, ast.AugAssign):
            changed = node.target
        elif isinstance(node, ast.Assign):
            changed = node.targets[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and called_name(node).endswith("_"):
            changed = node.func.value
        if isinstance(changed, ast.Attribute) and changed.attr == "data":
            changed = changed.value
        if changed is not None:
            yield ast.unparse(changed)
