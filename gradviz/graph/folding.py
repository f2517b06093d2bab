"""Turns a graph into what is drawn of it: module calls and repeats as boxes, open as deep as stays readable.

The work of each part: `constant_places` finds who takes the data of a call, `plumbing` merges what only reshapes,
`nesting` finds which operations lie in which module call and which calls are alike, `arrangement` groups repeats and
overlong parts, `opening` decides which boxes are open, and `placing` makes the items and links.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradviz.graph.arrangement import Arrangements
from gradviz.graph.constant_places import with_constants_in_place
from gradviz.graph.folding_notes import notes_on
from gradviz.graph.model import Graph
from gradviz.graph.nesting import Nesting, sign
from gradviz.graph.opening import Marks, Opening, choose_depth, mark_scopes
from gradviz.graph.placing import place
from gradviz.graph.plumbing import Connections, connect
from gradviz.graph.view import View
from gradviz.graph.weights import Weights

LARGEST_BOX = 1000
"""Members of one box that a layout engine still takes; more are cut into parts, whatever depth was asked for."""


@dataclass(frozen=True, slots=True)
class FoldOptions:
    """What to show of a graph."""

    depth: int | None = None
    """How many levels of boxes are open; None for as many as stay readable."""
    unfold: tuple[str, ...] = ()
    """Paths of module calls to open, whatever the depth; ``*`` stands for one name of a path."""
    fold: tuple[str, ...] = ()
    """Paths of module calls to keep folded."""
    show_all: bool = False
    """Nothing is folded."""
    show_plumbing: bool = False
    """Views and copies are drawn, too."""
    show_constants: bool = True
    max_items: int = 60
    """How many things a picture may hold while the depth is not chosen by hand."""


def fold(graph: Graph, options: FoldOptions | None = None) -> View:
    """What is drawn of `graph`; raises `BadInput` for a path that no module call has."""
    options = options or FoldOptions()
    graph = with_constants_in_place(graph)
    marks = mark_scopes(graph, options.unfold, options.fold)
    connections = connect(graph, keep_plumbing=options.show_plumbing)
    opening, arrangements = _decide(graph, connections, marks, options)
    draft = place(graph, connections, arrangements, opening, show_constants=options.show_constants)
    return View(draft.items, draft.links, notes_on(graph, connections, draft, opening))


def _decide(graph: Graph, connections: Connections, marks: Marks, options: FoldOptions) -> tuple[Opening, Arrangements]:
    operations = [node.id for node in graph.nodes if not node.is_leaf and connections.owner[node.id] == node.id]
    nesting = Nesting(graph, operations)
    signatures = sign(graph, connections, nesting, marked_scopes=marks.by_scope, marked_nodes=marks.nodes)
    weights = Weights(graph, connections, nesting)
    fits = options.depth is None and weights.of_everything() + len(graph.roots) <= options.max_items // 2
    if options.show_all or fits:
        opening = Opening(marks, nesting, depth=len(graph.scopes) + 1, deepest=None)
        return opening, Arrangements(graph, nesting, signatures, weights, None)
    limit = options.max_items if options.depth is None else max(LARGEST_BOX, options.max_items)
    arrangements = Arrangements(graph, nesting, signatures, weights, limit)
    return choose_depth(arrangements, marks, options.depth, options.max_items - len(graph.roots)), arrangements
