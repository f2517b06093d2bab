"""The formulas of one node, with the numbers that a capture holds put in: in plain mathematics, or else torch's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gradviz.analysis.node_inputs import NamedTensor, names_of_edges, node_inputs
from gradviz.formulas import known
from gradviz.formulas.arguments import edge_names
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.plain import PlainFormula, Reading, plain_formula, reading
from gradviz.formulas.special_nodes import special_node
from gradviz.graph.model import Graph, Node, TensorFacts
from gradviz.graph.operation_words import NAMELESS
from gradviz.rendering.value_words import number_words, short_nested_words

_WORD = re.compile(r"\w+")
LONGEST_OPERAND = 24
"""Characters: a longer tensor keeps its letter."""


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
    names = names_of_edges(node, known.of(node.name))
    is_complex = any(tensor is not None and tensor.dtype.startswith("complex") for tensor in node.outputs)
    read = partial(reading, plain, settings=node.attributes, complex_numbers=is_complex)
    letters, scalars = read(), _scalars(node)
    without, put_in = read(scalars).gradients, read(scalars | _numbers(graph, node, plain)).gradients
    told = {name for name in put_in if put_in[name] != without[name] and not _abbreviates(plain, name)}
    lines = (*_wanted(node, names, letters.gradients), *letters.where_of_gradients)
    return NodeFormulas(
        lines,
        _with_numbers(graph, node, names, {name: put_in[name] for name in plain.gradients if name in told}),
        letters.symbols.get("grad", "") if len(node.arrived) == 1 else "",
        tuple(_meanings(node_inputs(graph, node, known.of(node.name)), letters, lines)),
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


def _abbreviates(plain: PlainFormula, name: str) -> bool:
    """Whether the gradient of an input is told by something that stands for more: numbers beside that tell nothing."""
    return not plain.where.keys().isdisjoint(_WORD.findall(plain.gradients[name]))


def _with_numbers(graph: Graph, node: Node, names: Sequence[str], formulas: Mapping[str, str]) -> dict[int, str]:
    """By the place of the edge; of scalars element by element is plain multiplication."""
    inputs = (graph.nodes[edge.target].output(edge.input_nr) for edge in node.edges if edge is not None)
    scalars = all(map(_is_scalar, node.outputs)) and all(map(_is_scalar, inputs))
    named = ((place, name) for place, name in enumerate(names) if node.edges[place] is not None and name in formulas)
    return {place: formulas[name].replace("∘", "·") if scalars else formulas[name] for place, name in named}


def _is_scalar(tensor: TensorFacts | None) -> bool:
    return tensor is not None and not tensor.shape


def _wanted(node: Node, names: Sequence[str], formulas: Mapping[str, str]) -> tuple[str, ...]:
    """Those for inputs that get a gradient; all of them where edges have no names."""
    named = zip(names, node.edges, strict=False)
    wanted = dict.fromkeys(name.partition("[")[0] for name, edge in named if edge is not None)
    return tuple(formulas[name] for name in (wanted or formulas) if name in formulas)


def _scalars(node: Node) -> dict[str, str]:
    """The arguments of an operation that are plain numbers."""
    return {
        name: number_words(value)
        for name, value in node.attributes.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _numbers(graph: Graph, node: Node, plain: PlainFormula) -> dict[str, str]:
    """What stands for each name of which every number is known and there is room for it."""
    values = {each.name: each.figures for each in node_inputs(graph, node, known.of(node.name))}
    values |= dict(zip(plain.outputs, node.values, strict=False))
    if len(node.arrived) == 1:
        values["grad"] = node.arrived[0]
    words = {name: short_nested_words(figures, LONGEST_OPERAND) for name, figures in values.items()}
    return {name: text.replace("-", "−") for name, text in words.items() if text}


def _exact_lines(node: Node, exact: Derivative) -> tuple[str, ...]:
    names = edge_names(exact, len(node.edges))
    wanted = {name.partition("[")[0] for name, edge in zip(names, node.edges, strict=False) if edge is not None}
    formulas = (each for each in exact.inputs if not wanted or not wanted.isdisjoint(each.inputs))
    return tuple(f"{', '.join(each.inputs)}: {each.formula}" for each in formulas)
