"""Optimizers whose ``eps`` is 0 in the dtype of their parameters: a step divides by 0 where gradients are small."""

from __future__ import annotations

from typing import NamedTuple

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.creation_lines import call_that_made_optimizer


class LostEpsilon(NamedTuple):
    """Such an ``eps``, and the parameters that make it 0."""

    optimizer: str
    """The name of its class."""
    epsilon: float
    dtype: str
    made: int | None
    """The call that gave it its parameters."""


_ROUNDED_TO_ZERO = {"float16": 2.0**-25, "bfloat16": 2.0**-134, "float32": 2.0**-150, "float64": 0.0}
"""By dtype: the largest number that is rounded to 0."""
_MAX_RATE = 1.0
"""With a higher learning rate a step may overflow by its size."""


def lost_epsilon(flow: Dataflow, row: int) -> LostEpsilon | None:
    """That of the optimizer that steps in this row; None if there is none."""
    log, call = flow.log, flow.log.calls[row]
    if call.kind != "step" or call.optimizer is None:
        return None
    optimizer = log.optimizers[call.optimizer]
    for group, epsilon, rate in zip(optimizer.groups, optimizer.epsilons, optimizer.learning_rates, strict=False):
        is_moderate = rate is not None and rate <= _MAX_RATE
        dtypes = {_dtype(flow, tensor, row) for tensor in group if epsilon is not None and is_moderate}
        rounded = sorted(each for each in dtypes if epsilon is not None and epsilon <= _ROUNDED_TO_ZERO.get(each, -1.0))
        if rounded and epsilon is not None:
            return LostEpsilon(
                optimizer.class_name, epsilon, rounded[0], call_that_made_optimizer(flow, call.optimizer)
            )
    return None


def _dtype(flow: Dataflow, tensor: int, row: int) -> str:
    """That of a parameter at a step: ``model.half()`` assigns other data to it."""
    assigned, tensors = flow.newest_data_assignment(tensor, row), flow.log.tensors
    if assigned is not None:
        return tensors[flow.log.calls[assigned].inputs[-1].tensor].facts.dtype
    end = tensors[tensor].end
    return (end and end.dtype) or tensors[tensor].facts.dtype
