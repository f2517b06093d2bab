"""Random arguments of an operation, described: what a case says, and what is drawn for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Drawn:
    """A tensor that is drawn anew for each test; of floating point, and so wanting a gradient, unless `dtype` says."""

    shape: tuple[int, ...]
    draw: Callable[[tuple[int, ...], torch.Generator], torch.Tensor]
    dtype: torch.dtype | None = None

    def tensor(self, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        """In float64 or complex128, as `dtype` says."""
        drawn = self.draw(self.shape, generator)
        if self.dtype is not None:
            return drawn.to(self.dtype)
        if dtype.is_complex:
            drawn = torch.complex(drawn, self.draw(self.shape, generator))
        return drawn.to(dtype).requires_grad_()


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
    return Drawn(shape, lambda shape, generator: torch.randint(below, shape, generator=generator), torch.int64)


def truth(*shape: int) -> Drawn:
    """True and False."""
    return Drawn(shape, lambda shape, generator: torch.randint(2, shape, generator=generator), torch.bool)


@dataclass(frozen=True)
class Case:
    """One call of an operation."""

    node: str
    arguments: dict[str, Any]
    only_real: bool = False


def given(node: str, *, only_real: bool = False, **arguments: Any) -> Case:
    """Arguments by their names in the formula; those that are not `Drawn` are given as they are."""
    return Case(node, arguments, only_real)


def on_shapes(*nodes: str, draw: Callable[..., Drawn] = real, **others: Any) -> list[Case]:
    """The same operation of one input on a matrix and on a number."""
    return [given(node, self=draw(*shape), **others) for node in nodes for shape in ((3, 4), ())]
