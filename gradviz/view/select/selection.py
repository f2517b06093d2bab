"""Takes the part of a graph that the reader asked for: a graph again, so that every format and question works on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gradviz.errors import BadInput, NotInThisGraph
from gradviz.graph.model import Graph
from gradviz.graph.query.names import Named, resolve
from gradviz.graph.query.search import compiled
from gradviz.graph.subgraph import subgraph
from gradviz.graph.traversal import ancestors, consumers, descendants
from gradviz.graph.words import counted
from gradviz.view.fold.plumbing import connect
from gradviz.view.select.hiding import hide

USUAL_RADIUS = 2


@dataclass(frozen=True, slots=True)
class SelectOptions:
    """Which part of a graph to show; where several are given, what all of them leave.

    Raises `BadInput` for a radius without a middle, and for what is no regular expression.
    """

    path: tuple[str, str] | None = None
    """Only what lies on a way of the data between two names, in whichever order they are given."""
    around: str | None = None
    """Only what is at most `radius` edges away from a name, with the data or against it."""
    radius: int | None = None
    """None for `USUAL_RADIUS`."""
    start: str | None = None
    """Only a name and what it was computed from."""
    downstream: bool = False
    """With `start`: only the name and what was computed from it."""
    only_trainable: bool = False
    """Only parameters and what is computed from them: no data, nothing frozen, no leaves that are no parameters."""
    hide: tuple[str, ...] = ()
    """Regular expressions: operations, leaves and data that match one are left out, and links pass through them."""

    def __post_init__(self) -> None:
        if self.radius is not None and self.around is None:
            raise BadInput(f"a radius of {self.radius}, but around what?", hint="name the middle with --around NAME")
        for expression in self.hide:
            compiled(expression)


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a graph, and in one plain sentence each, what was left out."""

    graph: Graph
    notes: tuple[str, ...] = ()


def select(graph: Graph, options: SelectOptions) -> Selection:
    """The part of `graph` that is asked for; raises `NotInThisGraph` where a name fits nothing or nothing is left."""
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


# The ways of asking for a part of a graph, each as the nodes and constants that it leaves.


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
    nodes = _on_paths(graph, start, stop) or _on_paths(graph, stop, start)
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


def _on_paths(graph: Graph, start: Named, stop: Named) -> set[int]:
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
