"""Random arguments of an operation: what a case declares, and what is drawn for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Drawn:
    """A tensor that is drawn anew for each test, in float64 or complex128 as the test says, or in its own `dtype`."""

    shape: tuple[int, ...]
    draw: Callable[[tuple[int, ...], torch.Generator], torch.Tensor]
    dtype: torch.dtype | None = None
    wants_gradient: bool = True

    def tensor(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        drawn = self.draw(self.shape, generator)
        if self.dtype is not None:
            return drawn.to(self.dtype).requires_grad_(self.wants_gradient)
        if dtype.is_complex:
            drawn = torch.complex(drawn, self.draw(self.shape, generator))
        return drawn.requires_grad_()


def real(*shape: int) -> Drawn:
    """From a normal distribution."""
    return Drawn(shape, lambda shape, generator: torch.randn(shape, generator=generator, dtype=torch.float64))


def between(low: float, high: float, *shape: int) -> Drawn:
    """Evenly from an interval."""
    return Drawn(
        shape,
        lambda shape, generator: low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64),
    )


def positive(*shape: int) -> Drawn:
    """Well above 0."""
    return between(0.5, 2.5, *shape)


def integers(below: int, *shape: int) -> Drawn:
    """From 0."""
    return Drawn(shape, lambda shape, generator: torch.randint(below, shape, generator=generator), torch.int64, False)


def complex_number(*shape: int) -> Drawn:
    """Complex even where the other arguments are real."""
    return Drawn(shape, lambda shape, generator: torch.randn(shape, generator=generator, dtype=torch.complex128))


def covariance(size: int) -> Drawn:
    """A symmetric matrix with positive eigenvalues."""
    return Drawn((size, size), _covariance)


def _covariance(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    root = torch.randn(shape, generator=generator, dtype=torch.float64)
    return root @ root.mT + torch.eye(shape[0], dtype=torch.float64)


def constant(drawn: Drawn) -> Drawn:
    """The same without a gradient."""
    return Drawn(drawn.shape, drawn.draw, torch.float64, False)


def single_precision(drawn: Drawn) -> Drawn:
    """For operations that have no float64."""
    return Drawn(drawn.shape, drawn.draw, torch.float32)


def truth(*shape: int) -> Drawn:
    """True and False."""
    return Drawn(shape, lambda shape, generator: torch.randint(2, shape, generator=generator), torch.bool, False)


@dataclass(frozen=True)
class Case:
    """One call of an operation."""

    node: str
    arguments: dict[str, Any]


def given(node: str, **arguments: Any) -> Case:
    """Arguments by their names in the formula; those that are not `Drawn` are passed unchanged."""
    return Case(node, arguments)


def on_shapes(*nodes: str, draw: Callable[..., Drawn] = real, **others: Any) -> list[Case]:
    """The same operation of one input on a matrix and on a number."""
    return [given(node, self=draw(*shape), **others) for node in nodes for shape in ((3, 4), ())]
