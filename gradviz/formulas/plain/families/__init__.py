"""All plain formulas: one module for each family of operations, in the order in which people learn them."""

from __future__ import annotations

from gradviz.formulas.plain.families.activations import ACTIVATIONS
from gradviz.formulas.plain.families.arithmetic import ARITHMETIC
from gradviz.formulas.plain.families.attention import ATTENTION
from gradviz.formulas.plain.families.choices import CHOICES
from gradviz.formulas.plain.families.complex_numbers import COMPLEX_NUMBERS
from gradviz.formulas.plain.families.decompositions import DECOMPOSITIONS
from gradviz.formulas.plain.families.exponentials import EXPONENTIALS
from gradviz.formulas.plain.families.extremes import EXTREMES
from gradviz.formulas.plain.families.images import IMAGES
from gradviz.formulas.plain.families.indexing import INDEXING
from gradviz.formulas.plain.families.joining_and_splitting import PIECES
from gradviz.formulas.plain.families.linear_algebra import LINEAR_ALGEBRA
from gradviz.formulas.plain.families.losses import LOSSES
from gradviz.formulas.plain.families.normalisations import NORMALISATIONS
from gradviz.formulas.plain.families.randomness import RANDOMNESS
from gradviz.formulas.plain.families.reductions import REDUCTIONS
from gradviz.formulas.plain.families.rounding import ROUNDING
from gradviz.formulas.plain.families.shapes import SHAPES
from gradviz.formulas.plain.families.trigonometric import TRIGONOMETRIC
from gradviz.formulas.plain.plain_formula import PlainFormula

FAMILIES: tuple[tuple[PlainFormula, ...], ...] = (
    ARITHMETIC,
    EXPONENTIALS,
    TRIGONOMETRIC,
    ACTIVATIONS,
    CHOICES,
    ROUNDING,
    REDUCTIONS,
    EXTREMES,
    SHAPES,
    PIECES,
    INDEXING,
    LINEAR_ALGEBRA,
    DECOMPOSITIONS,
    NORMALISATIONS,
    IMAGES,
    LOSSES,
    ATTENTION,
    COMPLEX_NUMBERS,
    RANDOMNESS,
)
