"""One gradient in words: its numbers if they are known and short, otherwise its shape and norm."""

from __future__ import annotations

from collections.abc import Iterable

from gradviz.graph.gradients import TensorFigures
from gradviz.rendering.words.common_words import shape_words_of
from gradviz.rendering.words.gradient_words import figures_words
from gradviz.rendering.words.value_words import number_words, short_nested_words

LONGEST_NUMBERS = 56
SHORT_NUMBERS = 18
"""Characters, in a sentence and in a word or two."""


def tensor_words(figures: TensorFigures | None, longest: int = LONGEST_NUMBERS) -> str:
    """``0.5``, ``[[1, 2], [3, 4]]``, ``[8, 64] of norm 0.03``; empty if it was not measured."""
    if figures is None:
        return ""
    if figures.is_undefined:
        return "none, which counts as zero"
    if figures.unmeasured is not None:
        return f"not measured: {figures.unmeasured}"
    numbers = _numbers(figures, longest)
    if numbers:
        return numbers
    shape = shape_words_of(figures.shape)
    if figures.is_zero:
        return f"{shape}, all zero"
    broken = [f"{count:,} {word}" for count, word in ((figures.nans, "NaN"), (figures.infs, "Inf")) if count]
    norm = [] if figures.norm is None else [f"norm {figures.norm:.3g}"]
    return f"{shape} of {', '.join([*broken, *norm])}" if broken or norm else shape


def _numbers(figures: TensorFigures, longest: int) -> str:
    """Every number, if they are known and short; a single element is always known from its minimum."""
    if figures.count == 1 and figures.values is None and figures.minimum is not None:
        return number_words(figures.minimum)
    return short_nested_words(figures, longest)


def short_words(gradients: Iterable[TensorFigures | None]) -> str:
    """Several gradients in a word or two: their numbers if they are few, otherwise the norm of all."""
    known = [each for each in gradients if each is not None]
    numbers = [_numbers(each, SHORT_NUMBERS) for each in known]
    if numbers and all(numbers):
        return ", ".join(numbers)
    words = figures_words(known)
    return f"norm {words}" if words[:1].isdigit() and words != "0" else words
