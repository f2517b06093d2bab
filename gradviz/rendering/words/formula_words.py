"""The formulas of one node, with the numbers that a capture holds put in: in plain mathematics, or else torch's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gradviz.analysis.numbers.node_inputs import NamedTensor, have_complex_numbers, names_of_edges, node_inputs
from gradviz.analysis.numbers.node_results import arrived_gradients, node_results
from gradviz.formulas import known
from gradviz.formulas.arguments import edge_names
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.plain import PlainFormula, Reading, plain_formula, reading
from gradviz.formulas.special_nodes import special_node
from gradviz.graph.model import Attribute, Graph, Node
from gradviz.graph.query.operation_names import NAMELESS
from gradviz.rendering.words.value_words import number_words, short_nested_words


@dataclass(frozen=True, slots=True)
class NodeFormulas:
    """What a node computes of the gradient that arrives."""

    lines: tuple[str, ...] = ()
    """In letters: ``ā = ȳ ∘ b``, and what they abbreviate."""
    with_numbers: Mapping[int, str] = field(default_factory=dict)
    """By the place of the edge: ``ā = 0.1 ∘ 5``; only where some number is known."""
    arriving: str = ""
    """The letter of what arrives: ``ȳ``."""
    meanings: tuple[str, ...] = ()
    """What the program calls the inputs that the formulas speak of: ``a is x``."""
    is_torchs_own: bool = False
    """True for formulas in the words of torch's file of derivatives."""


def node_formulas(graph: Graph, node: Node) -> NodeFormulas:
    """The formulas for the edges of `node` along which a gradient goes; empty where nobody knows any."""
    if node.is_leaf:
        return NodeFormulas()
    if node.calls_backward:
        return NodeFormulas(("a backward of its own: what that reaches is not in this graph",))
    if node.kind == "custom":
        return NodeFormulas(("what its own backward() in the program says",))
    plain = plain_formula(node.name)
    if plain is not None:
        return _plain(graph, node, plain)
    exact, special = known.of(node.name), special_node(node.name)
    if exact is not None:
        return NodeFormulas(_exact_lines(node, exact), is_torchs_own=True)
    return NodeFormulas(special.gradients if special is not None else ())


def _plain(graph: Graph, node: Node, plain: PlainFormula) -> NodeFormulas:
    derivative = known.of(node.name)
    names, inputs = names_of_edges(node, derivative), node_inputs(graph, node, derivative)
    tensors = (*inputs, *node_results(node, derivative), *arrived_gradients(node))
    letters = reading(plain, settings=node.attributes, complex_numbers=have_complex_numbers(tensors))
    put_in = mathematics_with_numbers(plain, node.attributes, tensors)
    lines = (*_wanted(node, names, letters.gradients), *letters.where_of_gradients)
    return NodeFormulas(
        lines,
        {place: put_in[name] for place, name in enumerate(names) if node.edges[place] is not None and name in put_in},
        letters.symbols.get("grad", "") if len(node.arrived) == 1 else "",
        tuple(_meanings(inputs, letters, lines)),
    )


def _meanings(inputs: Iterable[NamedTensor], letters: Reading, lines: Sequence[str]) -> Iterator[str]:
    """Of inputs that get a gradient, and of others that a formula needs."""
    for each in inputs:
        letter = letters.symbols.get(each.name)
        name = next((name for name in each.variables if name not in (NAMELESS, letter)), "")
        if not name and not each.variables and each.view_of:
            name = f"a view of {each.view_of[0]}"
        if name and letter and (each.wants_gradient or _speaks_of(letter, lines)):
            yield f"{letter} is {name}"


def _speaks_of(letter: str, lines: Sequence[str]) -> bool:
    """Whether it stands alone, without a bar: ``A`` in ``Aᵀ Ȳ``."""
    alone = re.compile(rf"(?<![A-Za-z]){re.escape(letter)}(?![A-Za-z\u0304])")
    return any(map(alone.search, lines))


def _wanted(node: Node, names: Sequence[str], formulas: Mapping[str, str]) -> tuple[str, ...]:
    """Those for inputs that get a gradient; all of them where edges have no names."""
    return tuple(formulas[name] for name in (_inputs_with_gradient(node, names) or formulas) if name in formulas)


def _exact_lines(node: Node, exact: Derivative) -> tuple[str, ...]:
    wanted = _inputs_with_gradient(node, edge_names(exact, len(node.edges)))
    formulas = (each for each in exact.inputs if not wanted or not wanted.keys().isdisjoint(each.inputs))
    return tuple(f"{', '.join(each.inputs)}: {each.formula}" for each in formulas)


def _inputs_with_gradient(node: Node, names: Sequence[str]) -> dict[str, None]:
    """In the order of the edges, which have these names; a list of tensors once."""
    named = zip(names, node.edges, strict=False)
    return dict.fromkeys(name.partition("[")[0] for name, edge in named if edge is not None)


# Numbers in place of letters: the formulas of one node with what is known of its tensors put in.

_WORD = re.compile(r"\w+")
_NEGATIVE = re.compile(r"-(?=\d|Inf)")
LONGEST_OPERAND = 24
"""Characters of a tensor that is written into a formula; of a longer one its letter stays."""


def setting_numbers(settings: Mapping[str, Attribute]) -> dict[str, str]:
    """The arguments of an operation that are plain numbers, by their names."""
    return {
        name: number_words(value)
        for name, value in settings.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def tensor_numbers(tensors: Sequence[NamedTensor]) -> dict[str, str]:
    """What can stand for each name: tensors of which every number is known and for which there is room."""
    words = {each.name: short_nested_words(each.figures, LONGEST_OPERAND) for each in tensors}
    return {name: text for name, text in words.items() if text}


def mathematics_with_numbers(
    plain: PlainFormula, settings: Mapping[str, Attribute], tensors: Sequence[NamedTensor]
) -> dict[str, str]:
    """By the name of the input its formula, where the numbers of some tensor stand in it: ``ā = 0.1 · 5``.

    Formulas of abbreviations are left out: numbers beside what stands for more tell nothing.

    Args:
        settings: the node's own, which decide what is left out of its formulas.
        tensors: what it was computed from, what it gave and what arrived.
    """
    numbers = tensor_numbers(tensors)
    if not numbers:
        return {}
    read = partial(reading, plain, settings=settings, complex_numbers=have_complex_numbers(tensors))
    scalars = setting_numbers(settings)
    letters = read(minus_signs(scalars)).gradients
    put_in = read(minus_signs(scalars | numbers)).gradients
    are_scalars = all(each.tensor is not None and not each.tensor.shape for each in tensors)
    return {
        # Of scalars element by element is plain multiplication.
        name: line.replace("∘", "·") if are_scalars else line
        for name, line in put_in.items()
        if line != letters[name] and plain.where.keys().isdisjoint(_WORD.findall(plain.gradients[name]))
    }


def minus_signs(words: Mapping[str, str]) -> dict[str, str]:
    """With the sign that mathematics has."""
    return {name: with_minus(text) for name, text in words.items()}


def with_minus(words: str) -> str:
    """``-0.5`` as ``−0.5``; other words keep their hyphens."""
    return _NEGATIVE.sub("−", words)
