"""A plain formula as lines of mathematics, for terminals, pages and pictures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from gradviz.formulas.plain.expressions import decided, names_in
from gradviz.formulas.plain.mathematics import Writing, is_tensor, mathematics
from gradviz.formulas.plain.notation import TENSORS, barred, symbols_of
from gradviz.formulas.plain.plain_formula import PlainFormula


class Reading(Struct, frozen=True, omit_defaults=True):
    """What a formula says, each line whole: ``y = softmax(x)``, ``x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)``."""

    forward: str
    gradients: Mapping[str, str]
    """By the name of the input."""
    where: tuple[str, ...] = ()
    """What the lines abbreviate: ``n = count(x)``."""
    where_of_gradients: tuple[str, ...] = ()
    """Of these what the gradients need."""
    assumes: str = ""
    """For which settings the lines are, where nothing is known of a node: ``alpha = 1``."""
    symbols: Mapping[str, str] = {}
    """How names of torch are written: ``{"self": "x", "result": "y", "grad": "ȳ", "alpha": "α"}``."""


def reading(
    formula: PlainFormula,
    values: Mapping[str, str] | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    complex_numbers: bool = False,
) -> Reading:
    """The formula in mathematics.

    `values` are written in place of the names that it holds, on the right of each ``=``: ``{"other": "3"}``. What does
    not hold for `settings`, as ``{"reduction": 1}``, is left out; without them the usual ones are assumed, and the
    reading says so. Of complex numbers, conjugates are written out, which real ones do not need.
    """
    told = _Reader(formula, values or {}, formula.usual if settings is None else settings, complex_numbers).reading()
    return told if settings is not None else msgspec.structs.replace(told, assumes=_assumed(formula))


def _assumed(formula: PlainFormula) -> str:
    words = {True: "yes", False: "no", None: "none"}
    return ", ".join(
        f"{name} = {words[value] if isinstance(value, (bool, type(None))) else value}"
        for name, value in formula.usual.items()
    )


class _Reader:
    def __init__(
        self,
        formula: PlainFormula,
        values: Mapping[str, str],
        settings: Mapping[str, object],
        complex_numbers: bool,
    ) -> None:
        self._formula = formula
        self._forward = decided(formula.forward or formula.call, settings)
        self._gradients = {name: decided(each, settings) for name, each in formula.gradients.items()}
        self._where = {name: decided(each, settings) for name, each in formula.where.items()}
        self._symbols = symbols_of(formula)
        tensors = {*formula.gradients, *formula.outputs, *TENSORS}
        for name, abbreviated in self._where.items():
            if is_tensor(abbreviated, tensors):
                tensors.add(name)
        self._writing = Writing(self._symbols, tensors, values, complex_numbers or formula.always_complex)

    def reading(self) -> Reading:
        # What is written out is the first result; a call gives all of them.
        results = self._formula.outputs[:1] if self._formula.forward else self._formula.outputs
        forward = self._line(", ".join(map(self._symbol, results)), self._forward)
        gradients = {name: self._line(barred(self._symbol(name)), each) for name, each in self._gradients.items()}
        return Reading(
            forward=forward,
            gradients=gradients,
            where=self._met_in(forward, *gradients.values()),
            where_of_gradients=self._met_in(*gradients.values()),
            symbols=dict(self._legend()),
        )

    def _line(self, symbol: str, expression: ast.expr) -> str:
        return f"{symbol} = {mathematics(expression, self._writing)}"

    def _symbol(self, name: str) -> str:
        return self._symbols.get(name, name)

    def _met_in(self, *lines: str) -> tuple[str, ...]:
        """What the lines abbreviate, in order; each stands behind those that it is made of. Not all that an expression
        uses is printed: along which dimensions it sums, for one."""
        met, text = [], " ; ".join(lines)
        for name, abbreviated in reversed(self._where.items()):
            symbol = self._symbol(name)
            if re.search(rf"(?<![A-Za-z0-9]){re.escape(symbol)}(?![A-Za-z0-9\u0302\u0304′])", text):
                met.append(self._line(symbol, abbreviated))
                text += f" ; {met[-1].partition(' = ')[2]}"
        return tuple(reversed(met))

    def _legend(self) -> Iterator[tuple[str, str]]:
        """Inputs and results first; then what else is not written by its own name, in the order in which it is met."""
        for name in (*self._formula.gradients, *self._formula.outputs, "grad"):
            yield name, self._symbol(name)
        for expression in (self._forward, *self._where.values(), *self._gradients.values()):
            for name in names_in(expression):
                if name not in self._where and name != "grads" and self._symbol(name) != name:
                    yield name, self._symbol(name)
