"""Selects the part of a graph that the user asked for: again a graph, so every format and query works on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gradviz.errors import BadInput, NotInThisGraph
from gradviz.graph.model import Graph
from gradviz.graph.number_words import counted
from gradviz.graph.query.find_by_expression import compiled
from gradviz.graph.query.find_by_name import Named, resolve
from gradviz.graph.subgraph import subgraph
from gradviz.graph.traversal import ancestors, consumers, descendants
from gradviz.view.fold.plumbing import connect
from gradviz.view.select.hiding import hide

USUAL_RADIUS = 2


@dataclass(frozen=True, slots=True)
class SelectOptions:
    """Which part of a graph to show; with several options, the nodes that fit all of them.

    Raises `BadInput` for a radius without a middle, and for a bad regular expression.
    """

    path: tuple[str, str] | None = None
    """Only nodes on a path of the data between two names, given in either order."""
    around: str | None = None
    """Only nodes at most `radius` edges away from a name, in both directions."""
    radius: int | None = None
    """None for `USUAL_RADIUS`."""
    start: str | None = None
    """Only a name and what it was computed from."""
    downstream: bool = False
    """With `start`: only the name and what was computed from it."""
    only_trainable: bool = False
    """Only parameters and what is computed from them: no data, nothing frozen, no leaves other than parameters."""
    hide: tuple[str, ...] = ()
    """Regular expressions: matching operations, leaves and data are left out, and links pass through them."""

    def __post_init__(self) -> None:
        if self.radius is not None and self.around is None:
            raise BadInput(f"a radius of {self.radius} needs a middle", hint="name the middle with --around NAME")
        for expression in self.hide:
            compiled(expression)


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a graph, with one sentence for each thing that was left out."""

    graph: Graph
    notes: tuple[str, ...] = ()


def select(graph: Graph, options: SelectOptions) -> Selection:
    """The requested part of `graph`; raises `NotInThisGraph` where a name matches nothing or nothing is left."""
    parts = _parts(graph, options)
    if not parts and not options.hide:
        return Selection(graph)
    notes: list[str] = []
    if parts:
        graph, notes = _common_part(graph, parts)
    if options.hide:
        graph, about_hidden = hide(graph, options.hide)
        notes += about_hidden
    return Selection(graph, tuple(notes))


def _parts(graph: Graph, options: SelectOptions) -> list[Part]:
    parts = []
    if options.path is not None:
        parts.append(between(graph, *options.path))
    if options.around is not None:
        parts.append(around(graph, options.around, USUAL_RADIUS if options.radius is None else options.radius))
    if options.start is not None:
        parts.append(following(graph, options.start) if options.downstream else leading_to(graph, options.start))
    if options.only_trainable:
        parts.append(trainable(graph))
    return parts


def _common_part(graph: Graph, parts: list[Part]) -> tuple[Graph, list[str]]:
    nodes = sorted(set(range(len(graph.nodes))).intersection(*(part.nodes for part in parts)))
    constants = set(range(len(graph.constants))).intersection(*(part.constants for part in parts))
    words = ", and ".join(part.words for part in parts)
    if not nodes:
        raise NotInThisGraph(f"nothing is left to show: no autograd node is {words}")
    notes = [f"{len(nodes):,} of {len(graph.nodes):,} autograd nodes: {words}"]
    notes.extend(remark for part in parts for remark in part.remarks)
    failed = graph.failed_node
    if failed is not None and failed not in nodes:
        notes.append(f"the node in which backward failed ({graph.nodes[failed].name}) is not among them")
    return subgraph(graph, nodes, constants), notes


# Each option that selects a part of a graph, as the nodes and constants that it keeps.


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes and constants of a graph, and what they have in common."""

    nodes: Collection[int]
    constants: Collection[int]
    words: str
    """What they are, to follow "12 nodes:"."""
    remarks: tuple[str, ...] = ()
    """Further notes, a sentence each."""


def between(graph: Graph, one: str, other: str) -> Part:
    """Nodes on a path from the first name to the second, or else from the second to the first.

    Weights and data that join the path are left out.
    """
    start, stop = resolve(graph, one), resolve(graph, other)
    nodes = _on_paths(graph, start, stop) or _on_paths(graph, stop, start)
    if not nodes:
        raise NotInThisGraph(
            f"no path leads from {one!r} to {other!r} or back",
            hint="neither was computed from the other; --around shows what is near a name",
        )
    return Part(
        nodes,
        {*start.constants, *stop.constants},
        f"those on a path between {one!r} and {other!r} (--path)",
        (*_about_what_joins(graph, nodes), *_notes(start, stop)),
    )


def around(graph: Graph, name: str, radius: int) -> Part:
    """Nodes at most `radius` edges away from a name, in both directions.

    No path continues through a leaf: steps of a loop are not neighbours because they share a weight. Views and copies
    do not count, as pictures do not show them.
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
    """Parameters and what is computed from them: no data, nothing frozen, and no other leaves."""
    parameters = [node.id for node in graph.nodes if node.kind == "parameter"]
    if not parameters:
        names = ", ".join(leaf.names[0] if leaf.names else "unnamed" for leaf in graph.leaves[:4])
        raise NotInThisGraph(
            f"there is nothing trainable: no leaf is a torch.nn.Parameter (leaves: {names})",
            hint="leave out --only-trainable",
        )
    return Part(descendants(graph, parameters), (), "parameters and what is computed from them (--only-trainable)")


def leading_to(graph: Graph, name: str) -> Part:
    """The nodes with a name, and all that they were computed from."""
    end = resolve(graph, name)
    if end.constants and all(graph.nodes[node].constants for node in end.nodes):
        raise NotInThisGraph(
            f"{name!r} needs no gradient: what it was computed from was not recorded", hint=_THE_REVERSE
        )
    nodes = ancestors(graph, end.nodes)
    taken = {constant for node in nodes for constant in graph.nodes[node].constants}
    remarks = _notes(end)
    if all(graph.nodes[node].is_leaf for node in nodes):
        remarks = (*remarks, f"{name!r} is a leaf, computed from nothing else; {_THE_REVERSE}")
    return Part(nodes, {*taken, *end.constants}, f"{name!r} and what it was computed from (--from)", remarks)


_THE_REVERSE = "--reverse shows what was computed from it"


def following(graph: Graph, name: str) -> Part:
    """The nodes with a name, and all that was computed from them, without other inputs."""
    start = resolve(graph, name)
    words = f"{name!r} and what was computed from it (--from, --reverse)"
    return Part(descendants(graph, start.nodes), start.constants, words, _notes(start))


def _on_paths(graph: Graph, start: Named, stop: Named) -> set[int]:
    return descendants(graph, start.nodes) & ancestors(graph, stop.nodes)


def _about_what_joins(graph: Graph, nodes: Collection[int]) -> Iterator[str]:
    found = (graph.nodes[node] for node in nodes)
    if any(node.constants or any(edge and edge.target not in nodes for edge in node.edges) for node in found):
        yield "weights and data that join the path are left out"


def _distances(graph: Graph, starts: Collection[int], radius: int) -> dict[int, int]:
    """For each node within `radius` edges its distance."""
    users = consumers(graph)
    owner = connect(graph, keep_plumbing=False).owner
    distances = dict.fromkeys(starts, 0)
    border = list(starts)
    distance = 0
    while border and distance <= radius:
        following: list[int] = []
        for node in border:  # the list grows by plumbing while it is walked: nodes behind plumbing are no further away
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
