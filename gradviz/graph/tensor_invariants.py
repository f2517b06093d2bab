"""Checks what must hold for the facts and figures of one tensor, in files and in the tests of the recorder."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, sqrt

from gradviz.errors import GradvizError
from gradviz.graph.bounded_types import MAX_COUNT
from gradviz.graph.fingerprints import Fingerprint
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.tensor_facts import TensorFacts, elements_in

_ROUNDING = 1.05
"""Figures of gradients in bfloat16 differ from the exact ones by less than this factor."""


class InvalidGraph(GradvizError):
    """A graph refers to something that it does not hold, has a cycle, or says something that cannot be."""


def check_facts(where: str, tensors: Iterable[TensorFacts | None]) -> None:
    """Raise `InvalidGraph` at the first tensor with more elements than can be counted."""
    for facts in tensors:
        if facts is not None and len(facts.shape) > 2:
            _check_shape(where, facts.shape)


def check_figures(where: str, tensors: Iterable[TensorFigures | None]) -> None:
    """Raise `InvalidGraph` at the first tensor whose figures contradict each other."""
    for figures in tensors:
        if figures is not None:
            _check_figures(where, figures)


def _check_figures(where: str, figures: TensorFigures) -> None:
    _check_shape(where, figures.shape)
    special = figures.zeros + figures.nans + figures.infs
    if special > figures.count:
        raise InvalidGraph(f"{where} has a tensor of {figures.count} elements, {special} of them zero, NaN or Inf")
    check_range(where, figures.minimum, figures.maximum)
    _check_averages(where, figures)
    check_fingerprint(where, figures.fingerprint)
    elements = elements_in(figures.shape)
    if figures.values is not None and elements != len(figures.values):
        raise InvalidGraph(f"{where} has {len(figures.values)} values of a tensor of shape {list(figures.shape)}")


def _check_averages(where: str, figures: TensorFigures) -> None:
    """The mean lies between the extremes, and the norm fits the largest element, as far as they were not rounded."""
    largest, mean, norm = figures.largest, figures.mean, figures.norm
    if mean is not None and (largest is None or abs(mean) > _ROUNDING * largest):
        raise InvalidGraph(f"{where} has values from {figures.minimum} to {figures.maximum} with the mean {mean}")
    # Squares of smaller numbers are zero in float64, and those of larger ones infinite.
    if norm is not None and largest is not None and 1e-150 < largest < 1e150:
        most = largest * sqrt(figures.count)
        if not largest / _ROUNDING <= norm <= _ROUNDING * most:
            raise InvalidGraph(f"{where} has {figures.count} values of up to {largest} with the norm {norm}")


def check_fingerprint(where: str, fingerprint: Fingerprint | None) -> None:
    """Raise `InvalidGraph` if no tensor has such a fingerprint."""
    if fingerprint is not None and not all(map(isfinite, fingerprint.projections)):
        raise InvalidGraph(f"{where} has a fingerprint with a projection that is NaN or Inf")


def check_range(where: str, minimum: float | None, maximum: float | None) -> None:
    """Raise `InvalidGraph` unless both are known and in order, or none is known."""
    if (minimum is None) != (maximum is None):
        raise InvalidGraph(f"{where} has values from {minimum} to {maximum}")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise InvalidGraph(f"{where} has values from {minimum} to {maximum}")


def _check_shape(where: str, shape: tuple[int | str, ...]) -> None:
    elements = elements_in(shape)
    if elements is not None and elements > MAX_COUNT:
        raise InvalidGraph(f"{where} has a tensor of shape {list(shape)}, which is larger than any memory")
