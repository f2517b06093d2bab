"""Decorators of the program that switch gradients off around the function that they are written above."""

from __future__ import annotations

import ast

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.cached_results import function_on
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import called_name, last_name


class Decorated(Struct, frozen=True):
    """A function that a decorator runs without gradients."""

    location: Location
    """The line of the decorator above the function."""
    decorator: str
    function: str


def decorated_without_gradients(case: Case, row: int) -> Decorated | None:
    """The decorator whose inner function switched gradients off for a call; None if anything else did."""
    flow = case.dataflow
    switch = flow.line(flow.log.calls[row].grad_mode_site)
    tree = None if switch is None else own_tree(case, switch.file)
    inner = None if tree is None or switch is None else function_on(tree, switch.line)
    if tree is None or inner is None or switch is None:
        return None
    outer = {each.name for each in tree.around(inner) if isinstance(each, FUNCTIONS) and each is not inner}
    for line in callers(flow, row) if outer else ():
        if line.file == switch.file and inner.lineno <= line.line <= (inner.end_lineno or inner.lineno):
            return None
        own = own_tree(case, line.file)
        function = None if own is None else function_on(own, line.line)
        for each in () if function is None else function.decorator_list:
            name = called_name(each) or last_name(each)
            if name in outer and function is not None:
                return Decorated(Location(line.file, each.lineno), _words(each), function.name)
    return None


def _words(decorator: ast.expr) -> str:
    return f"@{ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)}"
