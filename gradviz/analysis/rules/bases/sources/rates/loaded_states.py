"""The lines at which optimizers load a state."""

from __future__ import annotations

import ast

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import last_name
from gradviz.graph.call_log import LoggedOptimizer


def line_that_loads(case: Case, number: int, optimizer: LoggedOptimizer) -> Location | None:
    """The first line behind the one that makes an optimizer, in its file, that loads a state into its variable."""
    names = {name.rpartition(".")[2] for name in optimizer.names}
    made = next((location_of_call(case.dataflow, row) for row in case.histories.given_at(number)), None)
    found = list[Location]()
    for file, tree in own_files(case):
        if made is not None and made.file == file:
            names |= {last_name(target) for target, value in tree.assignments if _is_at(value, made.line)}
        calls = (node for node in tree.nodes if isinstance(node, ast.Call))
        found += [Location(file, node.lineno) for node in calls if _loads_into(node, names)]
    behind = [each for each in found if made is None or each.file != made.file or each.line > made.line]
    return min(behind or found, key=lambda each: each.line, default=None)


def _is_at(value: ast.expr, line: int) -> bool:
    return value.lineno <= line <= (value.end_lineno or value.lineno)


def _loads_into(call: ast.Call, names: set[str]) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "load_state_dict"
        and last_name(function.value) in names
    )
