"""Matrices whose rows are samples: what meets them row by row, and what makes a table of pairs instead."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.samples.spread_values import SPREADS
from gradviz.graph.call_log import Call


def have_a_source(case: Case, one: int, before: int, other: int, row: int) -> bool:
    """Whether two matrices with samples as rows, made by a layer, were computed from the same one of their shape.

    A table of pairs, such as an adjacency matrix with its degrees, has samples on both axes.
    """
    flow, since = case.dataflow, case.dataflow.step_before(row)
    shape, sources, has_layer = shape_of(flow, one), list[set[int]](), False
    for tensor, until in ((one, before), (other, row)):
        above = flow.ancestors(tensor, until, since)
        made = {use.tensor for each in above for use in flow.log.calls[each].outputs}
        sources.append({tensor} | {each for each in made if shape_of(flow, each) == shape})
        has_layer |= any(plain_name(flow.log.calls[each].function) in ("linear", "addmm") for each in above)
    return has_layer and not sources[0].isdisjoint(sources[1])


def is_no_table_of_pairs(case: Case, tensor: int, row: int, since: int) -> bool:
    """Whether no product of two sets of samples, and no two axes put against each other, made the matrix."""
    flow = case.dataflow
    shape = shape_of(flow, tensor)
    for each in flow.ancestors(tensor, row, since):
        call = flow.log.calls[each]
        if shape not in [shape_of(flow, use.tensor) for use in call.outputs]:
            continue
        name, matrices = plain_name(call.function), [use for use in call.inputs if shape_of(flow, use.tensor) != shape]
        is_by_layer = any(_is_of_parameter(case, use.tensor, each) for use in call.inputs)
        is_by_layer = is_by_layer or sum(_is_constant(flow, use.tensor, since) for use in call.inputs) == 1
        if name in _PAIRS and not is_by_layer:
            return False
        is_joined = len(call.inputs) > 1 and len(matrices) == len(call.inputs)
        # A series is made of numbers for each sample and of its times.
        is_series = is_joined and sum(_is_counted(flow, use.tensor, each) for use in call.inputs) == 1
        if is_joined and not is_series and name not in _PAIRS | _LAYERS:
            return False
    return True


def _is_counted(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor was computed from numbers that count up only, as positions and times are."""
    tensors = flow.log.tensors
    for _ in range(_MAX_COUNTED):
        made = flow.producers(tensor, row)
        call = flow.log.calls[made[-1]] if made else None
        if call is None or len(call.inputs) > 1:
            return False
        if not call.inputs:
            return plain_name(call.function) in COUNTS_UP
        tensor, row = call.inputs[0].tensor, made[-1]
        if tensors[tensor].role == "parameter":
            return False
    return False


_MAX_COUNTED = 8
COUNTS_UP = frozenset({"arange", "linspace", "logspace"})


def _is_constant(flow: Dataflow, tensor: int, since: int) -> bool:
    """Whether a tensor is from before this step, as the matrix of a linear map of data is."""
    known = flow.log.tensors[tensor]
    return (
        known.first_seen is not None
        and known.first_seen < since
        and not any(row >= since for row in flow.producers(tensor))
    )


def _is_of_parameter(case: Case, tensor: int, row: int) -> bool:
    flow = case.dataflow
    if flow.log.tensors[tensor].role == "parameter":
        return True
    made = flow.producers(tensor, row)
    above = flow.log.calls[made[-1]].inputs if made else ()
    return len(above) == 1 and flow.log.tensors[above[0].tensor].role == "parameter"


def joins_the_rows(case: Case, values: int, but: set[int], long: int, since: int, *, until: int | None = None) -> bool:
    """Whether what is computed from one value for each sample, in another way, meets what is computed from the matrix
    in a call that takes both row by row; or what the matrix was computed from, before the call ``until``."""
    flow = case.dataflow
    count = shape_of(flow, values)[:1]
    ours, theirs = {values}, {long}
    if until is not None:
        above = (use.tensor for each in flow.ancestors(long, until, since) for use in flow.log.calls[each].outputs)
        theirs |= {each for each in above if shape_of(flow, each)[:1] == count}
    until = until or next((row for row in flow.rows_of_kind("step") if row > since), len(flow.log.calls))
    for row in range(max(since, 0), until):
        call = flow.log.calls[row]
        if row in but or call.kind != "operation" or not call.outputs:
            continue
        mine = [use for use in call.inputs if use.tensor in ours]
        others = [use for use in call.inputs if use.tensor in theirs and use.tensor not in ours]
        made = {use.tensor for use in call.outputs}
        if mine and others:
            shapes = [shape_of(flow, use.tensor) for use in (*mine, *others)]
            # A row of the matrix and a row of what belongs to the sample: (16, 16) and (16, 8) or (16, 1).
            if plain_name(call.function) in _JOINS and all(len(each) > 1 and each[:1] == count for each in shapes):
                return True
        elif mine and all(shape_of(flow, each)[:1] == count for each in made) and _goes_row_by_row(case, call, ours):
            ours |= made
        theirs |= made if others else set()
    return False


def _goes_row_by_row(case: Case, call: Call, ours: set[int]) -> bool:
    """False where one value for each sample meets a matrix: along which axis is the question. A call that spreads the
    values over a matrix spreads them along its last axis."""
    flow = case.dataflow
    if plain_name(call.function) in SPREADS and len(shape_of(flow, call.inputs[0].tensor)) == 1:
        return False
    rows = min(len(shape_of(flow, use.tensor)) for use in call.inputs if use.tensor in ours)
    beside = (use.tensor for use in call.inputs if use.tensor not in ours)
    return rows > 1 or all(
        len(shape_of(flow, each)) <= 1 or flow.log.tensors[each].role == "parameter" for each in beside
    )


_JOINS = frozenset({"cat", "concat", "concatenate", "add", "sub", "mul", "hstack", "addcmul", "lerp"})
_PAIRS = frozenset({"matmul", "mm", "bmm", "einsum", "cdist", "cosine_similarity", "outer", "tensordot", "inner"})
_LAYERS = frozenset({
    "linear", "addmm", "embedding", "cat", "stack", "where", "getitem", "index_select", "gather", "take",
})  # fmt: skip
"""They choose rows, or compute with them."""
