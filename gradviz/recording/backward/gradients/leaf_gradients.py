"""Finds what a backward call does to the ``.grad`` of each leaf that it may reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradviz.graph.gradients import LeafGradient, TensorFigures
from gradviz.recording.backward.gradients.gradient_meter import GradientMeter
from gradviz.recording.backward.gradients.gradient_watch import UNDEFINED, Flow, measuring
from gradviz.recording.torch_access.distributed.parameter_shards import is_of_shard
from gradviz.recording.torch_access.distributed.sharded_parameters import (
    is_flat_parameter,
    local_part,
    own_parameter,
    sharded_of,
)
from gradviz.recording.torch_access.tensors import post_accumulate_hooks
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.leaves import leaf_variables


@dataclass(frozen=True)
class _Change:
    """What happened to one leaf; gradients are numbers in the meter."""

    outcome: Any
    before: int | None = None
    after: int | None = None
    reduced_by: str = ""


class LeafGradients:
    """Reads every ``.grad`` before the call, when it is made, and again in `after`."""

    def __init__(self, walk: Walk, meter: GradientMeter, reducers: Mapping[int, str]) -> None:
        self._meter = meter
        self._reducers = reducers
        """Which wrapper makes ``.grad`` out of the gradients of several ranks, by the ``id()`` of the parameter."""
        self._variables = dict(leaf_variables(walk))
        self._before: dict[int, int] = {}
        with measuring():
            for index, variable in self._variables.items():
                gradient = _gradient_of(variable)
                if gradient is not None:
                    # Now, because the call will add to this very tensor.
                    self._before[index] = meter.take(gradient)
        self._changes: dict[int, _Change] = {}

    def after(self, flow: Flow) -> None:
        """The call has ended. If a leaf got its gradient in several parts, this corrects `flow`."""
        with measuring():
            for index, variable in self._variables.items():
                self._changes[index] = self._change(flow, index, variable)
        self._variables.clear()

    def _change(self, flow: Flow, index: int, variable: Any) -> _Change:
        before, arrived = self._before.get(index), flow.arrived.get((index, 0), UNDEFINED)
        gradient = _gradient_of(variable)
        reducer = "fully_shard" if sharded_of(variable) is not None else self._reducers.get(id(variable), "")
        if is_flat_parameter(variable) and gradient is not None and is_of_shard(variable, gradient):
            reducer = "FullyShardedDataParallel"
        if reducer and gradient is not None:
            # Also if nothing arrived here: other ranks may have sent something.
            outcome = "fresh" if before is None else "accumulated"
            return _Change(outcome, before, self._meter.take(gradient), reducer)
        if index not in flow.runs or arrived == UNDEFINED:
            return _Change("unchanged", before, before)
        came_in_parts = index in flow.repeats
        if came_in_parts:
            del flow.arrived[index, 0]
        if gradient is None:
            return _Change("taken", before)
        if before is None and not came_in_parts and not post_accumulate_hooks(variable):
            return _Change("fresh", None, arrived)
        after = self._meter.take(gradient)
        if before is not None:
            return _Change("accumulated", before, after)
        if came_in_parts:
            flow.arrived[index, 0] = after
        return _Change("fresh", None, after)

    def results(self, facts: Mapping[int, TensorFigures]) -> dict[int, LeafGradient]:
        """What happened, by index of the leaf's node."""
        return {
            index: LeafGradient(
                change.outcome,
                facts.get(change.before) if change.before is not None else None,
                facts.get(change.after) if change.after is not None else None,
                change.reduced_by,
            )
            for index, change in self._changes.items()
        }


def _gradient_of(variable: Any) -> Any:
    """Its ``.grad``, as the optimizer sees it; of a sharded one, the part on this rank. None if there is none."""
    gradient = own_parameter(variable).grad
    return None if gradient is None else local_part(gradient)
