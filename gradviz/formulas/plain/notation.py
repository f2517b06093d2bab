"""Symbols for names in mathematics, and one sentence for each sign that needs one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

from gradviz.formulas.plain.plain_formula import PlainFormula


class Sign(NamedTuple):
    """A sign that needs a sentence."""

    sign: str
    meaning: str
    pattern: str | None = None
    """Finds formulas that use it, if the sign itself does not."""


_SIGNS = (
    Sign("x̄", "the gradient of the loss with respect to x; ȳ is what arrives, x̄ what is sent on", ""),
    Sign("∘", "multiplied element by element; a · b with a number, A B the product of matrices"),
    Sign("Σ", "the sum along the dimensions that the operation reduces (Σ_d: along d); ⟨a, b⟩ = Σ a ∘ b"),
    Sign("[a > b]", "1 where it holds, 0 elsewhere", r"\[[^\]]*[<>=≤≥≠]"),
    Sign(
        "1, 0",
        "in place of a tensor: ones or zeros in the shape of the input",
        r"∘ 1\b|\b0 (with|where)|, else 0\b",
    ),
    Sign("Aᵀ", "the last two dimensions exchanged", "ᵀ"),
    Sign("Aᴴ", "the same, conjugated", "ᴴ"),
    Sign("ā", "of an input that was broadcast: summed to its shape, which the formulas do not repeat"),
)
"""In the order in which they are explained."""


def signs_in(formulas: str) -> list[Sign]:
    """The signs that are used in some lines of mathematics."""
    return [
        each
        for each in _SIGNS
        if re.search(re.escape(each.sign) if each.pattern is None else each.pattern, formulas) is not None
    ]


SYMBOLS: Mapping[str, str] = {
    "self": "x",
    "input": "x",
    "other": "b",
    "weight": "W",
    "bias": "b",
    "mat1": "A",
    "mat2": "B",
    "vec": "v",
    "target": "t",
    "query": "Q",
    "key": "K",
    "value": "V",
    "src": "s",
    "source": "s",
    "tensors": "x",
    "result": "y",
    "result0": "y",
    "output": "y",
    "values": "y",
    "indices": "i",
    "index": "i",
    "alpha": "α",
    "beta": "β",
    "eps": "ε",
    "exponent": "p",
    "lambd": "λ",
    "negative_slope": "α",
    "condition": "c",
}

TENSORS = frozenset({"condition", "index", "indices", "mask", "target", "grad", "grads"})
"""Names of tensors that get no gradient; other names outside a formula's inputs and results are numbers."""


def barred(symbol: str) -> str:
    """``x̄`` for ``x``: a macron over its first letter, as one composed character if there is one."""
    return unicodedata.normalize("NFC", symbol[:1] + "\N{COMBINING MACRON}" + symbol[1:])


def symbols_of(formula: PlainFormula) -> dict[str, str]:
    """Symbols for the names that an expression of this formula may use; other names are written as they are."""
    symbols = {**SYMBOLS, **formula.symbols}
    of_results = [barred(symbols.get(name, name)) for name in formula.outputs]
    symbols.setdefault("grad", of_results[0])
    symbols.update((f"grads[{index}]", symbol) for index, symbol in enumerate(of_results))
    return symbols
