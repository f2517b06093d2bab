"""Where results are lost that no loss uses, and what to say of it."""

from __future__ import annotations

import ast

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, class_of, location_of_call
from gradviz.analysis.dataflow.cuts import overwrites
from gradviz.analysis.dataflow.overwritten_variables import Overwriting
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.unused_parameters import UnusedParameters
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_line, names_in, parameters_of
from gradviz.graph.model import CallSite
from gradviz.graph.traversal import scopes_around


def line_that_gets(case: Case, row: int) -> Location | None:
    """The line of a call; if it returns the result from a function, the line that gets it."""
    flow = case.dataflow
    line = flow.line_of(row)
    while line is not None and line.caller is not None:
        if not (case.source_line(location_of_line(line)) or "").lstrip().startswith("return "):
            break
        line = flow.log.call_sites[line.caller]
    return location_of_line(line)


def where_left_out(histories: ParameterHistories, number: int, row: int) -> Location | None:
    """The line of the last result computed from it, which the loss does not use; else where its neighbour is used.

    Programs list tensors in the order of their use: a bias after its weight, a weight before the next one.
    """
    rows = [
        each for each in histories.flow.descendants(number, until=row, live=True) if histories.log.calls[each].outputs
    ]
    asked = [use.tensor for use in histories.log.calls[row].asked]
    here = asked.index(number)
    before, behind = asked[:here][::-1], asked[here + 1 :]
    is_bias = len(histories.tensor(number).facts.shape) < 2
    beside = [*before, *behind] if is_bias else [*behind, *before]
    rows = rows or [each for other in beside for each in histories.forward_uses(other) if each < row][:1]
    return location_of_call(histories.flow, rows[-1]) if rows else None


def where_argument_is_unread(case: Case, row: int) -> Location | None:
    """The line at which a function returns that does not read what it was given, if one such function computed a part
    of what a backward started from."""
    flow = case.dataflow
    rows = {each for use in flow.log.calls[row].roots for each in flow.ancestors(use.tensor, row)}
    lines = {(line.file, line.line) for each in rows for line in callers(flow, each)}
    found = dict[tuple[str, int], Location]()
    for file, number in lines:
        tree = own_tree(case, file)
        statement = None if tree is None else tree.statement_at(number)
        function = None if tree is None or statement is None else tree.scope(statement)
        if isinstance(function, ast.FunctionDef) and _has_unread_argument(function):
            ends = [each.lineno for each in ast.walk(function) if isinstance(each, ast.Return)]
            found[file, function.lineno] = Location(file, max(ends, default=function.lineno))
    return next(iter(found.values())) if len(found) == 1 else None


def _has_unread_argument(function: ast.FunctionDef) -> bool:
    read = {name for statement in function.body for name in names_in(statement)}
    return any(name not in read and not name.startswith("_") for name in parameters_of(function))


def written_into_data(case: Case, group: UnusedParameters) -> str:
    """The parameter into whose ``.data`` the last call puts the result; "" if it does something else."""
    log = case.dataflow.log
    call = None if group.last is None else log.calls[group.last]
    if call is None or not overwrites(call):
        return ""
    changed = {log.tensors[use.tensor].storage: use.tensor for use in call.changed}
    found = (number for number in log.parameters if log.tensors[number].storage in changed)
    return next((case.histories.name(each) for each in found if each not in changed.values()), "")


def loop_over_layers(case: Case, group: UnusedParameters) -> Location | None:
    """The line of a loop that calls several layers and gives a variable the result, which the loop does not read: what
    one layer has made is lost when the next one is called."""
    flow, last = case.dataflow, group.last
    uses = [row for number in group.tensors for row in case.histories.forward_uses(number) if row <= (last or 0)]
    if last is None or not uses:
        return None
    calls, use = flow.log.calls, max(uses)
    later = calls[last + 1 : flow.next_of_kind("backward", last)]
    same_line = (row for row, call in enumerate(later, start=last + 1) if call.call_site == calls[use].call_site)
    again = next((row for row in same_line if calls[row].scope != calls[use].scope), None)
    line = None if again is None else _line_around(case, use, again)
    tree = None if line is None else own_tree(case, line.file)
    return location_of_line(line) if line is not None and tree is not None and _only_assigns(tree, line.line) else None


def line_that_keeps_before(case: Case, group: UnusedParameters) -> Location | None:
    """The ``states.append(h)`` in a loop over layers that comes before the ``h = layer(h)`` in which a result is lost,
    where nothing reads ``h`` after the loop: the list has what layers take, and not what the last one returns."""
    line = None if group.last is None else case.dataflow.line_of(group.last)
    tree = None if line is None else own_tree(case, line.file)
    statement = None if line is None or tree is None else tree.statement_at(line.line)
    if line is None or tree is None or not isinstance(statement, (ast.Assign, ast.AugAssign)):
        return None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    loop = next(tree.loops_around(statement), None)
    if loop is None or not isinstance(target, ast.Name):
        return None
    end = last_line(loop)
    is_read_later = any(
        isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load) and node.lineno > end
        for node in ast.walk(tree.scope(loop))
    )
    keeping = [
        each.lineno
        for each in loop.body
        if isinstance(each, ast.Expr)
        and called_name(each.value) == "append"
        and each.lineno < statement.lineno
        and target.id in names_in(each.value)
    ]
    return None if is_read_later or len(keeping) != 1 else Location(line.file, keeping[0])


def _line_around(case: Case, row: int, other: int) -> CallSite | None:
    """The innermost line behind a call that is in none of the modules that ran for it and not for the other call."""
    flow, scopes = case.dataflow, case.dataflow.log.scopes
    own, others = ([*scopes_around(scopes, flow.log.calls[each].scope)] for each in (row, other))
    inner = {scopes[each].class_name for each in own if each not in others}
    return next((line for line in callers(flow, row) if class_of(line) not in inner), None)


def _only_assigns(tree: SourceTree, line: int) -> bool:
    """Whether a statement in a loop gives variables their values, and nothing in this loop reads them."""
    statement = tree.statement_at(line)
    loop = next(tree.loops_around(statement), None) if isinstance(statement, ast.Assign) else None
    if loop is None or not isinstance(statement, ast.Assign):
        return False
    names = {each.id for target in statement.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    is_stored = any(isinstance(each, (ast.Subscript, ast.Attribute)) for each in statement.targets)
    read = {each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return not is_stored and bool(names) and names.isdisjoint(read)


def use_it(lost: Overwriting) -> str:
    name = lost.variable
    return f"use the earlier {name} too ({name} = {name} + ..., or as the input), or rename one of them"
