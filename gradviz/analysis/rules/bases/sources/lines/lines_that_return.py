"""The line with which a function returns the number that it reads for a log, and that its caller needs as a tensor.

>>> lines = '''def update(value):
...     number = value.item()
...     numbers.append(number)
...     return number'''
>>> line_that_returns_kept(SourceTree(dict(enumerate(lines.splitlines(), start=1))), 2)
4
"""

from __future__ import annotations

import ast

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import blamed_call
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.call_words import callers, function_of
from gradviz.analysis.dataflow.cuts import is_exit
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.cut_lines import BetterLine
from gradviz.analysis.rules.bases.sources.cached_results import function_on
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.source_tree import SourceTree, all_parameters_of, is_read, last_name


def line_that_returns_number(case: Case, found: CutOff) -> BetterLine | None:
    """The ``return`` of a function that keeps a number, as a meter does, where its caller computes the loss with it.

    To read and to keep the number is right; only what the function returns should be the tensor.
    """
    read, rows = blamed_call(case.dataflow, found), found.cut_path.calls
    users = [row for row in rows if row > read]
    lines = [*callers(case.dataflow, read)]
    if not is_exit(case.dataflow.log.calls[read]) or not users or not lines:
        return None
    own, outer = lines[0], lines[1:]
    using = {(line.file, function_of(line)) for line in callers(case.dataflow, users[0])}
    if not outer or (own.file, function_of(own)) in using:
        return None
    way = outer[: next((at for at, line in enumerate(outer, 1) if (line.file, function_of(line)) in using), 0)]
    tree = own_tree(case, own.file)
    returned = None if tree is None else line_that_returns_kept(tree, own.line)
    if returned is None or not way or any(_drops_result(case, line.file, line.line) for line in way):
        return None
    name = function_of(own).rpartition(".")[2]
    return BetterLine(
        Location(own.file, returned),
        f"{name}() keeps the number, and this line returns it to what computes the loss",
        "return the tensor that the function was given, and let only the log have its number; or leave what "
        f"{name}() returns out of the loss, and use the tensor there",
    )


def line_that_returns_kept(tree: SourceTree, line: int) -> int | None:
    """The only line of a function that returns the number that this line reads of an argument, and that the function
    keeps elsewhere as well; None if it only returns it, or if it gives the argument itself another value."""
    statement, function = tree.statement_at(line), function_on(tree, line)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or function is None:
        return None
    target, value = statement.targets[0], statement.value
    read = value.args[0] if isinstance(value, ast.Call) and last_name(value.func) == "float" and value.args else value
    while isinstance(read, (ast.Call, ast.Attribute)):  # value.detach().cpu().item()
        read = read.func if isinstance(read, ast.Call) else read.value
    given = all_parameters_of(function)
    if not isinstance(read, ast.Name) or read.id not in given or last_name(target) in given:
        return None
    key = tree.key_of(target)
    uses = [node for node in ast.walk(function) if isinstance(node, (ast.Name, ast.Attribute)) and is_read(node)]
    statements = [tree.statement_around(node) for node in uses if key is not None and tree.key_of(node) == key]
    returns = [each for each in statements if isinstance(each, ast.Return) and tree.key_of(each.value or each) == key]
    is_kept = isinstance(target, ast.Attribute) or len(returns) < len(statements)
    return returns[0].lineno if len(returns) == 1 and is_kept else None


def _drops_result(case: Case, file: str, line: int) -> bool:
    """Whether a line calls something and does not use what it returns."""
    tree = own_tree(case, file)
    statement = None if tree is None else tree.statement_at(line)
    return statement is None or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call))
