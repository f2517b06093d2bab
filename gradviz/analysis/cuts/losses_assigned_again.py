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
from collections.abc import Callable, Iterator

from msgspec import Struct

from gradviz.analysis.cuts.lost_terms import LostTerm, is_number_with_history
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.dataflow.overwritten_variables import Overwriting
from gradviz.analysis.finding import Location
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
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
    variable, before = call.func.value, _statements_before(tree, statement)
    if not isinstance(variable, ast.Name):
        return None
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


def _statements_before(tree: SourceTree, statement: ast.stmt | None) -> list[ast.stmt]:
    """Those of the same block."""
    parent = None if statement is None else tree.parent(statement)
    blocks = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
    block = next((each for each in blocks if isinstance(each, list) and statement in each), [])
    return block[: block.index(statement)] if statement is not None and block else []


def _target(statement: ast.stmt) -> str | None:
    """The variable that a statement assigns, if it assigns one."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _reads(node: ast.AST, variable: str) -> bool:
    return isinstance(node, ast.Name) and node.id == variable and isinstance(node.ctx, ast.Load)


def losses_assigned_again(
    histories: ParameterHistories, tree_of_file: Callable[[str], SourceTree | None]
) -> Iterator[LostTerm]:
    """The terms that are lost so before the last ``backward()`` of each line, if they would train something."""
    flow = histories.flow
    for backward in histories.last_trained_backward_of_each_line:
        site = flow.line_of(backward)
        tree = None if site is None else tree_of_file(site.file)
        found = None if site is None or tree is None else replaced_before(tree, site.line)
        if site is None or found is None:
            continue
        since = flow.step_before(backward)
        used = {row for use in flow.log.calls[backward].roots for row in flow.ancestors(use.tensor, backward, since)}
        for row in range(backward - 1, since, -1):
            if row in used or all((line.file, line.line) != (site.file, found.made) for line in callers(flow, row)):
                continue
            if is_number_with_history(flow, flow.log.calls[row]):
                roots = [use.tensor for use in flow.log.calls[row].outputs]
                parameters = tuple(sorted(histories.live_leaves(roots, row + 1)[0] & histories.trained))
                lines = Location(site.file, found.line), Location(site.file, found.again)
                if parameters:
                    yield LostTerm(row, parameters, Overwriting(found.variable, *lines))
                break
