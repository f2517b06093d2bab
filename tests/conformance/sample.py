"""One program of a conformance run: how to compute it, as often as needed and each time alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

SEED = 20_240_517


@dataclass(frozen=True)
class Prepared:
    """A forward computation that is ready to run, once."""

    leaves: list[torch.Tensor]
    """All tensors that may get a gradient."""
    compute: Callable[[], Any]
    """Gives tensors, or structures of them."""


@dataclass(frozen=True)
class Sample:
    """A computation with its inputs."""

    subject: str
    """The operator, module or model."""
    name: str
    """Says which sample of it: dtype, variant, number."""
    prepare: Callable[[], Prepared]
    """Makes new leaves with the same values each time."""


def forward(prepared: Prepared) -> list[torch.Tensor]:
    """Compute, with the same random numbers each time: the outputs that have a graph."""
    torch.default_generator.manual_seed(SEED)  # torch.manual_seed takes 2 ms, for devices that are not there
    return [
        value
        for value in pytree.tree_leaves(prepared.compute())
        if isinstance(value, torch.Tensor) and value.requires_grad
    ]


def cotangents(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """A gradient for each output, the same each time; of other layouts the output itself."""
    source = torch.Generator().manual_seed(SEED)
    return [_cotangent(output.detach(), source) for output in outputs]


def _cotangent(output: torch.Tensor, source: torch.Generator) -> torch.Tensor:
    if type(output) is not torch.Tensor or output.layout != torch.strided or output.is_nested:
        return output.clone()
    return torch.randn(output.shape, dtype=output.dtype, generator=source)


def with_own_tensors(structure: Any) -> tuple[Any, list[torch.Tensor]]:
    """The structure with tensors of its own, and those of them that require grad, which are leaves.

    Memory that gradients are asked for is shared, because nothing writes to it; all else is copied, because running
    statistics are written to.
    """
    leaves: dict[int, torch.Tensor] = {}

    def own(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if not value.requires_grad:
            return value.clone()
        if id(value) not in leaves:
            leaves[id(value)] = value.detach().requires_grad_()
        return leaves[id(value)]

    return pytree.tree_map(own, structure), list(leaves.values())
