"""Losses of which a program starts a backward call, and whose variable was given another term just before.

>>> tree = SourceTree(dict(enumerate('''clash = overlap(p)
... loss = clash
... loss = 0.1 * entropy(p)
... loss.backward()'''.splitlines(), start=1)))
>>> replaced_before(tree, 4)
Replaced(variable='loss', lost='clash', made=1, line=2, again=3)
"""

from __future__ import annotations

import ast

from msgspec import Struct

from gradviz.analysis.sources.source_tree import SourceTree, called_name


class Replaced(Struct, frozen=True):
    """Two assignments of the variable of a loss, of which the second one does not read the first."""

    variable: str
    lost: str
    """The variable whose value it was given first."""
    made: int
    """The line that computes that value."""
    line: int
    """The line that assigns it."""
    again: int
    """The line that assigns the other value."""


def replaced_before(tree: SourceTree, line: int) -> Replaced | None:
    """What the statements before a ``loss.backward()``, in the same block, say of its ``loss``."""
    statement = tree.statement_at(line)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or called_name(call) != "backward" or not isinstance(call.func, ast.Attribute):
        return None
    variable = call.func.value
    if statement is None or not isinstance(variable, ast.Name):
        return None
    block = tree.block_of(statement)
    before = block[: block.index(statement)]
    assigning = [index for index, each in enumerate(before) if _target(each) == variable.id]
    if len(assigning) < len(("first", "again")):
        return None
    first, again = before[assigning[-2]], before[assigning[-1]]
    value = first.value if isinstance(first, ast.Assign) else None
    read = [node for each in before[assigning[-2] + 1 : assigning[-1] + 1] for node in ast.walk(each)]
    made = [each for each in before[: assigning[-2]] if isinstance(value, ast.Name) and _target(each) == value.id]
    if not isinstance(value, ast.Name) or not made or any(_reads(node, variable.id) for node in read):
        return None
    return Replaced(variable.id, value.id, made[-1].lineno, first.lineno, again.lineno)


def _target(statement: ast.stmt) -> str | None:
    """The variable that a statement assigns, if it assigns one."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _reads(node: ast.AST, variable: str) -> bool:
    return isinstance(node, ast.Name) and node.id == variable and isinstance(node.ctx, ast.Load)
