"""The explanation of one kind of node, as data: the output of ``gradviz explain``."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.explain.custom_explanation import CustomExplanation
from gradviz.analysis.numbers.node_numbers import NodeNumbers
from gradviz.formulas.available_formulas import KnownFormulas
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.glossary import Term, terms_in
from gradviz.formulas.plain import Reading, Trap, plain_formula, reading
from gradviz.formulas.special_nodes import SpecialNode, special_node
from gradviz.formulas.word_lookup import Meaning

_MAX_OTHERS = 12


class OtherNode(Struct, frozen=True, omit_defaults=True):
    """Another node that the same word can mean."""

    node: str
    what: str = ""
    """Its function, or what it does."""


class Explanation(Struct, frozen=True, omit_defaults=True):
    """The explanation of one node name. Unknown parts are left out, and named in `disclosures`."""

    word: str
    """The word that the user asked for."""
    node: str
    """``MulBackward0``; empty for a function that has none."""
    sentence: str = ""
    calls: tuple[str, ...] = ()
    """Calls that make the node: ``F.linear(x, weight, bias): AddmmBackward0``."""
    torch_version: str = ""
    """The version of the formulas."""
    plain: Reading | None = None
    """The formula in mathematics."""
    note: str = ""
    """A common error in articles, or what the mathematics leaves out."""
    derivative: Derivative | None = None
    """Torch's own formula."""
    special: SpecialNode | None = None
    """For nodes whose code torch does not generate."""
    terms: tuple[Term, ...] = ()
    """Terms used in torch's formulas."""
    traps: tuple[Trap, ...] = ()
    others: tuple[OtherNode, ...] = ()
    others_left_out: int = 0
    numbers: NodeNumbers | None = None
    """For a node of a capture."""
    custom: CustomExplanation | None = None
    """For a function of the program."""
    disclosures: tuple[str, ...] = ()


def explain(meaning: Meaning, known: KnownFormulas) -> Explanation:
    """The explanation of what a word means."""
    node = meaning.nodes[0] if meaning.nodes else ""
    page = explain_node(node, known) if node else Explanation("", "", _WITHOUT_NODE[meaning.kind].format(meaning.word))
    others = tuple(OtherNode(other, _what(other, known)) for other in meaning.nodes[1 : _MAX_OTHERS + 1])
    calls = tuple(f"{call.call}: {', '.join(call.nodes)}" for call in meaning.calls)
    left_out = max(0, len(meaning.nodes) - 1 - _MAX_OTHERS)
    return replace(page, word=meaning.word, calls=calls, others=others, others_left_out=left_out)


def explain_node(node_name: str, known: KnownFormulas, disclosures: tuple[str, ...] = ()) -> Explanation:
    """The explanation of ``grad_fn.name()``; for an unknown name it says so."""
    derivative, special, plain = known.by_node.get(node_name), special_node(node_name), plain_formula(node_name)
    known_sentence = plain.sentence if plain else special.sentence if special else ""
    sentence = known_sentence or (f"The backward of {derivative.function}()." if derivative else "")
    if derivative is None and special is None and not known.disclosures:
        disclosures = (*disclosures, f"torch {known.table.torch_version} has no formula for {node_name} in its files")
    return Explanation(
        word=node_name,
        node=node_name,
        sentence=sentence,
        torch_version=known.table.torch_version if derivative else "",
        plain=reading(plain) if plain else None,
        note=plain.note if plain else "",
        derivative=derivative,
        special=special,
        terms=terms_in(derivative.formulas) if derivative else (),
        traps=plain.traps if plain else tuple(Trap(each, "", "") for each in special.traps) if special else (),
        disclosures=(*disclosures, *known.disclosures),
    )


_WITHOUT_NODE = {
    "cut": "{} returns numbers without their history, on purpose: no gradient goes back this way, whatever they were "
    "computed from. 'gradviz check SCRIPT' finds where that was not meant.",
    "undifferentiable": "torch has no derivative for {}: if it returns integers or booleans, the result has no "
    "history, and gradients end there without an error; otherwise backward raises.",
    "followed": "torch has no backward for {} itself: autograd records the operations that it consists of. "
    "'gradviz tree SCRIPT' shows them.",
}


def _what(node_name: str, known: KnownFormulas) -> str:
    derivative, plain = known.by_node.get(node_name), plain_formula(node_name)
    return derivative.schema if derivative else plain.call if plain else ""
