"""Which recorded gradients belong to an item or a link, and the gradient of an item in a word or two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import zip_longest
from math import hypot
from typing import NamedTuple

from gradviz.analysis.numbers.gradient_origins import GradientState, state_of
from gradviz.graph.gradients import BranchShare, TensorFigures
from gradviz.graph.model import Node
from gradviz.rendering.words.box_words import repetitions
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.model import Item, Link

STATE_WORDS: dict[GradientState, str] = {"zero": "0", "none": "none", "inf": "Inf", "nan": "NaN"}

Gradients = tuple[TensorFigures | None, ...]


def norm_of(gradients: Iterable[TensorFigures | None]) -> float | None:
    """L2 norm of several gradients together; None if none has a norm."""
    norms = [each.norm for each in gradients if each is not None and each.norm is not None]
    return hypot(*norms) if norms else None


def arrived_by_repetition(facts: SubjectFacts, item: Item) -> list[Gradients]:
    """The gradients that arrived at an item, for each repetition that it represents, in the order of the computation.

    For a box, the gradient of its first output. Empty for items without a gradient. Asked many times for each item.
    """
    known = facts.arrived_by_repetition.get(item.id)
    if known is None:
        known = facts.arrived_by_repetition[item.id] = _arrived_by_repetition(facts, item)
    return known


def _arrived_by_repetition(facts: SubjectFacts, item: Item) -> list[Gradients]:
    nodes = facts.graph.nodes
    if item.root is not None:
        return [(facts.graph.roots[item.root].gradient,)]
    if item.node is not None:
        name = nodes[item.node].name
        return [nodes[node].arrived for node in item.nodes if nodes[node].name == name or node == item.node]
    leaving = facts.node_leaving(item) if item.kind == "box" else None
    if leaving is None:
        return []
    node, output_nr = _within(facts, item, *leaving)
    return [nodes[each].arrived[output_nr : output_nr + 1] for each in _in_each_repetition(facts, item, node)]


def _within(facts: SubjectFacts, item: Item, node: int, output_nr: int) -> tuple[int, int]:
    """Go back through views that are drawn as part of the item that uses the data: they do not change the norm."""
    own = set(item.nodes)
    while node not in own:
        edge = next(iter(facts.graph.nodes[node].edges), None)
        if edge is None:
            break
        node, output_nr = edge.target, edge.input_nr
    return node, output_nr


def _in_each_repetition(facts: SubjectFacts, item: Item, leaving: int) -> list[int]:
    """The node through which data leaves a repeated box, in each repetition; one node if the others cannot be found."""
    nodes, count = facts.graph.nodes, repetitions(facts, item)
    operations = [node for node in item.nodes if not nodes[node].is_leaf]
    period, rest = divmod(len(operations), count)
    if count == 1 or rest or leaving not in operations:
        return [leaving]
    index = operations.index(leaving) % period
    counterparts = operations[index::period]
    return counterparts if len({nodes[node].name for node in counterparts}) == 1 else [leaving]


class LinkBranch(NamedTuple):
    """The gradient that flows back along one edge."""

    gradient: TensorFigures | None
    """None if it was not measured."""
    share: BranchShare | None = None


_BranchesByEnds = dict[tuple[int, int], list[LinkBranch]]


class LinkGradients:
    """The gradients that flowed back along every link of a view. The cost is linear in the number of edges."""

    def __init__(self, facts: SubjectFacts) -> None:
        self._facts = facts

    def along(self, link: Link) -> Sequence[LinkBranch]:
        """One for each edge that a link represents; empty if no gradient flows there."""
        if link.node is None:
            return ()
        items = self._facts.view.items
        target = items[link.target]
        if target.root is not None:
            return (LinkBranch(self._facts.graph.roots[target.root].gradient),)
        source = items[link.source]
        if source.kind == "carried" and source.source is not None:
            source = items[source.source]
        graph = self._facts.graph
        if source.node is not None and graph.nodes[source.node].is_leaf:
            return [each for leaf in source.nodes for each in self._by_leaf.get((leaf, link.target), ())]
        return self._by_items.get((source.id, link.target), ())

    @cached_property
    def _owners(self) -> dict[int, int]:
        """The item that shows an operation."""
        return {node: item.id for item in self._facts.view.items if not item.is_open for node in item.nodes}

    @property
    def _by_items(self) -> _BranchesByEnds:
        """By the item that gives the data and the item that uses it."""
        return self._gathered[0]

    @property
    def _by_leaf(self) -> _BranchesByEnds:
        """The same by leaves, which several items can show."""
        return self._gathered[1]

    @cached_property
    def _gathered(self) -> tuple[_BranchesByEnds, _BranchesByEnds]:
        by_items: _BranchesByEnds = {}
        by_leaf: _BranchesByEnds = {}
        nodes, owners = self._facts.graph.nodes, self._owners
        for user in nodes:
            taker = owners.get(user.id)
            if taker is None:
                continue
            for edge, gradient, share in zip_longest(user.edges[: len(user.gradients)], user.gradients, user.shares):
                if edge is None:
                    continue
                if nodes[edge.target].is_leaf:
                    by_leaf.setdefault((edge.target, taker), []).append(LinkBranch(gradient, share))
                    continue
                giver = owners.get(edge.target)
                if giver is not None and giver != taker:
                    by_items.setdefault((giver, taker), []).append(LinkBranch(gradient, share))
        return by_items, by_leaf


def gradient_words(facts: SubjectFacts, item: Item) -> str:
    """``0.0312``, the L2 norm; ``0`` if every element is zero; ``NaN``; ``Inf``; ``none`` if nothing arrived.

    For a box, of its first output. For several repetitions, ``1.2e-05 → 0.0312``: of the first and the last. Empty if
    nothing is known.
    """
    repetitions = arrived_by_repetition(facts, item)
    if not repetitions:
        return ""
    first = figures_words(repetitions[0])
    if len(repetitions) > 1:
        last = figures_words(repetitions[-1])
        return first if first == last else f"{first or '?'} → {last or '?'}"
    if item.node is not None and not first:
        return _nothing_arrived(facts.graph.nodes[item.node])
    return first


def _nothing_arrived(node: Node) -> str:
    is_known = node.leaf_gradient is not None and node.leaf_gradient.outcome == "unchanged"
    return STATE_WORDS["none"] if is_known else ""


def figures_words(gradients: Sequence[TensorFigures | None]) -> str:
    """Several gradients as one; empty if none was measured."""
    state = state_of(gradients)
    if state is None:
        return "?" if any(each is not None for each in gradients) else ""
    if state == "nan" and any(each is not None and each.infs for each in gradients):
        return f"{STATE_WORDS['nan']}, {STATE_WORDS['inf']}"
    norm = norm_of(gradients)
    return f"{norm:.3g}" if state == "fine" and norm is not None else STATE_WORDS.get(state, "?")
