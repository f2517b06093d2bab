"""Gradients that are constants, and that are added to a live part of a residual: ``u'' + u``, squared in a loss.

The parameters get gradients through ``u``, so nothing is None; through ``u''`` they get none. A gradient that moves the
tensor that it belongs to (``x - rate * gradient``) is no part of a residual, nor is one that goes through a layer
again, as an adversarial perturbation does, nor one that the program cuts off itself. A gradient as a factor of a live
part may be meant, as a weight; a second derivative is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.cuts.dead_terms import DeadTerm
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call

_COMPARE = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_SUMS = frozenset({"add", "sub"}) | _COMPARE
_SHAPES = frozenset({
    "getitem", "view", "reshape", "squeeze", "unsqueeze", "flatten", "stack", "cat", "split", "chunk", "unbind",
    "select", "narrow", "contiguous", "clone", "to", "float", "double", "t", "transpose", "expand",
})  # fmt: skip
_PRODUCTS = frozenset({"mul"})
_SCALES = frozenset({"div", "neg"}) | _PRODUCTS
_REDUCE = frozenset({
    "pow", "square", "abs", "mean", "sum", "norm", "vector_norm", "sqrt", "log", "log1p", "cosh", "clamp", "trace",
})  # fmt: skip
_OF_A_RESIDUAL = _SUMS | _SHAPES | _SCALES | _REDUCE
_MAX_CALLS = 200


def constant_gradients(histories: ParameterHistories) -> Iterator[DeadTerm]:
    """Those in the loss of the last backward call of each line."""
    flow = histories.flow
    cuts = {cut.call: cut for cut in flow.cuts}
    for backward in histories.last_backward_of_each_line:
        since = flow.step_before(backward)
        trained = histories.reached_by[backward] & histories.learned
        for row in _rows_of_residuals(flow, backward, since):
            call = flow.log.calls[row]
            name = plain_name(call.function)
            if name not in _SUMS | _PRODUCTS or not call.live_inputs:
                continue
            moved = {use.tensor for use in call.live_inputs}
            for use in call.inputs if len(call.live_inputs) < len(call.inputs) else ():
                gradient = None if use.requires_grad else _gradient_above(flow, use.tensor, row, since)
                cut = None if gradient is None else cuts.get(gradient)
                if gradient is None or cut is None or not moved.isdisjoint(_asked_for(flow.log.calls[gradient])):
                    continue
                if name in _PRODUCTS and not _is_of_a_derivative(histories, gradient):
                    continue
                leaves, _ = histories.live_leaves(cut.live_inputs, gradient)
                if parameters := tuple(sorted(leaves & trained)):
                    yield DeadTerm(use.tensor, cut, row, backward, parameters)


def _rows_of_residuals(flow: Dataflow, backward: int, since: int) -> Iterator[int]:
    """The calls between the loss and the layers of a model: sums, squares, factors, means."""
    waiting = [(use.tensor, backward) for use in flow.log.calls[backward].roots]
    seen = set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        tensor, before = waiting.pop()
        row = flow.newest_producer(tensor, before)
        if row is None or row in seen or row < since:
            continue
        seen.add(row)
        call = flow.log.calls[row]
        if call.kind == "operation" and plain_name(call.function) in _OF_A_RESIDUAL:
            yield row
            waiting += [(use.tensor, row) for use in call.inputs if use.has_grad_fn]


def _gradient_above(flow: Dataflow, tensor: int, before: int, since: int) -> int | None:
    """The call of ``autograd.grad()`` from whose result a constant was computed, by arithmetic alone."""
    waiting = [(tensor, before)]
    seen = set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        tensor, before = waiting.pop()
        rows = [row for row in flow.producers(tensor, before) if flow.log.calls[row].kind == "operation"]
        if not rows or rows[-1] < since or rows[-1] in seen:
            continue
        seen.add(rows[-1])
        call = flow.log.calls[rows[-1]]
        if is_gradient(call):
            return rows[-1]
        if plain_name(call.function) in _OF_A_RESIDUAL and not call.live_inputs:
            waiting += [(use.tensor, rows[-1]) for use in call.inputs]
    return None


def _is_of_a_derivative(histories: ParameterHistories, gradient: int) -> bool:
    """Whether it differentiates a derivative that the program computed with a graph: in ``nu * u''``, with a ``nu``
    that is learned, the first derivative was meant to have one, and so was the second. A first derivative by trained
    parameters is a step ahead, by which samples are weighed."""
    flow = histories.flow
    calls, since = flow.log.calls, flow.step_before(gradient)
    roots = calls[gradient].live_inputs
    above = (calls[row] for root in roots for row in flow.ancestors(root.tensor, gradient, since))
    return any(
        is_gradient(call)
        and call.scalars.get("create_graph") is True
        and histories.learned.isdisjoint(_asked_for(call))
        for call in above
    )


def _asked_for(gradient: Call) -> set[int]:
    """The tensors by which a call of ``autograd.grad()`` differentiates."""
    return {use.tensor for use in gradient.inputs if use.place.startswith(("1", "input"))}
