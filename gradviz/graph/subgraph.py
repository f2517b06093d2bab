"""Makes a part of a graph a graph itself, with new node numbers.

An edge from outside becomes None in `Node.edges`, as where no gradient is needed, so that the other inputs keep their
indices; the gradient sent along it is left out, and a saved tensor loses its source. Tables of scopes, call sites,
constants and storages stay complete. A root outside is dropped, and so is a refused root that was cut off from no node
inside.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from msgspec.structs import replace

from gradviz.graph.model import BackwardCall, Edge, Graph, Node
from gradviz.graph.node_findings import CutEdge
from gradviz.graph.saved_tensors import SavedTensor

_Figures = TypeVar("_Figures")


def subgraph(graph: Graph, nodes: Sequence[int], constants: Collection[int]) -> Graph:
    """The graph of `nodes`, given in rising order; operations keep only the constants in `constants`."""
    number = {node: index for index, node in enumerate(nodes)}
    refused = _refused_inside(graph, number)
    return replace(
        graph,
        nodes=tuple(_renumbered(graph.nodes[node], number, constants) for node in nodes),
        roots=tuple(replace(root, node=number[root.node]) for root in graph.roots if root.node in number),
        backward=None if graph.backward is None else _with_failure_inside(graph.backward, number),
        root_shares=None,
        exchanges=tuple(
            replace(each, leaves=tuple(number[leaf] for leaf in each.leaves if leaf in number))
            for each in graph.exchanges
            if any(leaf in number for leaf in each.leaves)
        ),
        findings=tuple(replace(each, node=number[each.node]) for each in graph.findings if each.node in number),
        refused=tuple(graph.refused[index] for index in refused),
        cut_edges=tuple(
            _renumbered_cut_edge(each, number, refused)
            for each in graph.cut_edges
            if each.node in number or each.refused in refused
        ),
    )


def _refused_inside(graph: Graph, number: dict[int, int]) -> dict[int, int]:
    """New numbers of the refused roots that were cut off from nodes inside."""
    inside = number.keys()
    cut_off = {
        edge.refused for edge in graph.cut_edges if edge.refused is not None and not inside.isdisjoint(edge.sources)
    }
    return {old: new for new, old in enumerate(sorted(cut_off))}


def _renumbered_cut_edge(edge: CutEdge, number: dict[int, int], refused: dict[int, int]) -> CutEdge:
    return replace(
        edge,
        node=None if edge.node is None else number[edge.node],
        refused=None if edge.refused is None else refused[edge.refused],
        sources=tuple(number[node] for node in edge.sources if node in number),
    )


def _renumbered(node: Node, number: dict[int, int], constants: Collection[int]) -> Node:
    edges = tuple([_renumbered_edge(edge, number) for edge in node.edges])
    taken = tuple([constant for constant in node.constants if constant in constants])
    saved = tuple([_with_source_inside(each, number) for each in node.saved])
    return replace(
        node,
        id=number[node.id],
        edges=edges,
        constants=taken,
        saved=saved,
        gradients=_where_edges_are(edges, node.gradients),
        shares=_where_edges_are(edges, node.shares),
    )


def _where_edges_are(edges: Sequence[Edge | None], figures: tuple[_Figures | None, ...]) -> tuple[_Figures | None, ...]:
    """One entry for each edge, None for a missing one; empty if nothing was measured."""
    return tuple([None if edge is None else each for edge, each in zip(edges, figures, strict=False)])


def _renumbered_edge(edge: Edge | None, number: dict[int, int]) -> Edge | None:
    if edge is None or edge.target not in number:
        return None
    return Edge(number[edge.target], edge.input_nr)


def _with_source_inside(saved: SavedTensor, number: dict[int, int]) -> SavedTensor:
    if saved.source is None:
        return saved
    source = number.get(saved.source)
    return replace(saved, source=source, source_nr=0 if source is None else saved.source_nr)


def _with_failure_inside(backward: BackwardCall, number: dict[int, int]) -> BackwardCall:
    failed = backward.failed_node
    return backward if failed is None else replace(backward, failed_node=number.get(failed))
