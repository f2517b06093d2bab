"""How a gradient grows or shrinks on its way from the loss to the input, and which operation makes it so.

Judged by what flows between layers, not by what weights get: where activations grow as fast as gradients do, every
weight's gradient is equally large, and equally wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import hypot, log10
from statistics import median

from gradviz.analysis.numbers.gradient_origins import leads_to_a_leaf
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph, Node

MIN_LAYERS = 6
"""Fewer make no chain: a loss that is multiplied by a thousand is no exploding gradient."""


@dataclass(frozen=True)
class Growth:
    """What all nodes of one operation made of the gradients that came to them."""

    operation: str
    """``grad_fn.name()``."""
    nodes: tuple[int, ...]
    """In the order in which the engine ran them."""
    decades: float
    """Powers of ten, summed over the nodes: -3.0 for three nodes that each send a tenth of what came."""
    trend: float
    """Powers of ten by which what comes to the nodes changes from the first third of them to the last: 0.0 for nodes in
    branches beside each other, which multiply nothing together."""

    @property
    def factor(self) -> float:
        """What one node makes of a gradient, typically: 0.1 for a tenth."""
        return float(10 ** (self.decades / len(self.nodes)))


@dataclass(frozen=True)
class Descent:
    """The gradient between layers, near the loss and near the input."""

    near_loss: float
    """Typical L2 norm in the third of the layers that it reached first."""
    near_input: float
    """The same for the third that it reached last."""
    layers: int
    is_from_loss: bool = False
    """Whether `near_loss` is what the call began with, and `near_input` what comes to all layers, which may be beside
    each other: a product over time takes one factor from each."""

    @property
    def factor(self) -> float:
        """How many times as large it is near the input as near the loss."""
        return self.near_input / self.near_loss

    def in_words(self, share: str) -> str:
        """Who gets which share of what whom: ``the first layers get 0.001 of what the last ones get``."""
        if self.is_from_loss:
            return f"the layers get {share} the loss begins with"
        return f"the first layers get {share} the last ones get"


def descent(graph: Graph) -> Descent | None:
    """What arrived at the nodes that take a weight, in the engine's order; None where those are few."""
    return _descent([norm for _, norm in sorted(_arrivals_at_layers(graph))])


def descent_along(graph: Graph, growth: Growth) -> Descent | None:
    """What arrived at the nodes of one operation: for loops without weights. None where they are few."""
    return _descent([norm for node in growth.nodes if (norm := _norm(graph.nodes[node].arrived))])


def _descent(norms: list[float]) -> Descent | None:
    if len(norms) < MIN_LAYERS:
        return None
    third = len(norms) // 3
    return Descent(typical(norms[:third]), typical(norms[-third:]), len(norms))


def descent_from_loss(graph: Graph) -> Descent | None:
    """From what the call began with to the nodes that take a weight; None where those are few."""
    norms = [norm for _, norm in _arrivals_at_layers(graph)]
    began = _norm(root.gradient for root in graph.roots)
    if len(norms) < MIN_LAYERS or not began:
        return None
    return Descent(began, typical(norms), len(norms), is_from_loss=True)


def _arrivals_at_layers(graph: Graph) -> Iterator[tuple[int, float]]:
    for node in graph.nodes:
        norm = _norm(node.arrived)
        if node.run is not None and norm and _is_layer(graph, node):
            yield node.run.order, norm


def _is_layer(graph: Graph, node: Node) -> bool:
    """Whether it takes a weight, as it is or transposed. The transposition is none: its gradient is the weight's.

    Weights that are plain tensors count as well.
    """
    targets = [edge.target for edge in node.edges if edge is not None]
    return node.kind != "view" and any(leads_to_a_leaf(graph, target) for target in targets)


def growths(graph: Graph) -> list[Growth]:
    """Every operation that ran with known figures; the one that shrank gradients most comes first.

    A node's own part is the change of the norm between what arrived and what it sent to other operations. What it
    sends to a leaf, straight or by a transposition, ends there.
    """
    nodes: dict[str, list[tuple[int, int, float]]] = {}
    decades: dict[str, float] = {}
    for node in graph.nodes:
        change = _change(graph, node)
        if change is not None and node.run is not None:
            nodes.setdefault(node.name, []).append((node.run.order, node.id, _norm(node.arrived)))
            decades[node.name] = decades.get(node.name, 0.0) + change
    found = [
        Growth(
            name,
            tuple(number for _, number, _ in sorted(ran)),
            decades[name],
            _trend([came for *_, came in sorted(ran)]),
        )
        for name, ran in nodes.items()
    ]
    return sorted(found, key=lambda growth: (growth.decades, growth.operation))


def _change(graph: Graph, node: Node) -> float | None:
    came = _norm(node.arrived)
    went = _norm(
        sent
        for edge, sent in zip(node.edges, node.gradients, strict=False)
        if edge is not None and not leads_to_a_leaf(graph, edge.target)
    )
    return log10(went / came) if came and went else None


def _trend(arrivals: Sequence[float]) -> float:
    third = -(-len(arrivals) // 3)
    return log10(typical(arrivals[-third:]) / typical(arrivals[:third]))


def _norm(gradients: Iterable[TensorFigures | None]) -> float:
    """L2 norm of all of them together; zero where nothing is known."""
    return hypot(*(figures.norm for figures in gradients if figures is not None and figures.norm is not None))


def typical(sizes: Iterable[float]) -> float:
    """The median of their powers of ten."""
    return float(10 ** median(map(log10, sizes)))
