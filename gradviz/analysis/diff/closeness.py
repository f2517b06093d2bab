"""How far apart two tensors are, as far as the recordings know their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isclose, sqrt
from typing import Literal

from gradviz.analysis.diff.runs import Operand
from gradviz.graph.fingerprints import distance
from gradviz.graph.gradients import TensorFigures

Level = Literal["same", "rounding", "different", "unknown"]
"""``rounding``: other bits, within the tolerance; ``unknown``: the values of one of them were not recorded."""

DEFAULT_TOLERANCE = {
    "float64": 1e-10,
    "complex128": 1e-10,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float16": 5e-3,
    "bfloat16": 3e-2,
}
"""Relative to the norm, by dtype; for 8-bit floats `_SMALL_FLOATS`; other dtypes must be the same."""
_SMALL_FLOATS = 0.2


@dataclass(frozen=True)
class Tolerance:
    """What counts as the same value."""

    relative: float | None = None
    """Largest distance relative to the norm; None: by dtype."""

    def words(self, dtypes: Iterable[str]) -> str:
        """``1e-05 of the norm for float32``."""
        if self.relative is not None:
            return f"{self.relative:.3g} of the norm"
        found = {dtype: _by_dtype(dtype) for dtype in sorted(set(dtypes))}
        return " and ".join(f"{limit:.3g} of the norm for {dtype}" for dtype, limit in found.items())

    def for_dtypes(self, *dtypes: str) -> float:
        """The tolerance for tensors of these dtypes: that of the coarsest."""
        if self.relative is not None:
            return self.relative
        return max((_by_dtype(dtype) for dtype in dtypes), default=0.0)


@dataclass(frozen=True)
class Apart:
    """How far apart two tensors are."""

    level: Level
    distance: float | None = None
    """Relative to the larger norm; None if unknown. Infinite if the shapes, or the number of NaN and Inf, differ."""

    @property
    def differs(self) -> bool:
        return self.level in ("rounding", "different")


SAME, UNKNOWN = Apart("same", 0.0), Apart("unknown")


def apart(one: Operand, other: Operand, tolerance: Tolerance) -> Apart:
    """Compare two operands or results."""
    if one.facts is not None and other.facts is not None and one.facts.elements != other.facts.elements:
        return Apart("different", inf)
    return figures_apart(one.figures, other.figures, tolerance)


def figures_apart(one: TensorFigures | None, other: TensorFigures | None, tolerance: Tolerance) -> Apart:
    """Compare two tensors by their fingerprints, or else by their figures."""
    if one is None or other is None:
        return UNKNOWN
    if one.is_undefined or other.is_undefined:
        return SAME if one.is_undefined and other.is_undefined else Apart("different", inf)
    if one.fingerprint is not None and other.fingerprint is not None:
        if one.fingerprint.checksum == other.fingerprint.checksum and one.dtype == other.dtype:
            return SAME
        far = distance(one.fingerprint, other.fingerprint)
    else:
        found = _distance_of_figures(one, other)
        if found is None:
            return UNKNOWN
        far = found
        if far == 0:
            return SAME
    return Apart("rounding" if far <= tolerance.for_dtypes(one.dtype, other.dtype) else "different", far)


def worst(found: list[Apart]) -> Apart:
    """The one that is furthest apart; unknown only if all are."""
    known = [each for each in found if each.level != "unknown"]
    if not known:
        return UNKNOWN if found else SAME
    order = {"same": 0, "rounding": 1, "different": 2}
    return max(known, key=lambda each: (order[each.level], each.distance or 0.0))


def _distance_of_figures(one: TensorFigures, other: TensorFigures) -> float | None:
    """From all numbers if both were kept, else at least as far as their norms and extremes are apart."""
    if one.values is not None and other.values is not None and len(one.values) == len(other.values):
        pairs = list(zip(one.values, other.values, strict=True))
        difference = sqrt(sum((x - y) ** 2 for x, y in pairs if x != y and not (x != x and y != y)))
        scale = max(sqrt(sum(x * x for x, _ in pairs)), sqrt(sum(y * y for _, y in pairs)))
        if difference != difference:
            return inf
        return difference / scale if scale else 0.0
    if not one.is_measured or not other.is_measured or one.norm is None or other.norm is None:
        return None
    if (one.nans, one.infs) != (other.nans, other.infs):
        return inf
    scale = max(one.norm, other.norm)
    figures = ((one.norm, other.norm), (one.minimum, other.minimum), (one.maximum, other.maximum))
    known = [(x, y) for x, y in figures if x is not None and y is not None]
    return max((abs(x - y) / scale for x, y in known if not isclose(x, y, rel_tol=0)), default=0.0) if scale else 0.0


def _by_dtype(dtype: str) -> float:
    return _SMALL_FLOATS if dtype.startswith("float8") else DEFAULT_TOLERANCE.get(dtype, 0.0)
