"""The evidence of a finding in words: the figures of one tensor together, and counts with what they count.

>>> evidence_words({"backward": 1, "operand_0_minimum": 0.0, "operand_0_maximum": 8.0, "operand_0_zeros": 1})
'backward 1; first operand from 0 to 8 (1 of them 0)'
>>> evidence_words({"cut": "torch.Tensor.detach", "times": 4, "certainty": "certain"})
'cut by torch.Tensor.detach; 4 times; certain'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gradviz.graph.model import Attribute
from gradviz.graph.number_words import byte_words, counted

_FIGURE = re.compile(r"(operand_(?P<position>\w+)|result)_(?P<figure>minimum|maximum|zeros|nans|infs)")
_ORDINALS = {"0": "first ", "1": "second ", "2": "third "}
_SPECIAL = {"zeros": "0", "nans": "NaN", "infs": "Inf"}
_CERTAINTY = {
    "by value": "the same values came back",
    "by order": "by the order of the calls",
    "by a number": "through a number",
}


def evidence_words(evidence: Mapping[str, Attribute]) -> str:
    """The evidence in words, in its order; counts of zero are left out."""
    figures: dict[str, dict[str, Attribute]] = {}
    for name, value in evidence.items():
        found = _FIGURE.fullmatch(name)
        if found is None:
            figures[name] = {"": value}
        else:
            figures.setdefault(_owner(found["position"]), {})[found["figure"]] = value
    phrases = (_single(name, own[""]) if "" in own else _of_values(name, own) for name, own in figures.items())
    return "; ".join(words for words in phrases if words)


def _owner(position: str | None) -> str:
    if position is None:
        return "result"
    return f"{_ORDINALS[position]}operand" if position in _ORDINALS else f"operand {position}"


def _of_values(owner: str, figures: Mapping[str, Attribute]) -> str:
    """``first operand from 0 to 8 (1 of them 0)``."""
    special = [f"{_value(figures[figure])} of them {what}" for figure, what in _SPECIAL.items() if figure in figures]
    if "minimum" in figures:
        owner += f" from {_value(figures['minimum'])} to {_value(figures['maximum'])}"
    return f"{owner} ({', '.join(special)})" if special else owner


def _single(name: str, value: Attribute) -> str:
    phrase = _PHRASES.get(name)
    return phrase(value) if phrase is not None else f"{name.replace('_', ' ')} {_value(value)}"


def _value(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)


def _count_of(what: str) -> Callable[[Attribute], str]:
    return lambda count: counted(count, what) if isinstance(count, int) else f"{what}s {count}"


def _bytes(what: str) -> Callable[[Attribute], str]:
    return lambda size: f"{what} {byte_words(size)}" if isinstance(size, int) else f"{what} {_value(size)}"


def _if_any(words: str, of_one: str = "") -> Callable[[Attribute], str]:
    return lambda count: (of_one if of_one and count == 1 else words.format(_value(count))) if count else ""


_PHRASES: dict[str, Callable[[Attribute], str]] = {
    "cut": "cut by {}".format,
    "times": lambda count: "once" if count == 1 else f"{_value(count)} times",
    "certainty": lambda words: _CERTAINTY.get(str(words), str(words)),
    "gradient_zeros_in": _if_any("{} zeros in the gradient that arrived", "1 zero in the gradient that arrived"),
    "gradient_nans_out": _if_any("{} NaN in what it sent on"),
    "gradient_infs_out": _if_any("{} Inf in what it sent on"),
    "saved_version": "saved at version {}".format,
    "version": "version {} when backward came".format,
    "parameters": _count_of("parameter"),
    "changes": _count_of("change"),
    "saved_bytes": _bytes("saved"),
    "limit_bytes": _bytes("limit"),
    "bytes": _bytes("size"),
}
