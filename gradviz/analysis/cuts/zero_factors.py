"""Values that a formula multiplies by a zero that stands in the source: ``(pred - 0.0 * target).square()``.

Such a zero is left from a trial, or was meant to be another number. A zero that a variable holds may be a setting, and
a product that is a whole statement (``total = x.sum() * 0``) may be the start of a sum.

>>> [scales_a_term_by_zero(line) for line in ("loss = (pred - 0.0 * y).square().mean()", "loss = a + 10 * 0.0 * b")]
[True, True]
>>> [scales_a_term_by_zero(line) for line in ("total = x.sum() * 0", "ones = x * 0 + 1", "loss = a * 10.0 + b")]
[False, False, False]
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.finding import Location
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call

_MIN_STEPS = 2


class ZeroFactor(Struct, frozen=True):
    """One product with a zero of the source, at every step."""

    call: int
    tensor: int
    """What is multiplied."""
    location: Location
    steps: int
    parameters: tuple[int, ...]
    """Trained parameters that it was computed from, if it has a history."""


def zero_factors(
    histories: ParameterHistories, text_of: Callable[[Location | None], str | None]
) -> Iterator[ZeroFactor]:
    """Those on the way to the last backward call of each line, one for each line."""
    flow, calls = histories.flow, histories.log.calls
    times = Counter(call.call_site for call in calls if is_times_zero(call))
    told: set[Location] = set()
    for backward in histories.last_backward_of_each_line:
        steps = sum(calls[row].call_site == calls[backward].call_site for row in histories.reached_by)
        for root in calls[backward].roots if steps >= _MIN_STEPS else ():
            for row in flow.ancestors(root.tensor, backward, flow.step_before(backward)):
                call, location = calls[row], location_of_call(flow, row)
                is_always = is_times_zero(call) and times[call.call_site] >= steps and flow.is_by_program(call)
                if not is_always or location is None or location in told:
                    continue
                if scales_a_term_by_zero(text_of(location) or "") and not _is_of_parameters_alone(histories, row):
                    told.add(location)
                    use = call.inputs[0]
                    leaves, _ = histories.live_leaves((use.tensor,) if use.requires_grad else (), row)
                    parameters = tuple(sorted(leaves & histories.trained))
                    yield ZeroFactor(row, use.tensor, location, steps, parameters)


def is_times_zero(call: Call) -> bool:
    """Whether a tensor is multiplied by the Python number 0."""
    is_product = call.kind == "operation" and plain_name(call.function) == "mul" and len(call.inputs) == 1
    return is_product and any(type(each) in (int, float) and each == 0 for each in call.scalars.values())


def scales_a_term_by_zero(line: str) -> bool:
    """Whether a line multiplies a part of a formula by a literal zero."""
    try:
        tree = ast.parse(line.strip())
    except (SyntaxError, ValueError):
        return False
    formulas = [node for node in ast.walk(tree) if isinstance(node, (ast.BinOp, ast.Call)) and not _fills(node)]
    return any(
        isinstance(child, ast.BinOp) and _is_zero_product(child)
        for node in formulas
        for child in ast.iter_child_nodes(node)
    )


def _fills(node: ast.BinOp | ast.Call) -> bool:
    """Whether it makes a constant that is like a tensor: ``x * 0 + 1``."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else ()
    return any(isinstance(side, ast.Constant) for side in sides)


def _is_zero_product(product: ast.BinOp) -> bool:
    return isinstance(product.op, ast.Mult) and any(_is_zero(each) for each in (product.left, product.right))


def _is_zero(factor: ast.expr) -> bool:
    if isinstance(factor, ast.Constant):
        return type(factor.value) in (int, float) and factor.value == 0
    return isinstance(factor, ast.BinOp) and _is_zero_product(factor)


def _is_of_parameters_alone(histories: ParameterHistories, row: int) -> bool:
    """Whether parameters are all that it was computed from: a sum that keeps them in the graph, or a penalty."""
    calls, flow = histories.log.calls, histories.flow
    taken = [
        use
        for tensor in (use.tensor for use in calls[row].inputs)
        for above in flow.ancestors(tensor, row)
        for use in (*calls[above].inputs, *calls[row].inputs)
        if use.is_leaf
    ]
    return bool(taken) and all(use.requires_grad for use in taken)
