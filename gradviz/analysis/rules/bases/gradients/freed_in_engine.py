"""Backward calls that hooks and custom functions make, while the engine runs another one, through a graph that they
have freed themselves.

No row of the log has them. The traceback shows which functions ran between the two calls, and the source which of their
lines run many times.
"""

from __future__ import annotations

import ast
import re

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.failed_backward import SECOND_TIME
from gradviz.analysis.dataflow.refused_calls import calls_that_ended
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.named_by_statements import bound_by
from gradviz.analysis.sources.source_tree import SourceTree, all_parameters_of, called_name, names_in

_FRAME = re.compile(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)
_KEEPING = ("retain_graph", "create_graph")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def call_that_freed_its_graph(case: Case) -> tuple[Location, Location] | None:
    """The line of a ``grad()`` or ``backward()`` inside of the engine, whose graph its own turn before has freed, and
    the line of the backward that the program called."""
    error = case.capture.error
    if error is None or SECOND_TIME not in error.message:
        return None
    frames = [Location(file, int(line)) for file, line in _FRAME.findall(error.traceback)]
    for row in calls_that_ended(case.capture, case.dataflow):
        outer = location_of_call(case.dataflow, row)
        if case.dataflow.log.calls[row].kind == "backward" and outer in frames:
            after = len(frames) - frames[::-1].index(outer)
            inner = [each for each in frames[after:] if each.file in case.own_files]
            if inner and _runs_again(case, inner):
                return inner[-1], outer
    return None


def _runs_again(case: Case, frames: list[Location]) -> bool:
    """Whether the last line starts a backward without keeping the graph, from what a loop around does not make anew."""
    here = frames[-1]
    tree = own_tree(case, here.file)
    call = None if tree is None else _call_at(tree, here.line)
    start = None if call is None else _start_of(call)
    if tree is None or call is None or start is None:
        return False
    names = names_in(start)
    loops = tree.repeated_around(here.line)
    if loops:
        made = {name for loop in loops for each in ast.walk(loop) for name in bound_by(each)}
        return names.isdisjoint(made)
    scope = tree.scope(call)
    made = {name for each in ast.walk(scope) if isinstance(each, ast.stmt) for name in bound_by(each)}
    given = all_parameters_of(scope) if isinstance(scope, _FUNCTIONS) else set[str]()
    return names.isdisjoint((made | given) - {"self"}) and any(_is_in_loop(case, each) for each in frames[:-1])


def _is_in_loop(case: Case, frame: Location) -> bool:
    tree = own_tree(case, frame.file)
    return tree is not None and bool(tree.repeated_around(frame.line))


def _call_at(tree: SourceTree, line: int) -> ast.Call | None:
    """The only call of ``grad()`` or ``backward()`` on a line, if it does not keep the graph."""
    statement = tree.statement_at(line)
    found = [
        each
        for each in (() if statement is None else ast.walk(statement))
        if isinstance(each, ast.Call) and called_name(each) in ("grad", "backward")
    ]
    if len(found) != 1 or any(_may_keep(each) for each in found[0].keywords):
        return None
    return found[0]


def _may_keep(keyword: ast.keyword) -> bool:
    """Whether an argument may keep the graph: ``retain_graph=False`` does not."""
    return keyword.arg in (None, *_KEEPING) and getattr(keyword.value, "value", None) is not False


def _start_of(call: ast.Call) -> ast.expr | None:
    """What a call of ``grad()`` or ``backward()`` starts from."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if called_name(call) == "backward" and owner is not None and names_in(owner).isdisjoint({"torch", "autograd"}):
        return owner
    named = (each.value for each in call.keywords if each.arg in ("outputs", "tensors"))
    return call.args[0] if call.args else next(named, None)
