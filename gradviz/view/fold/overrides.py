"""What overrides the automatic folding: boxes that the user named, and operations that must be visible."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field

from gradviz.errors import NotInThisGraph, near_matches
from gradviz.graph.model import Graph
from gradviz.graph.query.find_by_name import end_of_path, whole_path
from gradviz.graph.traversal import consumers
from gradviz.view.fold.always_visible import failed_operations, operations_with_problems
from gradviz.view.fold.plumbing import Connections
from gradviz.view.fold.whole_boxes import split_by_box
from gradviz.view.marks import Marks


@dataclass(frozen=True, slots=True)
class Overrides:
    """Boxes that the user named, and operations around which boxes are open."""

    named_boxes: dict[int, tuple[str, str]]
    """Scopes of named boxes, each with a word (``open`` or ``folded``) and the pattern that named it."""
    shown_singly: frozenset[int] = frozenset()
    """Operations that are shown singly, not as one of several alike ones."""
    kept_visible: frozenset[int] = frozenset()
    """Operations that are shown; of several alike ones, the first."""
    custom_functions: frozenset[int] = frozenset()
    """Custom functions: shown if the picture does not grow too large."""

    marked: dict[int, Hashable] = field(default_factory=dict)
    """Operations that differ from others that are otherwise alike, each with what it differs by."""
    shown_boxes: frozenset[int] = frozenset()
    """Scopes of boxes that are shown, open or not."""

    @property
    def of_their_own(self) -> frozenset[int]:
        """The operations for which `of_node` has a value."""
        return self.shown_singly.union(self.kept_visible, self.marked)

    def of_node(self, node: int) -> Hashable:
        """A value that makes an operation differ from others that are otherwise alike."""
        if node in self.shown_singly:
            return node
        return self.marked.get(node, "seen" if node in self.kept_visible else None)


def find_overrides(
    graph: Graph,
    connections: Connections,
    unfold: Iterable[str],
    fold: Iterable[str],
    must_show: Collection[int],
    marks: Marks | None = None,
) -> Overrides:
    """What the options and the graph override; raises `NotInThisGraph` for a path that no box has."""
    by_path: dict[str, list[int]] = {}
    for index, scope in enumerate(graph.scopes):
        by_path.setdefault(scope.path, []).append(index)
    found: dict[int, tuple[str, str]] = {}
    for word, patterns in (("folded", fold), ("open", unfold)):
        for pattern in patterns:
            for path in _matching(pattern, by_path):
                found.update(dict.fromkeys(by_path[path], (word, pattern)))
    kept_folded = _inside(graph, {scope for scope, (word, _) in found.items() if word == "folded"})
    custom_nodes = (node for node in graph.nodes if node.kind == "custom")
    marked_nodes, whole_boxes = (set[int](), set[int]()) if marks is None else split_by_box(graph, marks)
    return Overrides(
        found,
        shown_singly=frozenset(failed_operations(graph)),
        kept_visible=frozenset(
            _operations(graph, connections, operations_with_problems(graph).union(must_show, marked_nodes))
        ),
        custom_functions=frozenset(
            node.id for node in custom_nodes if node.scope is None or not kept_folded[node.scope]
        ),
        marked={} if marks is None else {connections.owner[node]: marks.key_of(node) for node in marks.of_nodes},
        shown_boxes=frozenset(whole_boxes),
    )


def _matching(pattern: str, paths: Collection[str]) -> list[str]:
    """Paths that equal `pattern`; if there are none, those that end in it."""
    found = list(filter(whole_path(pattern), paths)) or list(filter(end_of_path(pattern), paths))
    if not found:
        raise NotInThisGraph(f"no box is named {pattern!r}", hint=near_matches(pattern, paths))
    return found


def _inside(graph: Graph, scopes: Collection[int]) -> list[bool]:
    """For each scope, whether it is one of `scopes` or is inside one."""
    inside: list[bool] = []
    for index, scope in enumerate(graph.scopes):
        inside.append(index in scopes or (scope.parent is not None and inside[scope.parent]))
    return inside


def _operations(graph: Graph, connections: Connections, nodes: Collection[int]) -> set[int]:
    """The operations with which nodes are drawn: for a leaf its users, for plumbing the operation it is merged into."""
    if not nodes:
        return set()
    users = consumers(graph)
    drawn = {user for node in nodes for user in (users[node] if graph.nodes[node].is_leaf else (node,))}
    return {connections.owner[node] for node in drawn}
