"""Whether the backward of a custom function agrees with the slope of its forward."""

from __future__ import annotations

from gradviz.graph.call_log import DerivativeCheck

_TOLERANCE = {"float64": 0.02, "float32": 0.1}
"""Relative; backward formulas are approximated on purpose, and wrong ones are far off."""
_NEGLIGIBLE = 1e-3
"""Differences this small, beside the largest slope of all."""
_LEAST_SHARE = 0.2
"""Of the elements compared, so many must differ."""


def is_flat(check: DerivativeCheck) -> bool:
    """Forward does not change with this input, and yet a gradient is given: a surrogate."""
    return check.flat > 0 and not any(check.measured)


def differing_slopes(check: DerivativeCheck) -> list[tuple[float, float]]:
    """The elements where the two differ; none where too few do."""
    pairs = list(zip(check.given, check.measured, strict=True))
    largest = max((max(abs(one), abs(other)) for one, other in pairs), default=0.0)
    tolerance = _TOLERANCE.get(check.dtype, 0.1)
    wrong = [
        (one, other)
        for one, other in pairs
        if not abs(one - other) <= tolerance * max(abs(one), abs(other)) + _NEGLIGIBLE * largest
    ]
    is_enough = len(wrong) >= max(min(2, len(pairs)), _LEAST_SHARE * len(pairs))
    return wrong if is_enough else []
