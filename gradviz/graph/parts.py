"""The ways of asking for a part of a graph, each as the nodes and constants that it leaves."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gradviz.errors import NotInThisGraph
from gradviz.graph.counts import counted
from gradviz.graph.model import Graph
from gradviz.graph.naming import Named, resolve
from gradviz.graph.plumbing import connect
from gradviz.graph.traversal import ancestors, consumers, descendants


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes and constants of a graph, and what they have in common."""

    nodes: Collection[int]
    constants: Collection[int]
    words: str
    """What they are, to follow "12 nodes:"."""
    remarks: tuple[str, ...] = ()
    """What else the reader should know, a sentence each."""


def between(graph: Graph, one: str, other: str) -> Part:
    """What lies on a way of the data from one name to the other, or else from the other to the one.

    Weights and data that join on the way are no part of it.
    """
    start, stop = resolve(graph, one), resolve(graph, other)
    nodes = _on_ways(graph, start, stop) or _on_ways(graph, stop, start)
    if not nodes:
        raise NotInThisGraph(
            f"no way of the data leads from {one!r} to {other!r} or back",
            hint="neither was computed from the other; --around shows what is near a name",
        )
    return Part(
        nodes,
        {*start.constants, *stop.constants},
        f"those on a way between {one!r} and {other!r} (--path)",
        (*_about_what_joins(graph, nodes), *_notes(start, stop)),
    )


def around(graph: Graph, name: str, radius: int) -> Part:
    """What is at most `radius` edges away from a name, with the data or against it.

    No way leads on through a leaf: a weight that every step of a loop takes makes the steps no neighbours. Views and
    copies count for nothing, as pictures do not show them.
    """
    middle = resolve(graph, name)
    distances = _distances(graph, middle.nodes, radius)
    taken = {
        constant
        for node, distance in distances.items()
        if distance < radius
        for constant in graph.nodes[node].constants
    }
    return Part(
        distances,
        {*taken, *middle.constants},
        f"those up to {counted(radius, 'edge')} around {name!r} (--around, --radius)",
        _notes(middle),
    )


def trainable(graph: Graph) -> Part:
    """Parameters and what is computed from them: no data, nothing frozen, and no leaves that are no parameters."""
    parameters = [node.id for node in graph.nodes if node.kind == "parameter"]
    if not parameters:
        names = ", ".join(leaf.names[0] if leaf.names else "unnamed" for leaf in graph.leaves[:4])
        raise NotInThisGraph(
            f"there is nothing trainable: no leaf is a torch.nn.Parameter (leaves: {names})",
            hint="leave out --only-trainable",
        )
    return Part(descendants(graph, parameters), (), "parameters and what is computed from them (--only-trainable)")


def leading_to(graph: Graph, name: str) -> Part:
    """What a name stands for, and all that it was computed from."""
    end = resolve(graph, name)
    if end.constants and all(graph.nodes[node].constants for node in end.nodes):
        raise NotInThisGraph(
            f"{name!r} needs no gradient: nothing that it was computed from was recorded", hint=_THE_REVERSE
        )
    nodes = ancestors(graph, end.nodes)
    taken = {constant for node in nodes for constant in graph.nodes[node].constants}
    remarks = _notes(end)
    if all(graph.nodes[node].is_leaf for node in nodes):
        remarks = (*remarks, f"{name!r} is a leaf, computed from nothing else; {_THE_REVERSE}")
    return Part(nodes, {*taken, *end.constants}, f"{name!r} and what it was computed from (--from)", remarks)


_THE_REVERSE = "--reverse shows what was computed from it"


def following(graph: Graph, name: str) -> Part:
    """What a name stands for, and all that was computed from it; what else that took is no part of it."""
    start = resolve(graph, name)
    words = f"{name!r} and what was computed from it (--from, --reverse)"
    return Part(descendants(graph, start.nodes), start.constants, words, _notes(start))


def _on_ways(graph: Graph, start: Named, stop: Named) -> set[int]:
    return descendants(graph, start.nodes) & ancestors(graph, stop.nodes)


def _about_what_joins(graph: Graph, nodes: Collection[int]) -> Iterator[str]:
    found = (graph.nodes[node] for node in nodes)
    if any(node.constants or any(edge and edge.target not in nodes for edge in node.edges) for node in found):
        yield "weights and data that join on the way are left out"


def _distances(graph: Graph, starts: Collection[int], radius: int) -> dict[int, int]:
    """For each node within `radius` edges how far away it is."""
    users = consumers(graph)
    owner = connect(graph, keep_plumbing=False).owner
    distances = dict.fromkeys(starts, 0)
    border = list(starts)
    distance = 0
    while border and distance <= radius:
        following: list[int] = []
        for node in border:  # grows while it is walked, by plumbing: what it leads to is no further away
            if graph.nodes[node].is_leaf and distance:
                continue
            for neighbour in (*users[node], *(edge.target for edge in graph.nodes[node].edges if edge is not None)):
                is_plumbing = owner[neighbour] != neighbour
                if neighbour not in distances and (is_plumbing or distance < radius):
                    distances[neighbour] = distance if is_plumbing else distance + 1
                    (border if is_plumbing else following).append(neighbour)
        border = following
        distance += 1
    return distances


def _notes(*named: Named) -> tuple[str, ...]:
    return tuple(each.note for each in named if each.note is not None)
