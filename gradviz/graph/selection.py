"""Takes the part of a graph that the reader asked for: a graph again, so that every format and question works on it."""

from __future__ import annotations

from dataclasses import dataclass

from gradviz.errors import BadInput, NotInThisGraph
from gradviz.graph.expressions import compiled
from gradviz.graph.hiding import hide
from gradviz.graph.model import Graph
from gradviz.graph.parts import Part, around, between, following, leading_to, trainable
from gradviz.graph.subgraph import subgraph

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
