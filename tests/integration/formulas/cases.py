"""The inputs on which each plain formula is compared with autograd: shapes, broadcasting, dimensions."""

from __future__ import annotations

from tests.integration.formulas import elementwise_cases, layout_cases, matrix_cases, other_cases
from tests.integration.formulas.drawn import Case

CASES: list[Case] = [
    *elementwise_cases.ARITHMETIC,
    *elementwise_cases.EXPONENTIALS,
    *elementwise_cases.TRIGONOMETRIC,
    *elementwise_cases.ACTIVATIONS,
    *elementwise_cases.CHOICES,
    *layout_cases.REDUCTIONS,
    *layout_cases.SHAPES,
    *layout_cases.INDEXING,
    *matrix_cases.LINEAR_ALGEBRA,
    *matrix_cases.NORMALISATIONS,
    *matrix_cases.IMAGES,
    *other_cases.LOSSES,
    *other_cases.ATTENTION,
    *other_cases.COMPLEX_NUMBERS,
    *other_cases.RANDOMNESS,
]
