"""What becomes of the best items of a ranking: whether they are compared with others, filtered, or trained on."""

from __future__ import annotations

import ast

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.sources.source_tree import (
    COMPREHENSIONS,
    Key,
    SourceTree,
    called_name,
    is_read,
    tree_of,
)
from gradviz.graph.call_log import Call

MASKS = frozenset({
    "masked_fill", "setitem", "where", "scatter", "index_put", "index_fill", "masked_scatter", "scatter_add",
    "index_copy", "index_add",
})  # fmt: skip
_MAX_ABOVE = 40
_FEW = 2
_COMPARE = frozenset({"eq", "ne", "gather", "isin", "take_along_dim"})
_SETS = frozenset({"intersection", "isin", "in1d", "intersect1d"})
_SHOW = frozenset({"print", "append", "len", "list", "set", "tolist", "numpy", "cpu", "enumerate", "zip", "range"})


def are_scored(case: Case, row: int, call: Call) -> bool:
    """Whether the best items are compared with others, and no list of them is filtered. Where what is compared is a
    property of the items, as their kind, any item may have it, also one of the training."""
    flow = case.dataflow
    below = flow.descendants(call.outputs[-1].tensor, row, flow.next_of_kind("backward", row))
    if any(_looks_property_up(flow, call, flow.log.calls[each]) for each in below):
        return False
    names = {plain_name(flow.log.calls[each].function) for each in below}
    if names & (MASKS | {"isin"}):
        return False
    scored = bool(names & _COMPARE)
    for site in callers(flow, row):
        lines = case.capture.sources.get(site.file, {})
        if site.line not in lines:
            continue
        tree = tree_of(lines)
        held = _held_in(tree, site.line)
        reads = [node for node in tree.nodes if isinstance(node, ast.Name) and tree.key_of(node) in held]
        if any(is_read(node) and _is_filtered(tree, node) for node in reads):
            return False
        scored |= any(is_read(node) and _is_compared(tree, node) for node in reads)
    return scored


def _looks_property_up(flow: Dataflow, ranking: Call, call: Call) -> bool:
    """Whether the best items choose from a list that has one number for each item."""
    count = shape_of(flow, ranking.inputs[0].tensor)[-1:]
    is_look_up = plain_name(call.function) in ("getitem", "take", "index_select") and len(call.inputs) == _FEW
    best = ranking.outputs[-1].tensor
    return is_look_up and call.inputs[1].tensor == best and shape_of(flow, call.inputs[0].tensor) == count


def _held_in(tree: SourceTree, line: int) -> set[Key]:
    """The variables that get the result of a line, or what is made of it."""
    statement = tree.statement_at(line)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    held = {key for target in targets for each in ast.walk(target) if (key := tree.key_of(each)) is not None}
    for _ in range(_FEW):
        held |= {
            key
            for target, value in tree.assignments
            if any(tree.key_of(each) in held for each in ast.walk(value))
            if (key := tree.key_of(target)) is not None
        }
    return held


def _is_filtered(tree: SourceTree, node: ast.AST) -> bool:
    """Whether items of a list are left out by what another list has."""
    for around in tree.around(node):
        if isinstance(around, ast.BinOp) and isinstance(around.op, ast.Sub):
            return True
        if called_name(around) in ("difference", "setdiff1d"):
            return True
        if isinstance(around, (*COMPREHENSIONS, ast.For)):
            return any(isinstance(each, (ast.NotIn, ast.Continue)) for each in ast.walk(around))
        if isinstance(around, ast.stmt):
            return False
    return False


def _is_compared(tree: SourceTree, node: ast.AST) -> bool:
    for around in tree.around(node):
        if isinstance(around, (ast.Compare, ast.For, *COMPREHENSIONS)):
            return any(isinstance(each, (ast.In, ast.Eq)) for each in ast.walk(around))
        if isinstance(around, ast.BinOp) and isinstance(around.op, ast.BitAnd):
            return True
        if isinstance(around, ast.Call) and called_name(around) not in _SHOW:
            return called_name(around) in _SETS or len(around.args) > 1
        if isinstance(around, ast.stmt):
            return False
    return False


def are_of_training(case: Case, row: int, call: Call) -> bool:
    """Whether the best items are compared with those that the model is trained on."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    below = {
        each for each in flow.descendants(call.outputs[-1].tensor, row) if plain_name(calls[each].function) == "eq"
    }
    compared = {_base(flow, use.tensor, each) for each in below for use in calls[each].inputs}
    first = next(iter(sorted(case.histories.reached_by)), 0)
    roots = [use.tensor for use in calls[first].roots]
    trained = {use.tensor for root in roots for each in flow.ancestors(root, first) for use in calls[each].inputs}
    return not compared.isdisjoint(trained)


def _base(flow: Dataflow, tensor: int, row: int) -> int:
    """The tensor of which another one is a part that numbers name, as a column."""
    for _, call in flow.makers(tensor, row, _MAX_ABOVE):
        if len(call.inputs) != 1 or plain_name(call.function) not in _PART:
            break
        tensor = call.inputs[0].tensor
    return tensor


_PART = frozenset({"getitem", "unsqueeze", "view", "reshape", "T", "t", "to", "unbind", "select", "squeeze", "long"})
