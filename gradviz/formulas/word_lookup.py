"""Finds the nodes that a word means without a graph: ``mul``, ``F.linear``, ``torch.nn.GELU``.

A word can be, tried in this order, always with or without ``torch.``, ``F.``, ``Tensor.``, ``aten::`` in front:

====================  ==========================================================================
``MulBackward0``      torch's name for a node, in any case
``softmax``           a function made of others, or a class of ``torch.nn``: see `compositions`
``MulBackward``       all nodes of that name, and so does ``Mul``
``AccumulateGrad``    a node that torch wrote by hand
``mul``, ``mul_``     a function of torch's own derivatives
``_softmax``          the same, by the name under which it is dispatched
``eigh``              a function of ``torch.linalg``, ``torch.fft`` or ``torch.special``
====================  ==========================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Literal

from gradviz.formulas.available_formulas import KnownFormulas
from gradviz.formulas.compositions import Composition, compositions
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.plain import plain_formulas
from gradviz.formulas.special_nodes import SPECIAL_NODES, special_node, special_node_called
from gradviz.graph.query.operation_names import call_word, operation_word

Kind = Literal["node", "special", "composed", "function", "cut", "followed", "undifferentiable"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a word means."""

    word: str
    kind: Kind
    """``cut``: removes the history on purpose; ``followed``: made of other functions, unknown here which;
    ``undifferentiable``: never has a history."""
    nodes: tuple[str, ...] = ()
    """Names of nodes, the most likely first."""
    calls: tuple[Composition, ...] = ()


def meaning_of(word: str, known: KnownFormulas) -> Meaning | None:
    """What `word` means; None where it matches nothing."""
    names = _spellings(word)
    of_a_family = [f"{family}_{name}" for family in _FAMILIES for name in names]
    finders = (_by_node, _by_composition, _by_stem, _by_special_node, _by_function, _by_cut)
    tried = (*product(finders, names), *product(finders, of_a_family), *product((_by_words_of_torch,), names))
    return next(filter(None, (find(name, known) for find, name in tried)), None)


def known_words(known: KnownFormulas) -> list[str]:
    """All possible words, the most likely first."""
    derivatives = [each for each in known.by_node.values() if not _is_special_variant(each)]
    return list(
        dict.fromkeys(
            [
                *compositions(),
                *(each.function for each in derivatives),
                *(each.node for each in derivatives),
                *plain_formulas(),
                *(word for each in SPECIAL_NODES for word in (each.name, *each.words)),
                *CUTS,
                *known.table.undifferentiable,
                *known.table.composed,
            ]
        )
    )


CUTS = ("detach", "detach_", "data", "item", "tolist", "numpy", "no_grad", "inference_mode")
"""Calls that return numbers without history, which is their purpose."""

_NAMESPACE = re.compile(
    r"(torch::autograd::|aten::|at::|(torch\.)?ops\.aten\.|torch\.)?(nn\.functional\.|functional\.|F\.|nn\.(modules\.\w+\.)?"
    r"|_C\._nn\.|Tensor\.|tensor\.)?"
)
_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul", "**": "pow"}
_INNER_CAPITAL = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
_FAMILIES = ("linalg", "fft", "special")
_FAMILY = re.compile(rf"({'|'.join(_FAMILIES)})\.(\w+)")


def _spellings(word: str) -> list[str]:
    """Possible spellings in torch's own files: ``linalg_norm`` for ``torch.linalg.norm()``, ``add`` for ``__add__``."""
    bare = _NAMESPACE.sub("", word.strip().strip("'\"").removesuffix("()"), count=1)
    family = _FAMILY.fullmatch(bare)
    spellings = [f"{family[1]}_{family[2]}", family[2]] if family else [bare, bare.partition(".")[0]]
    # Classes of torch.nn are named after their functions: AlphaDropout, CosineEmbeddingLoss.
    spellings += [_OPERATORS.get(bare, call_word(bare)), _INNER_CAPITAL.sub("_", bare).lower()]
    return list(dict.fromkeys(each for spelling in spellings for each in (spelling, spelling.rstrip("_")) if each))


def _nodes(known: KnownFormulas) -> dict[str, None]:
    """Names of all nodes with a formula."""
    return dict.fromkeys((*known.by_node, *plain_formulas()))


def _by_node(name: str, known: KnownFormulas) -> Meaning | None:
    lowered = name.lower()
    nodes = _nodes(known)
    exact = tuple(node for node in nodes if node.lower() == lowered)
    return Meaning(name, "node", (*exact, *_siblings(exact[0], nodes))) if exact else None


def _by_stem(name: str, known: KnownFormulas) -> Meaning | None:
    if not name[:1].isupper():
        return None
    fits = re.compile(rf"{re.escape(name)}(Backward)?\d+", re.IGNORECASE).fullmatch
    found = tuple(filter(fits, _nodes(known)))
    return Meaning(name, "node", found) if found else None


def _siblings(node: str, nodes: dict[str, None]) -> tuple[str, ...]:
    """``MulBackward1`` beside ``MulBackward0``."""
    stem = node.rstrip("0123456789")
    return tuple(other for other in nodes if other != node and other.rstrip("0123456789") == stem)


def _by_special_node(name: str, known: KnownFormulas) -> Meaning | None:
    found = special_node(name) or special_node(f"{name}Backward") or special_node_called(name)
    return None if found is None else Meaning(name, "special", (found.name,))


def _by_composition(name: str, known: KnownFormulas) -> Meaning | None:
    calls = compositions().get(name)
    if calls is None:
        return None
    return Meaning(name, "composed", tuple(dict.fromkeys(node for call in calls for node in call.nodes)), calls)


def _by_function(name: str, known: KnownFormulas) -> Meaning | None:
    exact = [each for each in known.by_node.values() if each.function == name]
    if not exact:
        exact = [each for each in known.by_node.values() if each.function == f"_{name}"]
    usual = sorted(exact, key=_is_special_variant)
    if usual:
        return Meaning(name, "function", tuple(each.node for each in usual))
    alike = tuple(node for node in _nodes(known) if operation_word(node) == name)
    return Meaning(name, "function", alike) if alike else None


def _by_cut(name: str, known: KnownFormulas) -> Meaning | None:
    return Meaning(name, "cut") if name in CUTS else None


def _by_words_of_torch(name: str, known: KnownFormulas) -> Meaning | None:
    if name in known.table.undifferentiable:
        return Meaning(name, "undifferentiable")
    return Meaning(name, "followed") if name in known.table.composed else None


def _is_special_variant(derivative: Derivative) -> bool:
    """Whether it is for nested tensors or copies of views: the function's name alone does not mean it."""
    return "Autograd" in derivative.node or derivative.node.endswith("_copy")
