"""From measured figures to the steps of a colour ramp, with words for the ends of the scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from gradviz.graph.number_words import byte_words
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
    """A scale that holds all of `values`; None if none is above zero."""
    positive = [value for value in values if value > 0]
    return _SCALES[quantity](min(positive), max(positive)) if positive else None


def _gradient_scale(least: float, most: float) -> Scale:
    """Whole decades."""
    high = ceil(log10(most) - 1e-9)
    low = min(floor(log10(least) + 1e-9), high - MIN_DECADES)
    low = max(low, high - _MAX_DECADES)
    up_to = "≤ " if 10.0**low > least * 1.001 else ""
    return Scale(10.0**low, 10.0**high, True, f"{up_to}{_power_words(low)}", _power_words(high))


def _power_words(exponent: int) -> str:
    return f"{10.0**exponent:g}" if abs(exponent) <= 3 else f"1e{exponent}"


def _memory_scale(least: float, most: float) -> Scale:
    low = min(least, most / _MIN_FACTOR_OF_BYTES)
    return Scale(low, most, True, byte_words(round(low)), byte_words(round(most)))


def _time_scale(_least: float, most: float) -> Scale:
    """Linear, from zero: an item with half of the time looks half as hot."""
    return Scale(0.0, most, False, "0", seconds_words(most))


_SCALES: dict[Quantity, Callable[[float, float], Scale]] = {
    "gradient": _gradient_scale,
    "memory": _memory_scale,
    "time": _time_scale,
}


def seconds_words(seconds: float) -> str:
    """``35 µs``, ``1.24 ms``, ``2.5 s``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
