"""The explanation of one node of a capture: its kind, and its own numbers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gradviz.analysis.explain.custom_explanation import custom_explanation
from gradviz.analysis.explain.explanation import Explanation, OtherNode, explain_node
from gradviz.analysis.numbers.node_inputs import have_complex_numbers, node_inputs
from gradviz.analysis.numbers.node_numbers import node_numbers
from gradviz.analysis.numbers.node_results import node_results
from gradviz.capture.capture import Capture
from gradviz.errors import BadInput, NotInThisGraph
from gradviz.formulas.available_formulas import KnownFormulas
from gradviz.formulas.plain import plain_formula, reading
from gradviz.graph.model import Graph, Node
from gradviz.graph.query.find_by_name import CONTAINER_KINDS, Named, resolve
from gradviz.graph.query.operation_names import autograd_name, call_of
from gradviz.graph.query.own_line import line_words

MAX_LISTED = 6


def explain_in_graph(capture: Capture, graphs: Sequence[Graph], name: str, known: KnownFormulas) -> Explanation:
    """The explanation of the node that `name` means, in the first graph that has it.

    Raises `NotInThisGraph`, with near matches, if no graph has it, and `BadInput` if it names no single node.
    """
    graph, named = _found(graphs, name)
    nodes = [graph.nodes[node] for node in named.nodes]
    if named.constants:
        raise BadInput(
            f"{name!r} needs no gradient, so nothing is computed for it in backward",
            hint=f"it is used by {_listed(nodes)}",
        )
    if named.kind in CONTAINER_KINDS and len(nodes) > 1:
        raise BadInput(f"{name!r} means {len(nodes):,} operations", hint=f"name one of them: {_listed(nodes)}")
    node = _result_of_first_call(nodes)
    page = _page_of_custom(capture, graph, node) or _page_of_torch(capture, graph, node, known)
    numbers = node_numbers(capture, graph, node, page.derivative)
    others = [OtherNode(f"node:{other.id}", _where(graph, other)) for other in nodes if other is not node]
    return replace(
        page,
        word=name,
        node=autograd_name(node),
        numbers=numbers,
        others=tuple(others[:MAX_LISTED]),
        others_left_out=max(0, len(others) - MAX_LISTED),
    )


def _result_of_first_call(nodes: Sequence[Node]) -> Node:
    """If one call made several of these nodes, as ``linear`` does, the last, which returned the result."""
    call, result = call_of(nodes[0]), nodes[0]
    names = {result.name}
    for node in nodes[1:]:
        if call_of(node) != call or node.name in names:
            break
        names.add(node.name)
        result = node
    return result


def _page_of_torch(capture: Capture, graph: Graph, node: Node, known: KnownFormulas) -> Explanation:
    """The formula only for the settings of this node, with conjugates only if its numbers are complex."""
    page, plain = explain_node(node.name, known, other_torch_words(capture, known)), plain_formula(node.name)
    if plain is None:
        return page
    tensors = (*node_inputs(graph, node, page.derivative), *node_results(node, page.derivative))
    listed = reading(plain, settings=node.attributes, complex_numbers=have_complex_numbers(tensors))
    return replace(page, plain=listed)


def _page_of_custom(capture: Capture, graph: Graph, node: Node) -> Explanation | None:
    custom = custom_explanation(capture, graph, node)
    if custom is None:
        return None
    sentence = (
        f"A function of the program, {custom.class_name}: its own backward returns its gradients, and torch does not "
        "check them."
    )
    return Explanation(node.name, node.name, sentence, custom=custom)


def _found(graphs: Sequence[Graph], name: str) -> tuple[Graph, Named]:
    refusal = None
    for graph in graphs:
        try:
            return graph, resolve(graph, name)
        except NotInThisGraph as error:
            refusal = refusal or error
    assert refusal is not None, "there is at least one graph"
    raise refusal


def other_torch_words(capture: Capture, known: KnownFormulas) -> tuple[str, ...]:
    """A disclosure if the formulas belong to another torch than the one that ran."""
    recorded, installed = capture.program.torch_version, known.table.torch_version
    if not installed or not recorded or recorded == installed:
        return ()
    return (f"recorded with torch {recorded}; the formulas are those of torch {installed}, which is installed here",)


def _listed(nodes: Sequence[Node]) -> str:
    listed = ", ".join(f"node:{node.id} ({autograd_name(node)})" for node in nodes[:MAX_LISTED])
    return listed + (f" and {len(nodes) - MAX_LISTED:,} more" if len(nodes) > MAX_LISTED else "")


def _where(graph: Graph, node: Node) -> str:
    if node.is_leaf:
        return f"{autograd_name(node)} of {' = '.join(node.names) or 'an unnamed leaf'}"
    site = "" if node.call_site is None else f" at {line_words(graph.call_sites[node.call_site])}"
    return f"{autograd_name(node)}{site}"
