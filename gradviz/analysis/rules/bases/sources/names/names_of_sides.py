"""What a program calls the two sides of a difference: positives and negatives."""

from __future__ import annotations

import ast
import re

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import line_in_function_of, location_of_call
from gradviz.analysis.dataflow.overwritten_variables import assigned, reads
from gradviz.analysis.finding import location_of_line
from gradviz.analysis.sources.source_tree import called_name, last_name, tree_of

_POSITIVE = re.compile(r"(^|_)(pos|positive|positives|pos\w*|ap)(_|$)", re.IGNORECASE)
_NEGATIVE = re.compile(r"(^|_)(neg|negative|negatives|neg\w*|an)(_|$)", re.IGNORECASE)
_BOTH = 2


def assigned_name(case: Case, tensor: int, row: int) -> str:
    """The variable to which the function that takes a difference has assigned one of its sides: it is gone when
    backward runs."""
    flow = case.dataflow
    made = flow.newest_producer(tensor, row)
    if made is None:
        return ""
    taken, given = flow.line_of(row), line_in_function_of(flow, made, row)
    if taken is None or given is None or (given.file, given.function) != (taken.file, taken.function):
        return ""
    lines = (case.source_line(location_of_line(each)) or "" for each in (given, taken))
    name = assigned(next(lines)) if given.line != taken.line else None
    return name.rpartition(".")[2] if name is not None and reads(next(lines), name) else ""


def written_names(case: Case, row: int) -> list[str]:
    """The names of the two sides of the only difference on a line, as arguments of a function have them."""
    location = location_of_call(case.dataflow, row)
    lines = {} if location is None else case.capture.sources.get(location.file, {})
    if location is None or location.line not in lines:
        return ["", ""]
    on_line = [node for node in tree_of(lines).nodes if getattr(node, "lineno", None) == location.line]
    found = [sides for node in on_line if (sides := _written_sides(node)) is not None]
    return [_name_with_role(side) for side in found[0]] if len(found) == 1 else ["", ""]


def _written_sides(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The sides of ``a - b``, ``torch.sub(a, b)`` or ``a.sub(b)``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return node.left, node.right
    if not isinstance(node, ast.Call) or called_name(node) not in ("sub", "subtract"):
        return None
    if len(node.args) == _BOTH:
        return node.args[0], node.args[1]
    is_method = len(node.args) == 1 and isinstance(node.func, ast.Attribute)
    return (node.func.value, node.args[0]) if is_method and isinstance(node.func, ast.Attribute) else None


def _name_with_role(side: ast.expr) -> str:
    """The only name in an expression that says whether it is a positive or a negative."""
    parts = (node for node in ast.walk(side) if isinstance(node, (ast.Name, ast.Attribute)))
    names = {name for node in parts if role_of(name := last_name(node))}
    return names.pop() if len(names) == 1 else ""


def role_of(name: str) -> str:
    """``positive`` or ``negative``; empty if a name says neither, or both."""
    is_positive, is_negative = bool(_POSITIVE.search(name)), bool(_NEGATIVE.search(name))
    return "" if is_positive == is_negative else "positive" if is_positive else "negative"
