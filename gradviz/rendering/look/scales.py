"""From measured figures to the steps of a colour ramp, with words for the ends of the scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from gradviz.graph.number_words import byte_words, seconds_words
from gradviz.rendering.look.color_ramps import STEPS, Quantity

MIN_DECADES = 4
"""A gradient that hardly changes must not run through all colours."""
_MAX_DECADES = 16
_MIN_FACTOR_OF_BYTES = 100.0


@dataclass(frozen=True)
class Scale:
    """A range of figures."""

    low: float
    high: float
    is_log: bool
    low_words: str
    high_words: str

    def step(self, value: float) -> int:
        """The step of a value, from 0. A value outside the range has the first or the last step."""
        if self.is_log:
            value = max(value, self.low)
            part = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        # Sums of the same numbers in another order must not differ in colour.
        return min(max(floor(part * STEPS + 1e-9), 0), STEPS - 1)


def scale_for(quantity: Quantity, values: Sequence[float]) -> Scale | None:
    """A scale for `values`; None if none is above zero. A few of them may lie beyond an end: its words say so."""
    positive = sorted(value for value in values if value > 0)
    return _SCALES[quantity](positive) if positive else None


_FENCE = 1.5
"""In spans of the middle half of the figures: what lies further from it is an outlier, as in a box plot."""


def _without_outliers(values: Sequence[float]) -> tuple[float, float]:
    """The smallest and the largest of the sorted `values` that are not decades away from all others."""
    logs = [log10(value) for value in values]
    first, third = logs[len(logs) // 4], logs[(3 * len(logs)) // 4]
    reach = _FENCE * max(third - first, 1.0)
    usual = [value for value, log in zip(values, logs, strict=True) if first - reach <= log <= third + reach]
    return usual[0], usual[-1]


def _gradient_scale(values: Sequence[float]) -> Scale:
    """Whole decades."""
    least, most = _without_outliers(values)
    high = ceil(log10(most) - 1e-9)
    low = min(floor(log10(least) + 1e-9), high - MIN_DECADES)
    low = max(low, high - _MAX_DECADES)
    up_to = "≤ " if 10.0**low > values[0] * 1.001 else ""
    from_on = "≥ " if 10.0**high < values[-1] / 1.001 else ""
    return Scale(10.0**low, 10.0**high, True, f"{up_to}{_power_words(low)}", f"{from_on}{_power_words(high)}")


def _power_words(exponent: int) -> str:
    return f"{10.0**exponent:g}" if abs(exponent) <= 3 else f"1e{exponent}"


def _memory_scale(values: Sequence[float]) -> Scale:
    """The largest figure counts, however far it is from all others: it is what one looks for."""
    most = values[-1]
    low = min(_without_outliers(values)[0], most / _MIN_FACTOR_OF_BYTES)
    up_to = "≤ " if low > values[0] else ""
    return Scale(low, most, True, up_to + byte_words(round(low)), byte_words(round(most)))


_USUAL = 0.9
"""The share of the measured times that is usual."""


def _time_scale(values: Sequence[float]) -> Scale:
    """Linear, from zero: an item with half of the time looks half as hot.

    The first call of an operation can take a hundred times as long as all later ones. Such times have the last colour,
    and the scale ends with the usual ones.
    """
    most, usual = values[-1], values[ceil(_USUAL * len(values)) - 1]
    if most > 2 * usual:
        return Scale(0.0, usual, False, "0", f"≥ {seconds_words(usual)}")
    return Scale(0.0, most, False, "0", seconds_words(most))


_SCALES: dict[Quantity, Callable[[Sequence[float]], Scale]] = {
    "gradient": _gradient_scale,
    "memory": _memory_scale,
    "time": _time_scale,
}
