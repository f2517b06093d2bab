"""Whether a backward formula can itself be differentiated, judged by the functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from gradviz.formulas.derivative import SecondDerivative

_CALL = re.compile(r"\b([a-z_]\w*)\s*\(")
_CHOICE = re.compile(r"GradMode::is_enabled\(\)[^?]*\?")
_SIGN = re.compile(r"::|[():?]")


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
    """Functions in the formula without a derivative, of those that run if a graph of the backward is wanted."""
    return [name for name in _functions(where_a_graph_is_wanted(formula)) if name in lacking]


def where_a_graph_is_wanted(formula: str) -> str:
    """What is left of a formula that uses slower, differentiable operations if the graph of the backward is needed.

    >>> where_a_graph_is_wanted("GradMode::is_enabled() ? slow::er(grad, self ? 1 : 2) : fast(grad)")
    ' slow::er(grad, self ? 1 : 2) '
    """
    choice = _CHOICE.search(formula)
    if choice is None:
        return formula
    otherwise, end = _rest_of_choice(formula, choice.end())
    return formula[: choice.start()] + formula[choice.end() : otherwise] + formula[end:]


def _rest_of_choice(formula: str, start: int) -> tuple[int, int]:
    """Where the ``:`` is that belongs to the ``?`` before `start`, and where what it leads to ends."""
    depth = waiting = 0
    otherwise = len(formula)
    for sign in _SIGN.finditer(formula, start):
        depth += (sign[0] == "(") - (sign[0] == ")")
        if depth < 0:
            return otherwise, sign.start()
        if depth == 0 and sign[0] in "?:":
            if sign[0] == ":" and waiting == 0:
                otherwise = min(otherwise, sign.start())
            waiting += 1 if sign[0] == "?" else -1
    return otherwise, len(formula)


def _functions(formula: str) -> list[str]:
    return list(dict.fromkeys(name.removesuffix("_symint") for name in _CALL.findall(formula)))
