"""Whether a backward formula can itself be differentiated, judged by the functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from gradviz.formulas.derivative import SecondDerivative

_CALL = re.compile(r"\b([a-z_]\w*)\s*\(")
_DIFFERENTIABLE_VARIANT = "infinitely_differentiable_"


def differentiable_twice(
    formulas: Sequence[str], having: Collection[str], lacking: Collection[str]
) -> SecondDerivative:
    """Judge by the functions that have a derivative of their own, and those that lack one.

    Every other name in a formula is a helper of torch in C++, made of differentiable operations.
    """
    missing = dict.fromkeys(name for formula in formulas for name in _without_derivative(formula, lacking))
    if missing:
        return SecondDerivative(False, tuple(missing))
    return SecondDerivative(True, tuple(name for name in _functions(" ".join(formulas)) if name in having))


def _without_derivative(formula: str, lacking: Collection[str]) -> list[str]:
    """Functions in the formula without a derivative; none if it has a slower, differentiable variant."""
    return [] if _DIFFERENTIABLE_VARIANT in formula else [name for name in _functions(formula) if name in lacking]


def _functions(formula: str) -> list[str]:
    return list(dict.fromkeys(name.removesuffix("_symint") for name in _CALL.findall(formula)))
