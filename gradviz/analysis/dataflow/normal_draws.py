"""Calls that draw from a normal distribution: the noise of a reparameterized sample, or of a diffusion."""

from __future__ import annotations

from collections.abc import Iterable

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

_NORMAL = frozenset({"normal", "randn", "randn_like"})


def is_normal_draw(call: Call) -> bool:
    """Whether the call draws from a normal distribution, of any mean and standard deviation."""
    return plain_name(call.function) in _NORMAL


def is_scaled_noise(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether a tensor, as the call `before` received it, is the product of such a draw and something else."""
    made = flow.newest_producer(tensor, before)
    call = None if made is None else flow.log.calls[made]
    is_product = call is not None and plain_name(call.function) == "mul"
    return is_product and made is not None and call is not None and has_normal_draw(flow, call.inputs, made)


def has_normal_draw(flow: Dataflow, uses: Iterable[TensorUse], before: int) -> bool:
    """Whether one of these tensors, as the call `before` received them, is the result of such a call itself."""
    made = (flow.newest_producer(use.tensor, before) for use in uses)
    return any(row is not None and is_normal_draw(flow.log.calls[row]) for row in made)
