"""The equation of ``einsum``: the letters of each input, and those of the result.

>>> equation_of(Call("torch.functional.einsum", scalars={"0": "b i, b i -> b"}))
Equation(terms=('bi', 'bi'), result='b', has_arrow=True)
>>> equation_of(Call("torch.functional.einsum", scalars={"0": "ij,jk"})).has_arrow
False
"""

from __future__ import annotations

from msgspec import Struct

from gradviz.graph.call_log import Call


class Equation(Struct, frozen=True):
    """One of them, without spaces."""

    terms: tuple[str, ...]
    """The letters of each input."""
    result: str
    """Those of the result; "" where there is no arrow."""
    has_arrow: bool

    @property
    def has_dots(self) -> bool:
        """Whether ``...`` stands for further axes."""
        return any("." in each for each in (*self.terms, self.result))

    @property
    def is_plain(self) -> bool:
        """Whether it says all letters of all inputs and of the result."""
        return self.has_arrow and not self.has_dots


def equation_of(call: Call) -> Equation:
    """The equation of a call; one term without letters for calls that have none, as of ``einsum(x, [0, 1])``."""
    equation = call.scalars.get("0")
    given, arrow, result = (equation if isinstance(equation, str) else "").replace(" ", "").partition("->")
    return Equation(tuple(given.split(",")), result, bool(arrow))
