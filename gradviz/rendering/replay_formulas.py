"""The formulas of one node, with the numbers that a capture holds put in: in plain mathematics, or else torch's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gradviz.analysis.node_inputs import NamedTensor, have_complex_numbers, names_of_edges, node_inputs
from gradviz.analysis.node_results import arrived_gradients, node_results
from gradviz.formulas import known
from gradviz.formulas.arguments import edge_names
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.plain import PlainFormula, Reading, plain_formula, reading
from gradviz.formulas.special_nodes import special_node
from gradviz.graph.model import Graph, Node
from gradviz.graph.operation_words import NAMELESS
from gradviz.rendering.formula_numbers import mathematics_with_numbers


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
