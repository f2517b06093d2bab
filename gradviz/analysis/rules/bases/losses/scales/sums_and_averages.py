"""Terms of a loss that are summed over a batch, and errors that are averaged over all of its values."""

from __future__ import annotations

from math import prod

from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_squared, summed_axes
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, Term, number_of
from gradviz.graph.call_log import Call

_LEAST_FACTOR, _MOST_FACTOR = 0.2, 5.0
"""Factors such as 0.5 belong to a divergence; others are there to weigh it."""
_ERRORS = frozenset({
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
})  # fmt: skip


def sum_of_batch(flow: Dataflow, term: Term) -> int | None:
    """The call that sums a term over the samples, if nothing averages it or gives it another weight."""
    if not _LEAST_FACTOR < factor_of(flow, term) < _MOST_FACTOR:
        return None
    whole = shape_of(flow, flow.log.calls[term.row].outputs[0].tensor)
    samples, found = whole[:1], None
    for row in term.path:
        call = flow.log.calls[row]
        name, shape = plain_name(call.function), shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
        if name in ("mean", "nanmean"):
            return None
        axes = summed_axes(call, call.inputs[0], len(shape)) if call.inputs and name in _ADDS_UP else None
        is_of_samples = shape[:1] == samples or shape == (prod(whole),)  # as after flatten()
        if axes is not None and 0 in axes and is_of_samples:
            found = row
    return found if samples and samples[0] > 1 else None


_ADDS_UP = frozenset({"sum", "nansum", "einsum"})


def is_of_samples(flow: Dataflow, exponential: int, samples: int) -> bool:
    """Whether a scale was computed of as many samples of data: it is not that of the weights of a network."""
    out = flow.log.calls[exponential].outputs[0].tensor
    rows = flow.ancestors(out, exponential + 1, flow.step_before(exponential))
    uses = (use for row in rows for use in flow.log.calls[row].inputs if not use.requires_grad)
    return shape_of(flow, out)[:1] == (samples,) and any(shape_of(flow, use.tensor)[:1] == (samples,) for use in uses)


def is_average(flow: Dataflow, term: Term) -> bool:
    """Whether a term is an error, averaged over all values of a batch, and nothing gives it another weight."""
    call = flow.log.calls[term.row]
    shape = shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
    factor, is_error = factor_of(flow, term), plain_name(call.function) in _ERRORS
    if is_error and call.scalars.get("reduction") == "sum":
        factor *= prod(shape)  # a sum that is divided by the number of values
    is_loss = is_error and call.scalars.get("reduction") in ("mean", "sum")
    is_whole = is_loss or (
        plain_name(call.function) == "mean" and not axes_of(call, len(shape)) and _is_error(flow, term)
    )
    return is_whole and prod(shape[1:]) > 1 and term.sign > 0 and _LEAST_FACTOR < factor < _MOST_FACTOR


def _is_error(flow: Dataflow, term: Term) -> bool:
    """Whether what is averaged is the size of a difference from data."""
    for _, call in flow.makers(flow.log.calls[term.row].inputs[0].tensor, term.row, 2):
        if plain_name(call.function) == "sub":
            return len(call.live_inputs) == 1 < len(call.inputs)
        if not is_squared(call) and plain_name(call.function) != "abs":
            return plain_name(call.function) in _ERRORS and call.scalars.get("reduction") == "none"
    return False


def factor_of(flow: Dataflow, term: Term) -> float:
    """The product of all numbers with which a loss multiplies a term; 0 where one is not known."""
    product = 1.0
    for row in term.path[:-1]:
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name in ("mul", "div"):
            number = abs(number_of(call, *OPERAND, missing=0.0)) if len(call.inputs) == 1 else 0.0
            product *= number if name == "mul" else 1 / number if number else 0.0
        elif not _is_sum(call) or number_of(call, "alpha", missing=1.0) != 1:
            return 0.0
    return product


def _is_sum(call: Call) -> bool:
    name = plain_name(call.function)
    return name in _SUMS or (name == "einsum" and len(call.inputs) == 1)


_SUMS = frozenset({
    "add", "sub", "sum", "mean", "neg", "stack", "squeeze", "view", "reshape", "getitem", "nansum", "flatten", "cat",
})  # fmt: skip
