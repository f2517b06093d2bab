"""The formulas of one node with the recorded numbers put in: in plain mathematics, otherwise as torch writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gradviz.analysis.numbers.node_inputs import NamedTensor, have_complex_numbers, names_of_edges, node_inputs
from gradviz.analysis.numbers.node_results import arrived_gradients, node_results
from gradviz.formulas import available_formulas
from gradviz.formulas.arguments import edge_names
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.plain import PlainFormula, Reading, plain_formula, reading
from gradviz.formulas.special_nodes import special_node
from gradviz.graph.model import Attribute, Graph, Node
from gradviz.graph.query.operation_names import NAMELESS
from gradviz.rendering.words.value_words import number_words, short_nested_words


@dataclass(frozen=True, slots=True)
class NodeFormulas:
    """What a node computes from the gradient that arrives."""

    lines: tuple[str, ...] = ()
    """In letters: ``ā = ȳ ∘ b``, and the definitions of abbreviations."""
    with_numbers: Mapping[int, str] = field(default_factory=dict)
    """By the index of the edge: ``ā = 0.1 ∘ 5``; only if some number is known."""
    arriving: str = ""
    """The letter of the gradient that arrives: ``ȳ``."""
    meanings: tuple[str, ...] = ()
    """The names in the program of the inputs in the formulas: ``a is x``."""
    is_torchs_own: bool = False
    """True for formulas from torch's file of derivatives."""


def node_formulas(graph: Graph, node: Node) -> NodeFormulas:
    """The formulas for the edges of `node` along which a gradient flows; empty if none are known."""
    if node.is_leaf:
        return NodeFormulas()
    if node.calls_backward:
        return NodeFormulas(("its own backward: the nodes that it reaches are not in this graph",))
    if node.kind == "custom":
        return NodeFormulas(("as its backward() in the program computes it",))
    plain = plain_formula(node.name)
    if plain is not None:
        return _plain(graph, node, plain)
    exact, special = available_formulas.of(node.name), special_node(node.name)
    if exact is not None:
        return NodeFormulas(_exact_lines(node, exact), is_torchs_own=True)
    return NodeFormulas(special.gradients if special is not None else ())


def _plain(graph: Graph, node: Node, plain: PlainFormula) -> NodeFormulas:
    derivative = available_formulas.of(node.name)
    names, inputs = names_of_edges(node, derivative), node_inputs(graph, node, derivative)
    tensors = (*inputs, *node_results(node, derivative), *arrived_gradients(node))
    letters = reading(plain, settings=node.attributes, complex_numbers=have_complex_numbers(tensors))
    put_in = mathematics_with_numbers(plain, node.attributes, tensors)
    lines = (*_wanted(node, names, letters.gradients), *letters.where_of_gradients)
    return NodeFormulas(
        lines,
        {index: put_in[name] for index, name in enumerate(names) if node.edges[index] is not None and name in put_in},
        letters.symbols.get("grad", "") if len(node.arrived) == 1 else "",
        tuple(_meanings(inputs, letters, lines)),
    )


def _meanings(inputs: Iterable[NamedTensor], letters: Reading, lines: Sequence[str]) -> Iterator[str]:
    """The names of inputs that get a gradient, and of other inputs that a formula needs."""
    for each in inputs:
        letter = letters.symbols.get(each.name)
        name = next((name for name in each.variables if name not in (NAMELESS, letter)), "")
        if not name and not each.variables and each.view_of:
            name = f"a view of {each.view_of[0]}"
        if name and letter and (each.wants_gradient or _speaks_of(letter, lines)):
            yield f"{letter} is {name}"


def _speaks_of(letter: str, lines: Sequence[str]) -> bool:
    """Whether the letter appears without a bar: ``A`` in ``Aᵀ Ȳ``."""
    alone = re.compile(rf"(?<![A-Za-z]){re.escape(letter)}(?![A-Za-z\u0304])")
    return any(map(alone.search, lines))


def _wanted(node: Node, names: Sequence[str], formulas: Mapping[str, str]) -> tuple[str, ...]:
    """The formulas for inputs that get a gradient; all of them if edges have no names."""
    return tuple(formulas[name] for name in (_inputs_with_gradient(node, names) or formulas) if name in formulas)


def _exact_lines(node: Node, exact: Derivative) -> tuple[str, ...]:
    wanted = _inputs_with_gradient(node, edge_names(exact, len(node.edges)))
    formulas = (each for each in exact.inputs if not wanted or not wanted.keys().isdisjoint(each.inputs))
    return tuple(f"{', '.join(each.inputs)}: {each.formula}" for each in formulas)


def _inputs_with_gradient(node: Node, names: Sequence[str]) -> dict[str, None]:
    """In the order of the edges, which have these names; a list of tensors appears once."""
    named = zip(names, node.edges, strict=False)
    return dict.fromkeys(name.partition("[")[0] for name, edge in named if edge is not None)


# Numbers in index of letters.

_WORD = re.compile(r"\w+")
_NEGATIVE = re.compile(r"-(?=\d|Inf)")
LONGEST_OPERAND = 24
"""Characters of a tensor written into a formula; a longer one keeps its letter."""


def setting_numbers(settings: Mapping[str, Attribute]) -> dict[str, str]:
    """The arguments of an operation that are plain numbers, by name."""
    return {
        name: number_words(value)
        for name, value in settings.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def tensor_numbers(tensors: Sequence[NamedTensor]) -> dict[str, str]:
    """The text for each name: of tensors whose numbers are all known and short enough."""
    words = {each.name: short_nested_words(each.figures, LONGEST_OPERAND) for each in tensors}
    return {name: text for name, text in words.items() if text}


def mathematics_with_numbers(
    plain: PlainFormula, settings: Mapping[str, Attribute], tensors: Sequence[NamedTensor]
) -> dict[str, str]:
    """The formula of each input, by name, if numbers of some tensor are in it: ``ā = 0.1 · 5``.

    Formulas of abbreviations are left out: numbers beside an abbreviation say nothing.

    Args:
        settings: the arguments of the node, which decide which terms of its formulas are left out.
        tensors: its inputs, its outputs and the gradients that arrived.
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
        # For scalars, elementwise multiplication is plain multiplication.
        name: line.replace("∘", "·") if are_scalars else line
        for name, line in put_in.items()
        if line != letters[name] and plain.where.keys().isdisjoint(_WORD.findall(plain.gradients[name]))
    }


def minus_signs(words: Mapping[str, str]) -> dict[str, str]:
    """The words with the minus sign of mathematics."""
    return {name: with_minus(text) for name, text in words.items()}


def with_minus(words: str) -> str:
    """``-0.5`` as ``−0.5``; hyphens in other words stay."""
    return _NEGATIVE.sub("−", words)
