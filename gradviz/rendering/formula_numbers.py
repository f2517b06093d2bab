"""Numbers in place of letters: the formulas of one node with what is known of its tensors put in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from gradviz.analysis.node_inputs import NamedTensor, have_complex_numbers
from gradviz.formulas.plain import PlainFormula, reading
from gradviz.graph.model import Attribute
from gradviz.rendering.value_words import number_words, short_nested_words

_WORD = re.compile(r"\w+")
_NEGATIVE = re.compile(r"-(?=\d|Inf)")
LONGEST_OPERAND = 24
"""Characters of a tensor that is written into a formula; of a longer one its letter stays."""


def setting_numbers(settings: Mapping[str, Attribute]) -> dict[str, str]:
    """The arguments of an operation that are plain numbers, by their names."""
    return {
        name: number_words(value)
        for name, value in settings.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def tensor_numbers(tensors: Sequence[NamedTensor]) -> dict[str, str]:
    """What can stand for each name: tensors of which every number is known and for which there is room."""
    words = {each.name: short_nested_words(each.figures, LONGEST_OPERAND) for each in tensors}
    return {name: text for name, text in words.items() if text}


def mathematics_with_numbers(
    plain: PlainFormula, settings: Mapping[str, Attribute], tensors: Sequence[NamedTensor]
) -> dict[str, str]:
    """By the name of the input its formula, where the numbers of some tensor stand in it: ``ā = 0.1 · 5``.

    Formulas of abbreviations are left out: numbers beside what stands for more tell nothing.

    Args:
        settings: the node's own, which decide what is left out of its formulas.
        tensors: what it was computed from, what it gave and what arrived.
    """
    numbers = tensor_numbers(tensors)
    if not numbers:
        return {}
    read = partial(reading, plain, settings=settings, complex_numbers=have_complex_numbers(tensors))
    scalars = setting_numbers(settings)
    letters = read(minus_signs(scalars)).gradients
    put_in = read(minus_signs(scalars | numbers)).gradients
    are_scalars = all(each.tensor is not None and not each.tensor.shape for each in tensors)
    return {
        # Of scalars element by element is plain multiplication.
        name: line.replace("∘", "·") if are_scalars else line
        for name, line in put_in.items()
        if line != letters[name] and plain.where.keys().isdisjoint(_WORD.findall(plain.gradients[name]))
    }


def minus_signs(words: Mapping[str, str]) -> dict[str, str]:
    """With the sign that mathematics has."""
    return {name: with_minus(text) for name, text in words.items()}


def with_minus(words: str) -> str:
    """``-0.5`` as ``−0.5``; other words keep their hyphens."""
    return _NEGATIVE.sub("−", words)
