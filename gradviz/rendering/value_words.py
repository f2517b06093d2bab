"""Numbers of a small tensor in a few words, as ``--values`` keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from gradviz.graph.gradients import TensorFigures

MOST_NUMBERS = 4


def value_words(figures: TensorFigures | None, most: int = MOST_NUMBERS) -> str:
    """``6``, ``[1, -0.27]``, ``[1, 2, 3, 4, …]``; empty where the numbers are not known."""
    if figures is None or figures.values is None:
        return ""
    if not figures.shape:
        return number_words(figures.values[0])
    return f"[{', '.join(_first(figures.values, most))}]"


def nested_words(figures: TensorFigures | None, most: int, *, row_end: str = ", ") -> str:
    """Every number, in brackets as torch nests them: ``[[1, 2], [3, 4]]``; empty for more than `most`, or unknown ones.

    `row_end` stands between the innermost rows.
    """
    if figures is None or figures.values is None or len(figures.values) > most:
        return ""
    parts = [number_words(value) for value in figures.values]
    for level, size in enumerate(reversed(figures.shape)):
        between = ", " if level == 0 else row_end
        length = int(size) or 1
        parts = [f"[{between.join(parts[start : start + length])}]" for start in range(0, len(parts), length)]
    return parts[0] if parts else "[]"


def short_nested_words(figures: TensorFigures | None, longest: int) -> str:
    """The same where it takes no more than `longest` characters; else empty."""
    words = nested_words(figures, longest)
    return words if len(words) <= longest else ""


def number_words(value: float) -> str:
    """Three digits; ``NaN``, ``Inf`` and ``-Inf`` as such."""
    if isfinite(value):
        return f"{value:.3g}"
    return "NaN" if value != value else "Inf" if value > 0 else "-Inf"


def _first(values: Sequence[float], most: int) -> list[str]:
    shown = [number_words(value) for value in values[:most]]
    return shown if len(values) <= most else [*shown, "…"]
