"""The lines that one would move before or behind that of an optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import takewhile

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, class_of, line_in_class_of, line_in_function_of
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.source_tree import called_name
from gradviz.graph.model import CallSite


def _location_where_made(histories: ParameterHistories, number: int) -> Location | None:
    """If the function that made it also made what an optimizer has, the line that called this function again."""
    made, other = histories.made_by(number), histories.made_by(min(histories.trained))
    if made is None or other is None:
        return location_of_line(histories.line_where_made(number))
    return location_of_line(line_apart(histories.flow, made, other))


def location_to_move(histories: ParameterHistories, number: int, optimizer_made: int) -> Location | None:
    """Where it was made; if a helper of the program did that, and no forward, the line that called the helper in the
    function that also made the optimizer."""
    made = histories.made_by(number)
    is_by_helper = made is not None and histories.log.calls[made].scope is None
    apart = _line_beside(histories, made, optimizer_made) if made is not None and is_by_helper else None
    return _location_where_made(histories, number) if apart is None else location_of_line(apart)


def by_line(case: Case, rows: Iterable[int], made: int) -> dict[CallSite | None, list[int]]:
    """Replacements by the line that one would move."""
    lines: dict[CallSite | None, list[int]] = {}
    for row in dict.fromkeys(rows):
        lines.setdefault(line_to_move(case, row, made), []).append(row)
    return lines


def line_to_move(case: Case, row: int, made: int) -> CallSite | None:
    """The line of a call, or that in the function that also made the optimizer, where two lines change their places.

    The latter if the call is in a file of helpers; if it wraps a layer, so that the old one is still used: it can only
    be wrapped earlier; and if it puts something of another shape in the place of a parameter before the first step:
    what has the same shape could be written into the old one. A state that is loaded could be copied as well.
    """
    histories = case.histories
    own, apart = histories.flow.line_of(row), _line_beside(histories, row, made)
    if is_loaded(case, own):
        return own
    is_edited = own is None or apart is None or own.file == apart.file
    is_moved = _wraps(histories, row) or (_is_early(histories, row, made) and _changes_shape(histories, row))
    if is_edited and not is_moved:
        return own
    # While it trains, the object that has the optimizer asks for another part.
    is_early = is_moved or _is_early(histories, row, made)
    if is_early:
        return apart
    if not _changes_shape(histories, row):
        return own
    asking = line_in_class_of(histories.flow, row, made)
    return apart if asking is None else _line_that_acts(case, row, asking) or asking


def is_loaded(case: Case, line: CallSite | None) -> bool:
    """Whether a line puts new parameters in the place of others with ``load_state_dict(..., assign=True)``."""
    tree = None if line is None else own_tree(case, line.file)
    statement = None if line is None or tree is None else tree.statement_at(line.line)
    return statement is not None and any(
        isinstance(node, ast.Call)
        and called_name(node) == "load_state_dict"
        and any(each.arg == "assign" and ast.unparse(each.value) != "False" for each in node.keywords)
        for node in ast.walk(statement)
    )


def _line_that_acts(case: Case, row: int, asking: CallSite) -> CallSite | None:
    """If the line that asks for another part only tells those who are registered, whoever they are, as callbacks of a
    trainer: the line of the one that acts, and not that of the model's own method."""
    flow = case.dataflow
    if not _tells_others(case, asking):
        return None
    modules = {scope.class_name for scope in flow.log.scopes}
    inside = takewhile(lambda each: each != asking, callers(flow, row))
    return next((each for each in inside if class_of(each).rpartition(".")[2] not in modules), None)


def _tells_others(case: Case, line: CallSite) -> bool:
    """Whether a line calls the elements that a loop goes through, or their methods, perhaps by a name in a variable:
    ``for each in self.callbacks: getattr(each, event)(self)``."""
    tree = own_tree(case, line.file)
    statement = None if tree is None else tree.statement_at(line.line)
    if tree is None or statement is None:
        return False
    targets = [loop.target for loop in tree.loops_around(statement) if isinstance(loop, (ast.For, ast.AsyncFor))]
    targets += [each.target for each in ast.walk(statement) if isinstance(each, (ast.comprehension, ast.For))]
    elements = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    called = (_owner(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(owner, ast.Name) and owner.id in elements for owner in called)


def _owner(function: ast.expr) -> ast.expr:
    """``each`` of ``each``, of ``each.run`` and of ``getattr(each, name)``."""
    if isinstance(function, ast.Call) and called_name(function) == "getattr" and function.args:
        return function.args[0]
    return function.value if isinstance(function, ast.Attribute) else function


def _is_early(histories: ParameterHistories, row: int, made: int) -> bool:
    """Whether it is called before the first step of an optimizer, and not while the model runs."""
    is_first = not any(made < step < row for step in histories.steps)
    return is_first and histories.log.calls[row].scope is None


def _changes_shape(histories: ParameterHistories, row: int) -> bool:
    """Whether a call puts tensors of other shapes in the place of those that were there."""
    uses = histories.log.calls[row].inputs
    old, new = (
        sorted(histories.tensor(use.tensor).facts.shape for use in uses if use.place.startswith("old") is is_old)
        for is_old in (True, False)
    )
    return old != new


def _wraps(histories: ParameterHistories, row: int) -> bool:
    """Whether a call puts something in the place of parameters with which the model computes all the same."""
    flow, step = histories.flow, next((each for each in histories.steps if each > row), row)
    old = [use.tensor for use in flow.log.calls[row].inputs if use.place.startswith("old")]
    return any(flow.log.calls[user].kind == "operation" for tensor in old for user in flow.users(tensor, step))


def _line_beside(histories: ParameterHistories, row: int, made: int) -> CallSite | None:
    """The line that led to a call, in the innermost function that also made the optimizer. If the training runs from
    that line, too, nobody can move it: then the outermost line inside of it from which no training runs."""
    flow = histories.flow
    line = line_in_function_of(flow, row, made)
    step = next((each for each in histories.steps if each > row), None)
    training = set() if step is None else {(each.file, each.line) for each in callers(flow, step)}
    if line is None or (line.file, line.line) not in training:
        return line
    inside = list(takewhile(lambda each: (each.file, each.line) not in training, callers(flow, row)))
    return inside[-1] if inside else line
