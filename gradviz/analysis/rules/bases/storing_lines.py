"""The line that stores a result in an object that lives on: ``self.scale[name] = ...``, ``self.trace.append(...)``.

>>> [stores(each, "h") for each in ("self.h = f(x)", "self.h[0] += x", "self.h, y = f()", "self.h.append(x)")]
[True, True, True, True]
>>> [stores(each, "h") for each in ("if self.h == x:", "f(self.h, beta=1)", "y = self.h * 3", "self.h2 = x", "h = x")]
[False, False, False, False, False]
"""

from __future__ import annotations

import ast
import re

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.parsed_lines import function_around
from gradviz.analysis.sources.source_tree import SourceTree, decorator_that_keeps_results
from gradviz.graph.model import CallSite
from gradviz.graph.query.own_line import own_lines_around


def line_that_stores(case: Case, row: int, path: str) -> CallSite | None:
    """The innermost line that led to a call, and that stores something in an attribute; None if there is none.

    Args:
        path: What holds the result of the call: ``balance.scale['depth']``.
    """
    attribute = _ATTRIBUTE.search(path)
    for line in callers(case.dataflow, row) if attribute is not None else ():
        if attribute is not None and stores(case.source_line(location_of_line(line)) or "", attribute[1]):
            return line
    return None


def line_that_stores_returned(case: Case, made: CallSite) -> CallSite | None:
    """The line that stores what a function returns in an element or an attribute, as it is or after it had a name of
    its own, if the function returns what a line computed; also through functions that only return it further. Of a
    function whose results are kept by its decorator, the line of that."""
    sites, line = case.dataflow.log.call_sites, made
    while line.caller is not None:
        tree = own_tree(case, line.file)
        statement = None if tree is None else tree.statement_at(line.line)
        if tree is None or statement is None or not _returns(tree, statement):
            return None
        keeps = decorator_that_keeps_results(tree.scope(statement))
        if keeps is not None:
            return replace(line, line=keeps.lineno)
        outer = next(own_lines_around(sites, line.caller), None)
        if outer is None:
            return None
        line = sites[outer]
        stored = _line_that_stores_call(case, line)
        if stored is not None:
            return replace(line, line=stored)
    return None


def _returns(tree: SourceTree, statement: ast.stmt) -> bool:
    """Whether the function around a statement returns its value as it is."""
    if isinstance(statement, ast.Return):
        return True
    target = statement.targets[-1] if isinstance(statement, ast.Assign) else None
    scope = tree.scope(statement)
    return isinstance(target, ast.Name) and any(
        isinstance(each, ast.Return)
        and isinstance(each.value, ast.Name)
        and each.value.id == target.id
        and each.lineno > statement.lineno
        and tree.scope(each) is scope
        for each in ast.walk(scope)
    )


def _line_that_stores_call(case: Case, line: CallSite) -> int | None:
    """The line that assigns what a call at another one gives to an element or an attribute: this line itself, or one
    below it in the same function."""
    tree = own_tree(case, line.file)
    statement = None if tree is None else tree.statement_at(line.line)
    if tree is None or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return None
    if not isinstance(statement.value, ast.Call):
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if all(isinstance(each, _PLACES) for each in targets):
        return line.line
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    return next(
        (
            each.lineno
            for each in ast.walk(tree.scope(statement))
            if isinstance(each, ast.Assign)
            and each.lineno > statement.lineno
            and isinstance(each.value, ast.Name)
            and each.value.id in names
            and all(isinstance(target, _PLACES) for target in each.targets)
        ),
        None,
    )


_PLACES = (ast.Subscript, ast.Attribute)


def stores(text: str, attribute: str) -> bool:
    """Whether a line of source stores something in an attribute, or in the list or dict that it holds."""
    assigned = rf"^[^=(#]*\.{attribute}\b(?:[^=(#]*[^=(#!<>])?=(?!=)"
    return re.search(rf"{assigned}|\.{attribute}\b(?:\[[^\]]*\])?\.(?:{_METHODS})\(", text) is not None


_ATTRIBUTE = re.compile(r"\.(\w+)(?:\[[^\]]*\])*$")
_METHODS = "append|appendleft|add|extend|insert|update|setdefault|push"


def next_in_function(case: Case, made: Location, lines: tuple[Location, ...]) -> Location | None:
    """The first of several lines that stands below another one, in the same function."""
    around = function_around(case.capture.sources.get(made.file, {}), made.line) or ()
    below = [each for each in lines if each.file == made.file and each.line > made.line and each.line in around]
    return min(below, default=None)
