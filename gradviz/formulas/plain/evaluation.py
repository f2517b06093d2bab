"""Evaluates expressions, given torch and the values of their names. This module does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import CodeType, ModuleType
from typing import Any

from gradviz.formulas.plain.expression_functions import EXPRESSION_FUNCTIONS
from gradviz.formulas.plain.plain_formula import PlainFormula


def gradients(formula: PlainFormula, torch: ModuleType, values: Mapping[str, Any]) -> dict[str, Any]:
    """The gradient of each input that `values` holds, as the engine passes it on.

    `values` are the operation's inputs, attributes, results, ``grad`` and ``grads``, by their names in the formula.
    """
    names = _with_abbreviations(formula.where, torch, values)
    return {
        name: as_the_engine_hands_it_on(_value(expression, names), values[name])
        for name, expression in formula.gradients.items()
        if values.get(name) is not None
    }


def forward(formula: PlainFormula, torch: ModuleType, values: Mapping[str, Any]) -> Any:
    """The result of the operation. `values` needs the names in its expression and in the abbreviations."""
    return _value(formula.forward or formula.call, _with_abbreviations(formula.where, torch, values))


def as_the_engine_hands_it_on(gradient: Any, given: Any) -> Any:
    """The gradient, summed to the shape of the input, and real for a real input; also for a list of inputs."""
    if isinstance(given, (list, tuple)):
        return tuple(as_the_engine_hands_it_on(part, into) for part, into in zip(gradient, given, strict=True))
    summed = gradient.sum_to_size(given.shape)
    return summed.real if summed.is_complex() and not given.is_complex() else summed


def _with_abbreviations(where: Mapping[str, str], torch: ModuleType, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {"torch": torch, **EXPRESSION_FUNCTIONS, **values}
    for name, expression in where.items():
        names[name] = _value(expression, names)
    return names


def _value(expression: str, names: dict[str, Any]) -> Any:
    return eval(_compiled(expression), names)


@cache
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<plain formula>", "eval")
