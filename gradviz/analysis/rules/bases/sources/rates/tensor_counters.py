"""Counters of steps that are tensors, and sums of such a counter and a number that nobody takes."""

from __future__ import annotations

import ast
from collections import defaultdict
from math import prod

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name, single_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.sources.source_tree import SourceTree, called_name

_MIN_TIMES = 4
_MAX_CALLS = 6
_COUNTS = frozenset({"add", "sub"})


def dropped_counts(flow: Dataflow) -> dict[int, list[int]]:
    """By counter that never changes: the calls that add a number to it, and whose result nothing uses.

    Only where each of many steps makes such a sum, and reads the counter otherwise.
    """
    found: dict[int, list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        is_sum = single_name(call) in _COUNTS and not call.node_count
        for single in flow.lists.singles(row) if is_sum and not call.changed else ():
            if len(single.inputs) == 1 and len(single.outputs) == 1 and _is_dropped(flow, single.outputs[0].tensor):
                found[single.inputs[0].tensor].append(row)
    return {
        counter: rows
        for counter, rows in found.items()
        if prod(shape_of(flow, counter)) == 1
        and _moments(flow, rows) >= _MIN_TIMES
        and not flow.changes(counter, -1, len(flow.log.calls))
        and _moments(flow, sorted({*flow.users(counter)}.difference(rows))) >= _MIN_TIMES
    }


def is_statement_of_sum(tree: SourceTree, line: int) -> bool:
    """Whether a line is such a sum and nothing else: the result of ``print(t + 1)`` was not lost."""
    return any(
        isinstance(node, ast.Expr) and node.lineno <= line <= (node.end_lineno or line) and _is_sum(node.value)
        for node in tree.nodes
    )


def _is_sum(value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp) or called_name(value).removeprefix("_foreach_") in _COUNTS


def counter_behind(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The tensor that is the exponent in ``1 - beta ** t``."""
    for _, call in flow.makers(tensor, row, _MAX_CALLS):
        if plain_name(call.function) == "pow" and call.inputs:
            return call.inputs[-1].tensor
    return None


def _is_dropped(flow: Dataflow, tensor: int) -> bool:
    return not flow.users(tensor) and not flow.log.tensors[tensor].names


def _moments(flow: Dataflow, rows: list[int]) -> int:
    """In how many steps of the training these calls are."""
    return len({flow.backward_before(row) for row in rows})
