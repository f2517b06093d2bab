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
    """A formula as complete lines: ``y = softmax(x)``, ``x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)``."""

    forward: str
    gradients: Mapping[str, str]
    """By the name of the input."""
    where: tuple[str, ...] = ()
    """Definitions of abbreviations in the lines: ``n = count(x)``."""
    where_of_gradients: tuple[str, ...] = ()
    """Those that the gradients need."""
    assumes: str = ""
    """The settings for which the lines hold, if no node is given: ``alpha = 1``."""
    symbols: Mapping[str, str] = {}
    """Symbols for torch's names: ``{"self": "x", "result": "y", "grad": "ȳ", "alpha": "α"}``."""


def reading(
    formula: PlainFormula,
    values: Mapping[str, str] | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    complex_numbers: bool = False,
) -> Reading:
    """The formula in mathematics.

    `values` replace names on the right of each ``=``: ``{"other": "3"}``. Parts that do not apply to `settings`, such
    as ``{"reduction": 1}``, are left out; without settings the usual ones are assumed, and the result says so. For
    complex numbers conjugates are written, which real numbers do not need.
    """
    if settings is None:
        found = _Reader(formula, values or {}, formula.usual, complex_numbers).reading()
        return msgspec.structs.replace(found, assumes=_assumed(formula))
    if values:
        return _Reader(formula, values, settings, complex_numbers).reading()
    return _in_letters(formula, settings, complex_numbers)


def _in_letters(formula: PlainFormula, settings: Mapping[str, object], complex_numbers: bool) -> Reading:
    """Kept, because most nodes of a graph have the same few operations and settings."""
    key = id(formula), repr(settings), complex_numbers
    if key not in _KNOWN:
        if len(_KNOWN) == _MAX_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = formula, _Reader(formula, {}, settings, complex_numbers).reading()
    return _KNOWN[key][1]


_MAX_KNOWN = 1_000
_KNOWN: dict[tuple[int, str, bool], tuple[PlainFormula, Reading]] = {}
"""With the formulas themselves, so that no other gets the same id."""


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
        # The expression computes the first result; a call returns all of them.
        results = self._formula.outputs[:1] if self._formula.forward else self._formula.outputs
        forward = self._line(", ".join(map(self._symbol, results)), self._forward)
        gradients = {name: self._line(barred(self._symbol(name)), each) for name, each in self._gradients.items()}
        return Reading(
            forward=forward,
            gradients=gradients,
            where=self._definitions_in(forward, *gradients.values()),
            where_of_gradients=self._definitions_in(*gradients.values()),
            symbols=dict(self._legend()),
        )

    def _line(self, symbol: str, expression: ast.expr) -> str:
        return f"{symbol} = {mathematics(expression, self._writing)}"

    def _symbol(self, name: str) -> str:
        return self._symbols.get(name, name)

    def _definitions_in(self, *lines: str) -> tuple[str, ...]:
        """Definitions of the abbreviations in the lines, in order: each follows those that it uses. Not everything in
        an expression is printed, for instance not the dimensions along which it sums."""
        definitions, text = [], " ; ".join(lines)
        for name, abbreviated in reversed(self._where.items()):
            symbol = self._symbol(name)
            if re.search(rf"(?<![A-Za-z0-9]){re.escape(symbol)}(?![A-Za-z0-9\u0302\u0304′])", text):
                definitions.append(self._line(symbol, abbreviated))
                text += f" ; {definitions[-1].partition(' = ')[2]}"
        return tuple(reversed(definitions))

    def _legend(self) -> Iterator[tuple[str, str]]:
        """Inputs and results first; then other names that have a symbol, in the order in which they appear."""
        for name in (*self._formula.gradients, *self._formula.outputs, "grad"):
            yield name, self._symbol(name)
        for expression in (self._forward, *self._where.values(), *self._gradients.values()):
            for name in names_in(expression):
                if name not in self._where and name != "grads" and self._symbol(name) != name:
                    yield name, self._symbol(name)
