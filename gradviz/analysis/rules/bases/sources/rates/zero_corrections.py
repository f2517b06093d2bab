"""Bias corrections that are 0: ``m / (1 - beta**step)`` where the first step has the number 0."""

from __future__ import annotations

import ast

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.finding import Location
from gradviz.analysis.sources.source_tree import SourceTree, tree_of


def zero_correction(case: Case, row: int) -> Location | None:
    """The line that computes the correction, if a call divides by the number 0 and the source gives it a power with a
    number of steps; None for anything else."""
    call = case.dataflow.log.calls[row]
    divisor = call.scalars.get("1", call.scalars.get("other"))
    divided = case.location_of_call(row)
    if plain_name(call.function) != "div" or type(divisor) not in (int, float) or divisor != 0 or divided is None:
        return None
    tree = tree_of(case.capture.sources.get(divided.file, {}))
    statement = tree.statement_at(divided.line)
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            for value in _values_of(tree, node.right):
                if _is_correction(value):
                    return Location(divided.file, value.lineno)
    return None


def _values_of(tree: SourceTree, divisor: ast.expr) -> list[ast.expr]:
    return tree.values_of(tree.key_of(divisor)) or [divisor]


def _is_correction(value: ast.expr) -> bool:
    """Whether it is 1 minus a power of something."""
    is_difference = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)
    if not is_difference or not isinstance(value, ast.BinOp):
        return False
    is_one = isinstance(value.left, ast.Constant) and value.left.value == 1
    return is_one and isinstance(value.right, ast.BinOp) and isinstance(value.right.op, ast.Pow)
