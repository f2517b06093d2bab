"""What the words for one item need to know of all the others: gathered once for a subject."""

from __future__ import annotations

from collections import Counter, defaultdict

from gradviz.capture.capture import Capture
from gradviz.graph.model import CallSite, Graph, Node
from gradviz.graph.source_lines import readers_lines
from gradviz.graph.view import Item, View
from gradviz.rendering.words import node_word, shape_words


class SubjectWords:
    """A capture, a graph and its view, with what is looked up again and again."""

    def __init__(self, capture: Capture, graph: Graph, view: View) -> None:
        self.capture, self.graph, self.view = capture, graph, view
        self.calls_in_graph = Counter(scope.path for scope in graph.scopes)
        """How many calls of each module the graph holds, by path."""
        self._readers_lines = readers_lines(graph)
        self._several_named = _calls_with_several_names(graph, view)
        self._leaving = {link.source: link for link in reversed(view.links)}
        self._enclosing = _enclosing_scopes(view)
        self.only_first = {item.instead for item in view.items if item.instead is not None}
        """Items from which only the first repetition of a loop takes anything."""
        self._members: defaultdict[int, list[int]] = defaultdict(list)
        for item in view.items:
            if item.parent is not None:
                self._members[item.parent].append(item.id)

    def operation_title(self, node: Node) -> str:
        """The forward call that made it, or its own name where that call made several that are shown."""
        return node_word(node, shares_its_call=_call_of(node) in self._several_named)

    def enclosing_scope(self, item: Item) -> int | None:
        """The innermost module call around an item."""
        return self._enclosing[item.id]

    def enclosing_path(self, item: Item) -> str:
        """The path of that; empty at the outermost level."""
        scope = self.enclosing_scope(item)
        return "" if scope is None else self.graph.scopes[scope].path

    def readers_site(self, call_site: int | None) -> CallSite | None:
        """The reader's own line around a call site."""
        return None if call_site is None else self.graph.call_sites[self._readers_lines[call_site]]

    def source_text(self, site: CallSite) -> str:
        """The text of a source line, where it was recorded."""
        return self.capture.sources.get(site.file, {}).get(site.line, "").strip()

    def shape_leaving(self, item: Item) -> str:
        """The shape of what goes out of an item first."""
        link = self._leaving.get(item.id)
        if link is None or link.node is None:
            return ""
        node, output_nr = link.node, link.output_nr
        if item.kind == "box":
            node, output_nr = self._last_inside(item, node, output_nr)
        outputs = self.graph.nodes[node].outputs
        return shape_words(outputs[output_nr]) if output_nr < len(outputs) else ""

    def _last_inside(self, item: Item, node: int, output_nr: int) -> tuple[int, int]:
        """Follow the views through which data leaves a box back to the last one that was made in it."""
        while not self._was_made_in(item, node):
            edge = self.graph.nodes[node].edges[0]
            if edge is None:
                break
            node, output_nr = edge.target, edge.input_nr
        return node, output_nr

    def _was_made_in(self, item: Item, node: int) -> bool:
        if node in item.nodes or not self.graph.nodes[node].edges:
            return True
        made_in, scopes = self.graph.nodes[node].scope, (item.scope, item.last_scope)
        while made_in is not None and made_in not in scopes:
            made_in = self.graph.scopes[made_in].parent
        return made_in is not None

    def nodes_in(self, item: Item) -> list[int]:
        """Every node that a box holds, in creation order, whether it is open or not."""
        if item.nodes or item.scope is not None:
            return list(item.nodes)
        found: set[int] = set()
        stack = [item.id]
        while stack:
            inner = stack.pop()
            found.update(self.view.items[inner].nodes)
            stack.extend(self._members.get(inner, ()))
        return sorted(found)

    def common_call_site(self, item: Item) -> int | None:
        """The line that made everything in a box; None where there are several."""
        nodes = (self.graph.nodes[node] for node in self.nodes_in(item))
        sites = {node.call_site for node in nodes if not node.is_leaf}
        own = {None if site is None else self._readers_lines[site] for site in sites}
        return own.pop() if len(own) == 1 else None


def _call_of(node: Node) -> tuple[str | None, int | None, int | None]:
    return node.forward_call, node.call_site, node.scope


def _calls_with_several_names(graph: Graph, view: View) -> set[tuple[str | None, int | None, int | None]]:
    """Forward calls of which several different nodes are shown, as cross_entropy makes log_softmax and nll_loss."""
    names: defaultdict[tuple[str | None, int | None, int | None], set[str]] = defaultdict(set)
    for item in view.items:
        if item.kind == "node" and item.node is not None:
            node = graph.nodes[item.node]
            names[_call_of(node)].add(node.name)
    return {call for call, found in names.items() if len(found) > 1}


def _enclosing_scopes(view: View) -> list[int | None]:
    scopes: list[int | None] = []
    for item in view.items:
        box = None if item.parent is None else view.items[item.parent]
        scopes.append(None if box is None else scopes[box.id] if box.scope is None else box.scope)
    return scopes
