"""All plain formulas: one module for each family of operations, in the order in which they are learnt."""

from __future__ import annotations

from gradviz.formulas.plain.families.activations import ACTIVATIONS
from gradviz.formulas.plain.families.arithmetic import ARITHMETIC
from gradviz.formulas.plain.families.choices import CHOICES
from gradviz.formulas.plain.families.exponentials import EXPONENTIALS
from gradviz.formulas.plain.families.linear_algebra import LINEAR_ALGEBRA
from gradviz.formulas.plain.families.trigonometric import TRIGONOMETRIC
from gradviz.formulas.plain.plain_formula import PlainFormula

FAMILIES: tuple[tuple[PlainFormula, ...], ...] = (
    ARITHMETIC,
    EXPONENTIALS,
    TRIGONOMETRIC,
    ACTIVATIONS,
    CHOICES,
    LINEAR_ALGEBRA,
)
