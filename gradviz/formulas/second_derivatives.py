"""Whether a backward formula can itself be differentiated, told from the functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from gradviz.formulas.derivative import SecondDerivative

_CALL = re.compile(r"\b([a-z_]\w*)\s*\(")
_SPECIAL_WAY = "infinitely_differentiable_"


def differentiable_twice(
    formulas: Sequence[str], having: Collection[str], lacking: Collection[str]
) -> SecondDerivative:
    """From the functions that have a derivative of their own, and those that lack one.

    Every other name in a formula is a helper of torch in C++, written in differentiable operations.
    """
    stuck = dict.fromkeys(name for formula in formulas for name in _stuck_at(formula, lacking))
    if stuck:
        return SecondDerivative(False, tuple(stuck))
    return SecondDerivative(True, tuple(name for name in _functions(" ".join(formulas)) if name in having))


def _stuck_at(formula: str, lacking: Collection[str]) -> list[str]:
    """Many choose a slower way of differentiable operations where the graph of the backward is wanted."""
    return [] if _SPECIAL_WAY in formula else [name for name in _functions(formula) if name in lacking]


def _functions(formula: str) -> list[str]:
    return list(dict.fromkeys(name.removesuffix("_symint") for name in _CALL.findall(formula)))
