"""The numbers of a small tensor, as ``--values`` records them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from gradviz.graph.gradients import TensorFigures
from gradviz.rendering.words.gradient_words import LinkBranch, arrived_by_repetition
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.model import Item

MAX_NUMBERS = 4


def value_words(figures: TensorFigures | None, most: int = MAX_NUMBERS) -> str:
    """``6``, ``[1, -0.27]``, ``[1, 2, 3, 4, …]``; empty if the numbers are not known."""
    if figures is None or figures.values is None:
        return ""
    if not figures.shape:
        return number_words(figures.values[0])
    return f"[{', '.join(_first(figures.values, most))}]"


def nested_words(figures: TensorFigures | None, most: int, *, row_end: str = ", ") -> str:
    """Every number, in brackets nested as torch does: ``[[1, 2], [3, 4]]``; empty for more than `most` or unknown ones.

    `row_end` is written between the innermost rows.
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
    """The same if it has at most `longest` characters; else empty."""
    words = nested_words(figures, longest)
    return words if len(words) <= longest else ""


def number_words(value: float) -> str:
    """Three digits; ``NaN``, ``Inf`` and ``-Inf``."""
    if isfinite(value):
        return f"{value:.3g}"
    return "NaN" if value != value else "Inf" if value > 0 else "-Inf"


def _first(values: Sequence[float], most: int) -> list[str]:
    shown = [number_words(value) for value in values[:most]]
    return shown if len(values) <= most else [*shown, "…"]


# Numbers on the picture itself: values forward, gradients back.

MAX_OUTPUTS = 3
DOWN, UP = "↓", "↑"
BETWEEN = "  "
"""Values flow down a picture, gradients up."""


def item_numbers(facts: SubjectFacts, item: Item) -> str:
    """``↓ 10  ↑ 0.1``: the value of an operation, a leaf or a root, and the gradient that arrived for it.

    Each keeps its arrow, and painters may write them on two lines.
    """
    graph = facts.graph
    if item.constant is not None:
        return _together([graph.constants[item.constant].value], ())
    if item.root is not None:
        root = graph.roots[item.root]
        return _together(graph.nodes[root.node].values[root.output_nr : root.output_nr + 1], [root.gradient])
    repetitions = arrived_by_repetition(facts, item)
    if item.node is None or len(repetitions) != 1:
        return ""
    node = graph.nodes[item.node]
    return _together(node.values[:MAX_OUTPUTS], node.arrived[:MAX_OUTPUTS])


def link_numbers(value: TensorFigures | None, branches: Sequence[LinkBranch], *, is_needed: bool) -> str:
    """The same for a link if its ends do not show it: it is one of several outputs, or its gradient is one of several
    that are summed."""
    is_summed = any(branch.share is not None for branch in branches)
    if not (is_needed or is_summed):
        return ""
    back = [branch.gradient for branch in branches] if len(branches) == 1 else []
    return _together([value] if is_needed else (), back)


def _together(values: Sequence[TensorFigures | None], gradients: Sequence[TensorFigures | None]) -> str:
    down, up = (", ".join(filter(None, map(value_words, each))) for each in (values, gradients))
    return BETWEEN.join([*([f"{DOWN} {down}"] if down else []), *([f"{UP} {up}"] if up else [])])
