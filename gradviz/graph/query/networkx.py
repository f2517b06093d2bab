"""Converts a graph to networkx, with plain attributes: for its algorithms, and for the files that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradviz.errors import MissingDependency
from gradviz.graph.gradients import TensorFigures, at_index
from gradviz.graph.model import Graph, Node, TensorFacts
from gradviz.graph.node_findings import CutEdge, Verdict
from gradviz.graph.query.operation_names import call_of, calls_of_several_names, constant_names, node_word
from gradviz.graph.query.own_line import line_words_of, own_lines
from gradviz.graph.query.root_names import refused_name, root_names

if TYPE_CHECKING:
    import networkx

PlainAttribute = str | int | float | bool


def networkx_graph(graph: Graph) -> networkx.MultiDiGraph[int]:
    """See `Graph.to_networkx`."""
    try:
        import networkx
    except ImportError as error:
        raise MissingDependency("networkx is not installed", hint="pip install networkx") from error
    made: networkx.MultiDiGraph[int] = networkx.MultiDiGraph()
    made.graph.update(_graph_attributes(graph))
    made.add_nodes_from(plain_nodes(graph))
    for source, target, position, attributes in _edges(graph):
        made.add_edge(source, target, key=position, **attributes)
    return made


def plain_nodes(graph: Graph) -> Iterator[tuple[int, dict[str, PlainAttribute]]]:
    """Ids and attributes, in creation order."""
    roots: dict[int, list[str]] = {}
    findings: dict[int, list[str]] = {}
    cuts: dict[int, list[str]] = {}
    for finding in graph.findings:
        findings.setdefault(finding.node, []).append(_verdict_words(finding))
    for cut_edge in graph.cut_edges:
        for end in cut_edge.nodes:
            findings.setdefault(end, []).append(_verdict_words(cut_edge.finding))
            cuts.setdefault(end, []).append(_cut_words(cut_edge))
    for root, name in zip(graph.roots, root_names(graph), strict=True):
        roots.setdefault(root.node, []).append(name)
    lines = own_lines(graph)
    shared_calls = calls_of_several_names(graph.nodes)
    for node in graph.nodes:
        attributes = dict(_node_attributes(graph, node, shares_its_call=call_of(node) in shared_calls))
        if node.id in roots:
            attributes["root"] = ", ".join(roots[node.id])
        if node.id in cuts:
            attributes["cut_off_by"] = ", ".join(dict.fromkeys(cuts[node.id]))
        if node.id in findings:
            attributes["findings"] = "; ".join(findings[node.id])
        if node.call_site is not None:
            site = graph.call_sites[lines[node.call_site]]
            attributes |= {"file": site.file, "line": site.line, "function": site.function}
        yield node.id, attributes


def _verdict_words(found: Verdict) -> str:
    return f"{found.code} {found.cause}: {found.message}"


def _cut_words(cut_edge: CutEdge) -> str:
    return f"{cut_edge.cut} at {line_words_of(cut_edge.file, cut_edge.line)}"


def _edges(graph: Graph) -> Iterator[tuple[int, int, int, dict[str, PlainAttribute]]]:
    """Edges from producer to user, with the index among the user's inputs as key."""
    for node in graph.nodes:
        for position, edge in enumerate(node.edges):
            if edge is not None:
                tensor = graph.nodes[edge.target].output(edge.input_nr)
                attributes = dict(_tensor_attributes(tensor))
                attributes |= dict(_gradient_attributes(at_index(node.gradients, position)))
                share = at_index(node.shares, position)
                if share is not None and share.share is not None:
                    attributes["gradient_share"] = _six_digits(share.share)
                if share is not None and share.cosine is not None:
                    attributes["gradient_cosine"] = _six_digits(share.cosine)
                yield edge.target, node.id, position, attributes | {"position": position, "output_nr": edge.input_nr}


def _graph_attributes(graph: Graph) -> Iterator[tuple[str, PlainAttribute]]:
    yield "roots", ", ".join(root_names(graph))
    if graph.refused:
        yield "refused", ", ".join(map(refused_name, graph.refused))
        yield (
            "cut_off_by",
            ", ".join(_cut_words(cut_edge) for cut_edge in graph.cut_edges if cut_edge.refused is not None),
        )
    if graph.backward is not None:
        yield "backward", graph.backward.number
        yield "function", graph.backward.function
        if graph.failed_node is not None:
            yield "failed_node", graph.failed_node


def _node_attributes(graph: Graph, node: Node, *, shares_its_call: bool) -> Iterator[tuple[str, PlainAttribute]]:
    leaf_word = node.names[0] if node.names else node.kind
    yield "label", leaf_word if node.is_leaf else node_word(node, shares_its_call=shares_its_call)
    yield "grad_fn", node.name
    yield "kind", node.kind
    yield "is_leaf", node.is_leaf
    yield from _tensor_attributes(next((tensor for tensor in node.outputs if tensor), None))
    names = {"names": node.names, "constants": _constant_names(graph, node), "hooks": node.hooks}
    yield from ((key, ", ".join(words)) for key, words in names.items() if words)
    if node.forward_call is not None:
        yield "forward_call", node.forward_call
    if node.sequence_nr is not None:
        yield "sequence_nr", node.sequence_nr
    yield from _gradient_attributes(next((figures for figures in node.arrived if figures), None))
    if node.run is not None:
        yield "backward_order", node.run.order
    if node.scope is not None:
        yield "module", graph.scopes[node.scope].path
        yield "module_class", graph.scopes[node.scope].class_name


def _tensor_attributes(tensor: TensorFacts | None) -> Iterator[tuple[str, PlainAttribute]]:
    if tensor is not None:
        yield "shape", "[" + ", ".join(map(str, tensor.shape)) + "]"
        yield "dtype", tensor.dtype
        yield "device", tensor.device


def _gradient_attributes(figures: TensorFigures | None) -> Iterator[tuple[str, PlainAttribute]]:
    """Norm and state of a gradient: for a node the one that arrived, for an edge the one sent along it."""
    if figures is None:
        return
    broken = [word for word, count in (("NaN", figures.nans), ("Inf", figures.infs)) if count]
    if figures.is_undefined:
        yield "gradient", "undefined"
    elif figures.unmeasured is not None:
        yield "gradient", f"not measured: {figures.unmeasured}"
    else:
        yield "gradient", ", ".join(broken) or ("zero" if figures.is_zero else "finite")
    if figures.norm is not None:
        yield "gradient_norm", _six_digits(figures.norm)
        yield "gradient_zeros", figures.zeros


def _six_digits(number: float) -> float:
    """Round to six digits, as further digits differ from machine to machine."""
    return float(f"{number:.6g}")


def _constant_names(graph: Graph, node: Node) -> list[str]:
    return [constant_names(graph.constants[index])[0] for index in node.constants]
