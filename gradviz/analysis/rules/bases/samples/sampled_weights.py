"""Weights that are drawn at every step, ``mu + sigma * randn_like(sigma)``, where no data decides on ``sigma``."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import has_normal_draw, is_normal_draw
from gradviz.graph.call_log import TensorUse


def scales_of_sampled_weights(flow: Dataflow, root: int, backward: int) -> frozenset[int]:
    """The parameters of which the noise of weights is made, by which a loss was computed."""
    since = flow.step_before(backward)
    found = set[int]()
    for row in flow.ancestors(root, backward, since):
        call = flow.log.calls[row]
        if plain_name(call.function) == "mul" and has_normal_draw(flow, call.inputs, row):
            for use in call.live_inputs:
                found |= leaves_without_data(flow, use.tensor, row, since) or frozenset()
    return frozenset(found)


def leaves_without_data(flow: Dataflow, tensor: int, before: int, since: int) -> frozenset[int] | None:
    """The parameters from which alone a tensor was computed, beside numbers, noise, and constants of their shape; None
    where data took part."""
    leaves = {tensor} if flow.log.tensors[tensor].role == "parameter" else set[int]()
    for row in flow.ancestors(tensor, before, since + 1):  # the step itself changed all parameters
        call = flow.log.calls[row]
        shapes = [shape_of(flow, use.tensor) for use in (*call.live_inputs, *call.outputs)]
        for use in call.inputs:
            if use.is_live_leaf:
                leaves.add(use.tensor)
            elif not use.requires_grad and _is_data(flow, use, row, since, shapes):
                return None
    return frozenset(leaves)


def _is_data(flow: Dataflow, use: TensorUse, row: int, since: int, shapes: list[tuple[int, ...]]) -> bool:
    """Whether a tensor without a gradient is neither a single number nor noise, and does not fit beside a parameter."""
    shape = shape_of(flow, use.tensor)
    made = flow.newest_producer(use.tensor, row)
    if set(shape) <= {1} or shape in shapes:
        is_of_step = flow.log.tensors[use.tensor].role == "tensor" and made is None
        return is_of_step and (flow.log.tensors[use.tensor].first_seen or 0) > since > 0 and not set(shape) <= {1}
    return made is None or made < since or not is_normal_draw(flow.log.calls[made])
