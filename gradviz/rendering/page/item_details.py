"""The facts about each item that the page's panel shows in addition to the picture.

They are most of the data of a graph, and a user looks at few of them. So they are separate from the picture's data, in
pieces: the page unpacks a piece when an item in it is selected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from gradviz.analysis.diff.merged_graph import Counterparts
from gradviz.graph.gradients import BranchShare, TensorFigures, at_index
from gradviz.graph.model import Edge, Graph, Node
from gradviz.rendering.page.document import PageDetails, PageGradient, PageSaved, PageSection, PageSides
from gradviz.rendering.page.findings import PageFindings
from gradviz.rendering.page.items import cut
from gradviz.rendering.page.level import Level
from gradviz.rendering.replay.step_words import formula_fact
from gradviz.rendering.words.common_words import shape_words_of
from gradviz.rendering.words.difference_sides import DifferenceSides
from gradviz.rendering.words.flags import findings_about
from gradviz.rendering.words.formula_words import node_formulas
from gradviz.rendering.words.gradient_tooltips import MAX_NUMBERS, arrivals, figures_facts, share_words
from gradviz.rendering.words.gradient_words import arrived_by_repetition, norm_of
from gradviz.rendering.words.item_words import item_sections
from gradviz.rendering.words.memory_tooltips import saved_facts
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.rendering.words.tooltips import callers
from gradviz.rendering.words.value_words import value_words
from gradviz.view.model import Item

MAX_EDGES = 24
MAX_FORMULAS = 4_000
"""In one page: a formula takes longer to find than all other facts about an item."""
MAX_SLOTS = 24
MAX_SHARING = 6
MAX_CALLERS = 12
MAX_NORMS = 200
"""The maximum number of repetitions with a bar: each bar must be visible."""

_SHOWN_IN_OTHER_FORMS = {
    "operation": frozenset({"findings", "gradients", "saved for backward"}),
    "other": frozenset({"findings"}),
}
"""Headings of facts that the panel does not show as lines."""


class PageItemDetails:
    """Collects the details of a graph's items, level by level."""

    def __init__(self, graph: Graph, findings: PageFindings, counterparts: Counterparts | None = None) -> None:
        self._graph, self._findings = graph, findings
        self._sides = None if counterparts is None else DifferenceSides(counterparts)
        self._edges = ItemEdges(graph)
        self._formulas = 0
        self._keepers: list[list[int]] = [[] for _ in graph.storages]
        for node in graph.nodes:
            for storage in {saved.storage for saved in node.saved if saved.storage is not None}:
                self._keepers[storage].append(node.id)
        self._found: dict[int, PageDetails] = {}

    def add(self, level: Level) -> None:
        """Add the items that a level shows first."""
        for item in (*level.closed, *level.showing_each):
            self._found[level.number(item.id)] = self._details(level.facts, item)

    def finished(self) -> tuple[PageDetails, ...]:
        """The details of all items, in the order of their numbers."""
        return tuple(self._found[number] for number in sorted(self._found))

    def _details(self, facts: SubjectFacts, item: Item) -> PageDetails:
        node = None if item.node is None else self._graph.nodes[item.node]
        # A long loop draws a leaf beside each of its steps.
        entering = list(islice(self._edges.entering(item), MAX_EDGES + 1))
        leaving = list(islice(self._edges.leaving(item), MAX_EDGES + 1))
        shown_elsewhere = _SHOWN_IN_OTHER_FORMS["other" if node is None else "operation"]
        return PageDetails(
            sections=tuple(_sections(facts, item, shown_elsewhere)),
            formula=None if node is None or node.is_leaf else self._formula(facts, node),
            callers=tuple(_callers(facts, item)),
            entering=tuple(self._sent(edge, edge.sender) for edge in entering[:MAX_EDGES]),
            arrived=() if node is None else tuple(_arrived(node)),
            leaving=tuple(self._sent(edge, edge.receiver) for edge in leaving[:MAX_EDGES]),
            has_more_edges=max(len(entering), len(leaving)) > MAX_EDGES,
            norms=tuple(_norms(facts, item)),
            saved=() if node is None else tuple(self._saved(facts, node)),
            findings=self._findings.numbers_of(findings_about(facts, item)),
            sides=tuple(self._sides_of(item)),
        )

    def _sides_of(self, item: Item) -> Iterator[PageSides]:
        """The facts of both runs; none for data without gradient, which no node stands for."""
        if self._sides is None or not item.nodes:
            return
        rows = self._sides.of_nodes(item.nodes) if item.node is None else self._sides.of_node(item.node)
        yield from (PageSides(cut(row.what), cut(row.a), cut(row.b)) for row in rows)

    def _formula(self, facts: SubjectFacts, node: Node) -> PageSection | None:
        self._formulas += 1
        if self._formulas > MAX_FORMULAS:
            return None
        fact = formula_fact(facts.capture, node_formulas(self._graph, node))
        return None if fact is None else PageSection(fact.label, tuple(map(cut, fact.lines)))

    def _sent(self, edge: GradientEdge, other_end: int) -> PageGradient:
        share = tuple(share_words(self._edges.share(edge)))
        return _page_gradient(self._edges.gradient(edge), node=other_end, share=share)

    def _saved(self, facts: SubjectFacts, node: Node) -> Iterator[PageSaved]:
        for saved in node.saved[:MAX_SLOTS]:
            keepers = [] if saved.storage is None else self._keepers[saved.storage]
            # A parameter may be kept by every step of a long loop.
            others = tuple(keeper for keeper in keepers[: MAX_SHARING + 1] if keeper != node.id)[:MAX_SHARING]
            words = tuple(map(cut, saved_facts(facts, saved)))
            yield PageSaved(cut(saved.slot), words, others, max(0, len(keepers) - 1))
        if len(node.saved) > MAX_SLOTS:
            yield PageSaved(f"and {len(node.saved) - MAX_SLOTS:,} more")


def _sections(facts: SubjectFacts, item: Item, left_out: frozenset[str]) -> Iterator[PageSection]:
    for heading, lines in item_sections(facts, item):
        shown = tuple(dict.fromkeys(cut(line) for line in lines if line))
        if shown and heading not in left_out:
            yield PageSection(heading, shown)


def _callers(facts: SubjectFacts, item: Item) -> Iterator[tuple[str, int]]:
    site = facts.common_call_site(item) if item.node is None else facts.graph.nodes[item.node].call_site
    if site is not None:
        yield from ((cut(caller.file), caller.line) for caller in islice(callers(facts, site), MAX_CALLERS))


def _arrived(node: Node) -> Iterator[PageGradient]:
    for name, figures in arrivals(node):
        if figures is not None:
            yield _page_gradient(figures, what=name.removeprefix("gradient").strip())


def _page_gradient(
    figures: TensorFigures | None, *, node: int | None = None, what: str = "", share: tuple[str, ...] = ()
) -> PageGradient:
    if figures is None:
        return PageGradient(node, what)
    return PageGradient(
        node=node,
        what=what,
        shape=shape_words_of(figures.shape) if figures.is_measured else "",
        facts=(*figures_facts(figures), *share),
        numbers=cut(value_words(figures, MAX_NUMBERS)) if figures.count > 1 else "",
        histogram=figures.histogram,
        first_decade=figures.histogram_from,
    )


def _norms(facts: SubjectFacts, item: Item) -> Iterable[float | None]:
    """The gradient norm of each repetition, in the order of the computation; of very many, only some."""
    repetitions = arrived_by_repetition(facts, item)
    if len(repetitions) < 2:
        return ()
    step = -(-len(repetitions) // MAX_NORMS)
    return [norm_of(gradients) for gradients in repetitions[::step]]


# The edges of a graph that cross the border of an item. Gradients enter and leave along them.


class GradientEdge(NamedTuple):
    """One edge of the graph: the backward of `sender` computes a gradient, and `receiver` gets it."""

    sender: int
    edge_nr: int
    """The index among the sender's edges."""
    receiver: int


class ItemEdges:
    """Finds these edges for each item. Edges inside an item do not count."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._arriving: dict[int, list[GradientEdge]] = {}
        for node in graph.nodes:
            for edge in self._sent_by(node.id):
                self._arriving.setdefault(edge.receiver, []).append(edge)

    def entering(self, item: Item) -> Iterator[GradientEdge]:
        """The edges along which gradients arrive; of several repetitions, at the first."""
        own = self._drawn_together(item)
        for node in sorted(own):
            yield from (edge for edge in self._arriving.get(node, ()) if edge.sender not in own)

    def leaving(self, item: Item) -> Iterator[GradientEdge]:
        """The edges along which gradients leave; of several repetitions, from the first."""
        own = self._drawn_together(item)
        for node in sorted(own):
            yield from (edge for edge in self._sent_by(node) if edge.receiver not in own)

    def gradient(self, edge: GradientEdge) -> TensorFigures | None:
        """The gradient sent along an edge; None if it was not measured."""
        return at_index(self._nodes[edge.sender].gradients, edge.edge_nr)

    def share(self, edge: GradientEdge) -> BranchShare | None:
        """The part of the sum at the receiver, if gradients were summed there."""
        return at_index(self._nodes[edge.sender].shares, edge.edge_nr)

    def _sent_by(self, node: int) -> Iterator[GradientEdge]:
        edges: tuple[Edge | None, ...] = self._nodes[node].edges
        return (GradientEdge(node, index, edge.target) for index, edge in enumerate(edges) if edge is not None)

    def _drawn_together(self, item: Item) -> Collection[int]:
        """All nodes of a box; of an operation, its node and the views merged into it."""
        if item.kind == "box" or item.node is None:
            return frozenset(item.nodes)
        members, name = frozenset(item.nodes), self._nodes[item.node].name
        found, waiting = {item.node}, [item.node]
        while waiting and len(members) > 1:
            node = waiting.pop()
            beside = [edge.receiver for edge in self._sent_by(node)]
            beside += [edge.sender for edge in self._arriving.get(node, ())]
            for other in beside:
                # The same operation again belongs to another repetition.
                if other in members and other not in found and self._nodes[other].name != name:
                    found.add(other)
                    waiting.append(other)
        return found
