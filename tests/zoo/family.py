"""What a family of the zoo is: a small model with random weights, and the inputs of one training step."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy
import torch

Kind = Literal[
    "encoder",
    "decoder",
    "encoder-decoder",
    "mixture of experts",
    "state space",
    "vision",
    "audio",
    "several senses",
    "time series",
    "diffusion",
    "graph network",
]


class Subject(NamedTuple):
    """A model in training mode, and what it is called with."""

    model: torch.nn.Module
    inputs: Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """One architecture: `make` builds the same model each time it is called after the same `seed`."""

    name: str
    kind: Kind
    make: Callable[[], Subject]
    hides_layers: bool = False
    """True where layers are computed again, and differentiated, inside the backward of a custom function: their
    parameters get gradients and are not in the graph, which must be told."""


def seed(number: int) -> None:
    """Set every generator that a model may draw from: masks of audio models come from NumPy's."""
    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def loss_of(outputs: Any) -> torch.Tensor:
    """The loss that a model returns, or for one without, the mean square of everything that it returns."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else None
    if loss is not None:
        assert isinstance(loss, torch.Tensor)
        return loss.sum()
    parts = [tensor for tensor in tensors_in(outputs) if tensor.requires_grad]
    return torch.stack([part.float().square().mean() for part in parts]).sum()


def tensors_in(outputs: Any) -> Iterator[torch.Tensor]:
    """Every tensor in the outputs of a model, in order."""
    if isinstance(outputs, torch.Tensor):
        yield outputs
    elif isinstance(outputs, Mapping):
        for value in outputs.values():
            yield from tensors_in(value)
    elif isinstance(outputs, (tuple, list)):
        for value in outputs:
            yield from tensors_in(value)
