"""What the figures of a gradient must be, computed from the gradient itself in plain Python and float64."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from gradviz.graph.gradients import TensorFigures

_MARGINS = {"float64": 1e-10, "complex128": 1e-10}
_LARGER_MARGIN = 1e-4
"""How far a norm or mean may be from the exact one, against the norm: they are sums of rounded numbers."""


def wrong_figures(gradient: torch.Tensor | None, figures: TensorFigures | None) -> Iterator[str]:
    """What gradviz measured wrong, in a few words each."""
    if figures is None:
        yield "has no figures"
        return
    if gradient is None:
        if not figures.is_undefined:
            yield "is undefined, which the figures do not say"
        return
    if figures.is_undefined:
        yield "is said to be undefined"
        return
    if figures.unmeasured is not None:
        return
    expected = {
        "shape": tuple(gradient.shape),
        "dtype": str(gradient.dtype).removeprefix("torch."),
        "layout": str(gradient.layout).removeprefix("torch."),
    }
    for what, value in expected.items():
        if getattr(figures, what) != value:
            yield f"has {what} {value}, not {getattr(figures, what)}"
    if gradient.numel():
        yield from _wrong_numbers(gradient, figures)


def _wrong_numbers(gradient: torch.Tensor, figures: TensorFigures) -> Iterator[str]:
    values = _numbers(gradient)
    finite = [value for value in values if math.isfinite(value)]
    counts = {
        "count": len(values),
        "zeros": values.count(0.0),
        "nans": sum(map(math.isnan, values)),
        "infs": sum(map(math.isinf, values)),
    }
    norm = math.sqrt(math.fsum(value * value for value in finite))
    margin = _MARGINS.get(figures.dtype, _LARGER_MARGIN) * norm
    # Absolute values of complex numbers are rounded, and differently for one number than for a row of them.
    of_extremes = margin if gradient.is_complex() else 0.0
    yield from (
        f"has {what} {value}, not {getattr(figures, what)}"
        for what, value in counts.items()
        if getattr(figures, what) != value
    )
    if finite:
        yield from _too_far("norm", norm, figures.norm, margin)
        yield from _too_far("mean", math.fsum(finite) / len(finite), figures.mean, margin)
        yield from _too_far("minimum", min(finite), figures.minimum, of_extremes)
        yield from _too_far("maximum", max(finite), figures.maximum, of_extremes)
    elif figures.norm is not None or figures.minimum is not None:
        yield "has figures of finite values, and no such values"
    yield from _wrong_values(values, figures)


def _numbers(gradient: torch.Tensor) -> list[float]:
    """Every element; of complex ones the absolute value."""
    gradient = gradient.detach()
    if gradient.layout != torch.strided:
        gradient = gradient.to_dense()
    # A copy: torch may send a tensor of zeros that has no memory at all.
    own = torch.empty(gradient.shape, dtype=gradient.dtype).copy_(gradient)
    numbers: list[float] = (own.abs() if own.is_complex() else own).reshape(-1).tolist()
    return numbers


def _too_far(what: str, value: float, found: float | None, margin: float) -> Iterator[str]:
    if found is None or not abs(found - value) <= margin:
        yield f"has {what} {value}, not {found}"


def _wrong_values(values: list[float], figures: TensorFigures) -> Iterator[str]:
    if figures.values is None:
        if not figures.dtype.startswith("complex") and figures.layout == "strided" and len(values) <= 4096:
            yield "has values that were not kept"
    elif [value.hex() for value in values] != [value.hex() for value in map(float, figures.values)]:
        yield "has other values than those that were kept"
