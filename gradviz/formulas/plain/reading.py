"""A plain formula as lines of mathematics, for terminals, pages and pictures."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from msgspec import Struct

from gradviz.formulas.plain.mathematics import is_tensor, mathematics, parsed
from gradviz.formulas.plain.notation import TENSORS, barred, symbols_of
from gradviz.formulas.plain.plain_formula import PlainFormula


class Reading(Struct, frozen=True, omit_defaults=True):
    """What a formula says, each line whole: ``y = softmax(x)``, ``x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)``."""

    forward: str
    gradients: Mapping[str, str]
    """By the name of the input."""
    where: tuple[str, ...] = ()
    """What the lines abbreviate: ``n = numel(x)``."""
    symbols: Mapping[str, str] = {}
    """How names of torch are written: ``{"self": "x", "result": "y", "grad": "ȳ", "alpha": "α"}``."""


def reading(
    formula: PlainFormula, values: Mapping[str, str] | None = None, *, complex_numbers: bool = False
) -> Reading:
    """The formula in mathematics.

    `values` are written in place of the names that it holds, on the right of each ``=``: ``{"other": "3"}``. Of
    complex numbers, conjugates are written out, which real ones do not need.
    """
    complex_numbers = complex_numbers or formula.always_complex
    symbols = symbols_of(formula)
    tensors = {*formula.gradients, *formula.outputs, *TENSORS}
    shown = {**symbols, **(values or {})}
    where = []
    for name, expression in formula.where.items():
        where.append(f"{symbols.get(name, name)} = {mathematics(expression, shown, tensors, complex_numbers)}")
        if is_tensor(expression, tensors):
            tensors.add(name)
    # What is written out is the first result; a call gives all of them.
    given = formula.outputs[:1] if formula.forward else formula.outputs
    result = ", ".join(symbols.get(name, name) for name in given)
    return Reading(
        forward=f"{result} = {mathematics(formula.forward or formula.call, shown, tensors, complex_numbers)}",
        gradients={
            name: f"{barred(symbols.get(name, name))} = {mathematics(expression, shown, tensors, complex_numbers)}"
            for name, expression in formula.gradients.items()
        },
        where=tuple(where),
        symbols=_legend(formula, symbols),
    )


def _legend(formula: PlainFormula, symbols: Mapping[str, str]) -> dict[str, str]:
    """Inputs and results first; then what else is not written by its own name, in the order in which it is met."""
    expressions = (formula.forward or formula.call, *formula.where.values(), *formula.gradients.values())
    met = (node.id for text in expressions for node in ast.walk(parsed(text)) if isinstance(node, ast.Name))
    others = [name for name in met if name not in formula.where and symbols.get(name, name) != name and name != "grads"]
    return {name: symbols.get(name, name) for name in (*formula.gradients, *formula.outputs, "grad", *others)}
