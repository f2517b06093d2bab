"""The figures of one step of a model that is watched."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from math import nan

import torch

from gradviz.capture.run_log import StepFigures, packed_floats, packed_integers
from gradviz.graph.gradients import TensorFigures
from gradviz.recording.backward.gradients.gradient_meter import GradientMeter
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.torch_access.tensor_facts import FactsTable


@dataclass
class MeasuredStep:
    """One step whose figures may still be on their device."""

    step: int
    scale: float
    meter: GradientMeter = field(default_factory=lambda: GradientMeter(FactsTable()))
    gradients: dict[int, int] = field(default_factory=dict)
    """Number of the gradient in the meter, by index of the parameter."""
    weights: dict[int, int] = field(default_factory=dict)
    taken_away: list[int] = field(default_factory=list)

    def take(self, index: int, parameter: torch.Tensor) -> None:
        """Measure the parameter and the gradient that it has now."""
        gradient = parameter.grad
        if gradient is None:
            self.taken_away.append(index)
            return
        self.gradients[index] = self.meter.take(gradient)
        weight = self.meter.take_norm(parameter)
        if weight is not None:
            self.weights[index] = weight

    def figures(self, parameters: int) -> StepFigures:
        """Everything that was measured. Waits for the devices."""
        with measuring():
            facts = self.meter.facts()
        found = [facts[self.gradients[index]] if index in self.gradients else None for index in range(parameters)]
        weights = [facts[self.weights[index]].norm if index in self.weights else None for index in range(parameters)]
        unmeasured: dict[str, list[int]] = {}
        if self.taken_away:
            unmeasured["a hook had taken it away"] = self.taken_away
        for index, gradient in enumerate(found):
            if gradient is not None and gradient.unmeasured is not None:
                unmeasured.setdefault(gradient.unmeasured, []).append(index)
        return StepFigures(
            self.step,
            packed_floats([_norm(gradient, self.scale) for gradient in found]),
            packed_floats([nan if norm is None else norm for norm in weights]),
            packed_integers([gradient.zeros if gradient is not None else 0 for gradient in found]),
            packed_integers([gradient.nans if gradient is not None else 0 for gradient in found]),
            packed_integers([gradient.infs if gradient is not None else 0 for gradient in found]),
            {reason: tuple(indices) for reason, indices in unmeasured.items()},
        )


def _norm(gradient: TensorFigures | None, scale: float) -> float:
    if gradient is None or gradient.norm is None:
        return nan
    return min(gradient.norm / scale, sys.float_info.max)
