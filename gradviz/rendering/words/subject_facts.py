"""Facts about a whole subject that the words for single items need. They are computed once."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import Any

from gradviz.analysis.finding import location_of_line, text_at
from gradviz.analysis.numbers.gradient_origins import GradientOrigins, find_gradient_origins
from gradviz.capture.capture import Capture
from gradviz.graph.exchanges import Exchange
from gradviz.graph.model import CallSite, Graph, Node, TensorFacts
from gradviz.graph.node_findings import NodeFinding, Verdict
from gradviz.graph.query.operation_names import autograd_name, call_of, calls_of_several_names, node_word
from gradviz.graph.query.own_line import own_lines
from gradviz.graph.query.root_names import root_names
from gradviz.graph.traversal import scopes_around
from gradviz.rendering.words.common_words import shape_words
from gradviz.view.marks import Marks
from gradviz.view.model import Item, Link, View


class SubjectFacts:
    """A capture, a graph and its view, with facts that are needed often."""

    def __init__(self, capture: Capture, graph: Graph, view: View, marks: Marks | None = None) -> None:
        self.capture, self.graph, self.view, self.marks = capture, graph, view, marks
        self.calls_in_graph = Counter(scope.path for scope in graph.scopes)
        """The number of calls of each module in the graph, by path."""
        self.root_names = root_names(graph)
        self._own_lines = own_lines(graph)
        shown = (graph.nodes[item.node] for item in view.items if item.kind == "node" and item.node is not None)
        self._several_named = calls_of_several_names(shown)
        self._leaving: defaultdict[int, list[Link]] = defaultdict(list)
        for link in view.links:
            self._leaving[link.source].append(link)
        self._enclosing = _enclosing_scopes(view)
        self.only_first = {item.instead for item in view.items if item.instead is not None}
        """Items that only the first repetition of a loop uses."""
        self._members: defaultdict[int, list[int]] = defaultdict(list)
        for item in view.items:
            if item.parent is not None:
                self._members[item.parent].append(item.id)

    @cached_property
    def keepers(self) -> list[Counter[str]]:
        """For each storage, the autograd names of the nodes that keep it, with their counts."""
        keepers: list[Counter[str]] = [Counter() for _ in self.graph.storages]
        for node in self.graph.nodes:
            for index in {saved.storage for saved in node.saved if saved.storage is not None}:
                keepers[index][autograd_name(node)] += 1
        return keepers

    @cached_property
    def findings(self) -> dict[int, list[NodeFinding]]:
        """The findings of a check, by node."""
        found: dict[int, list[NodeFinding]] = {}
        for finding in self.graph.findings:
            found.setdefault(finding.node, []).append(finding)
        return found

    @cached_property
    def hidden_cuts(self) -> dict[int, list[Verdict]]:
        """The findings about cuts that a folded box hides, by box."""
        found: dict[int, list[Verdict]] = {}
        edges = self.graph.cut_edges
        if not edges:
            return found
        shown = {
            (edges[source.cut_edge].origin, link.target)
            for link in self.view.links
            if (source := self.view.items[link.source]).kind == "cut" and source.cut_edge is not None
        }
        boxes = {
            node: item.id for item in self.view.items if item.kind == "box" and not item.is_open for node in item.nodes
        }
        for edge in edges:
            box = None if edge.node is None else boxes.get(edge.node)
            if box is not None and (edge.origin, box) not in shown:
                found.setdefault(box, []).append(edge.finding)
        return found

    def cut_off_at(self, item: Item) -> tuple[str, ...]:
        """The tensors that get no gradient because of a cut, within the drawn repetition."""
        edges = (self.graph.cut_edges[cut_edge] for cut_edge in item.cut_edges)
        return tuple(dict.fromkeys(name for edge in edges for name in edge.tensors))

    @cached_property
    def gradient_origins(self) -> GradientOrigins:
        """Where gradients become zero, NaN or Inf."""
        return find_gradient_origins(self.graph)

    @cached_property
    def gradient_flags(self) -> dict[int, Any]:
        """What `flags.gradient_flag` has found out, by item."""
        return {}

    @cached_property
    def arrived_by_repetition(self) -> dict[int, Any]:
        """What `gradient_words.arrived_by_repetition` has found out, by item."""
        return {}

    @cached_property
    def exchanges_by_leaf(self) -> dict[int, list[Exchange]]:
        """The exchanges between ranks that a leaf takes part in."""
        found: dict[int, list[Exchange]] = {}
        for exchange in self.graph.exchanges:
            for leaf in exchange.leaves:
                found.setdefault(leaf, []).append(exchange)
        return found

    @cached_property
    def run_count(self) -> int:
        """The number of nodes that the engine ran."""
        return sum(node.run is not None for node in self.graph.nodes)

    def operation_title(self, node: Node) -> str:
        """The forward call that made the node; the node's own name if that call made several nodes that are shown."""
        return node_word(node, shares_its_call=call_of(node) in self._several_named)

    def enclosing_scope(self, item: Item) -> int | None:
        """The innermost module call around an item."""
        return self._enclosing[item.id]

    def enclosing_path(self, item: Item) -> str:
        """The path of that call if it is a module call; empty at the outermost level."""
        scope = self.enclosing_scope(item)
        is_module = scope is not None and self.graph.scopes[scope].kind == "module"
        return self.graph.scopes[scope].path if scope is not None and is_module else ""

    def own_site(self, call_site: int | None) -> CallSite | None:
        """The line of the user's code around a call site."""
        return None if call_site is None else self.graph.call_sites[self._own_lines[call_site]]

    def source_text(self, site: CallSite) -> str:
        """The text of a source line, if it was recorded."""
        return text_at(self.capture.sources, location_of_line(site)).strip()

    def shape_leaving(self, item: Item) -> str:
        """The shape of the first output of an item."""
        return shape_words(self.tensor_leaving(item))

    def tensor_leaving(self, item: Item) -> TensorFacts | None:
        """The first output of an item."""
        leaving = self.node_leaving(item)
        if leaving is None:
            return None
        node, output_nr = leaving
        return self.graph.nodes[node].output(output_nr)

    def node_leaving(self, item: Item) -> tuple[int, int] | None:
        """The node that made the first output of an item, and which output of the node it is."""
        leaving = self._leaving.get(item.id)
        if not leaving or leaving[0].node is None:
            return None
        node, output_nr = leaving[0].node, leaving[0].output_nr
        if item.kind == "box":
            return self._last_inside(item, node, output_nr)
        return node, output_nr

    def result_of(self, item: Item, node: Node) -> Node:
        """The last view that the call of an operation made of its result, if nothing uses the result before that view.

        A batched matmul is torch's ``mm`` and a view of its result: the call returns the view.
        """
        results = {self._own_view(node, link) for link in self._leaving.get(item.id, ())}
        is_one_of_several = call_of(node) in self._several_named
        return node if is_one_of_several or len(results) != 1 else self.graph.nodes[results.pop()]

    def _own_view(self, node: Node, link: Link) -> int:
        path = self.way_of(link, node.id)
        own = (view for view in path if node.forward_call and call_of(self.graph.nodes[view]) == call_of(node))
        return next(own, node.id)

    def way_of(self, link: Link, source: int) -> list[int]:
        """The merged views through which data flows from the node `source` along a link, the last one first."""
        path: list[int] = []
        node = link.node
        while node is not None and node != source:
            path.append(node)
            edges = self.graph.nodes[node].edges
            node = edges[0].target if edges and edges[0] is not None else None
        return path if node == source else []

    def _last_inside(self, item: Item, node: int, output_nr: int) -> tuple[int, int]:
        """Follow the views through which data leaves a box back to the last one that was made inside it."""
        while not self._was_made_in(item, node):
            edge = self.graph.nodes[node].edges[0]
            if edge is None:
                break
            node, output_nr = edge.target, edge.input_nr
        return node, output_nr

    def _was_made_in(self, item: Item, node: int) -> bool:
        if node in item.nodes or not self.graph.nodes[node].edges:
            return True
        around = scopes_around(self.graph.scopes, self.graph.nodes[node].scope)
        return any(scope in (item.scope, item.last_scope) for scope in around)

    @cached_property
    def positions_in_row(self) -> dict[int, tuple[int, int]]:
        """For boxes without a name in a row of repetitions: their position in the row, and the length of the row."""
        items = self.view.items
        rows = ([items[member] for member in self._members[item.id]] for item in items if item.each)
        nameless = ([member.id for member in row if member.kind == "box" and member.scope is None] for row in rows)
        return {member: (index, len(row)) for row in nameless for index, member in enumerate(row, 1)}

    def nodes_in(self, item: Item) -> list[int]:
        """Every node in a box, in creation order, whether the box is open or not."""
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
        """The line that made everything in a box, open or not; None if there are several."""
        lines = self._lines_inside[item.id]
        return next(iter(lines.values())) if len(lines) == 1 else None

    def line_is_said_around(self, item: Item, call_site: int | None) -> bool:
        """Whether everything in a box around an item was made by one line, that of `call_site`."""
        own = self.own_site(call_site)
        while own is not None and item.parent is not None:
            item = self.view.items[item.parent]
            site = self.own_site(self.common_call_site(item))
            if site is not None and (site.file, site.line) == (own.file, own.line):
                return True
        return False

    @cached_property
    def _plain_siblings(self) -> dict[tuple[str, int | None], list[int]]:
        """Nodes that take no data without gradient, by their name and line."""
        found: dict[tuple[str, int | None], list[int]] = {}
        for node in self.graph.nodes:
            if not node.is_leaf and not node.constants:
                found.setdefault((node.name, node.call_site), []).append(node.id)
        return found

    def takes_first_state(self, node: Node) -> bool:
        """Whether a node multiplies with data that needs no gradient where later runs of its line have a gradient.

        A recurrent network begins with a state of zeros, so what it is multiplied with gets zero at first.
        """
        if not node.constants or node.call_site is None:
            return False
        later = self._plain_siblings.get((node.name, node.call_site), ())
        return any(other > node.id for other in later) and not any(
            other in self.gradient_origins.by_node for other in later
        )

    @cached_property
    def _lines_inside(self) -> list[dict[tuple[str, int] | None, int | None]]:
        """For each item the lines that made the operations in it, each with a call site; None for an unknown line."""
        found: list[dict[tuple[str, int] | None, int | None]] = [{} for _ in self.view.items]
        nodes, sites = self.graph.nodes, self.graph.call_sites
        for item in reversed(self.view.items):  # A box precedes its children.
            for call_site in {nodes[node].call_site for node in item.nodes if not nodes[node].is_leaf}:
                # One line with two calls has two call sites.
                own = None if call_site is None else self._own_lines[call_site]
                line = None if own is None else (sites[own].file, sites[own].line)
                first = found[item.id].get(line)
                found[item.id][line] = own if first is None or own is None else min(first, own)
            if item.parent is not None:
                for line, own in found[item.id].items():
                    found[item.parent].setdefault(line, own)
        return found


def _enclosing_scopes(view: View) -> list[int | None]:
    scopes: list[int | None] = []
    for item in view.items:
        box = None if item.parent is None else view.items[item.parent]
        is_of_one_call = box is not None and box.scope is not None and not box.each
        scopes.append(box.scope if box is not None and is_of_one_call else None if box is None else scopes[box.id])
    return scopes
