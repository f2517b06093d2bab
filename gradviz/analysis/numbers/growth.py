"""How a gradient grows or shrinks between the loss and the input, and which operation causes it.

It is measured between layers, not at weights: if activations grow as fast as gradients do, the gradients of all weights
are equally large, and equally wrong.
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
"""Fewer layers are no chain: a loss multiplied by a thousand is no exploding gradient."""


@dataclass(frozen=True)
class Growth:
    """How all nodes of one operation change the gradients that they get."""

    operation: str
    """``grad_fn.name()``."""
    nodes: tuple[int, ...]
    """In the order in which the engine ran them."""
    decades: float
    """Powers of ten, summed over the nodes: -3.0 for three nodes that each send a tenth of what they get."""
    trend: float
    """Powers of ten between the gradients at the first third of the nodes and at the last third: 0.0 for nodes in
    parallel branches, whose factors do not multiply."""

    @property
    def factor(self) -> float:
        """The typical factor of one node: 0.1 for a tenth."""
        return float(10 ** (self.decades / len(self.nodes)))


@dataclass(frozen=True)
class Descent:
    """The gradient near the loss and near the input, measured between layers."""

    near_loss: float
    """Typical L2 norm in the third of the layers that it reached first."""
    near_input: float
    """The same for the third that it reached last."""
    layers: int
    is_from_loss: bool = False
    """Whether `near_loss` is the gradient that the call started from, and `near_input` that of all layers together,
    which may be parallel: a product over time takes one factor from each."""

    @property
    def factor(self) -> float:
        """The ratio of the gradient near the input to that near the loss."""
        return self.near_input / self.near_loss

    def in_words(self, share: str) -> str:
        """``the first layers get 0.001 of what the last ones get``."""
        if self.is_from_loss:
            return f"the layers get {share} the loss begins with"
        return f"the first layers get {share} the last ones get"


def descent(graph: Graph) -> Descent | None:
    """The gradients at the nodes that use a weight, in the engine's order; None if there are only a few."""
    return _descent([norm for _, norm in sorted(_arrivals_at_layers(graph))])


def descent_along(graph: Graph, growth: Growth) -> Descent | None:
    """The gradients at the nodes of one operation, for loops without weights; None if there are only a few."""
    return _descent([norm for node in growth.nodes if (norm := _norm(graph.nodes[node].arrived))])


def _descent(norms: list[float]) -> Descent | None:
    if len(norms) < MIN_LAYERS:
        return None
    third = len(norms) // 3
    return Descent(typical(norms[:third]), typical(norms[-third:]), len(norms))


def descent_from_loss(graph: Graph) -> Descent | None:
    """From the root's gradient to the nodes that use a weight; None if there are only a few."""
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
    """Whether it uses a weight, directly or transposed. The transposition itself does not count: its gradient is that
    of the weight.

    Weights that are plain tensors count as well.
    """
    targets = [edge.target for edge in node.edges if edge is not None]
    return node.kind != "view" and any(leads_to_a_leaf(graph, target) for target in targets)


def growths(graph: Graph) -> list[Growth]:
    """Every operation that ran with measured gradients; the one that shrinks them most comes first.

    The change of a node is that of the norm between what it got and what it sent to other operations. What it sends to
    a leaf, directly or transposed, ends there.
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
    """L2 norm of all of them together; zero if nothing is known."""
    return hypot(*(figures.norm for figures in gradients if figures is not None and figures.norm is not None))


def typical(sizes: Iterable[float]) -> float:
    """The median of the powers of ten of these sizes."""
    return float(10 ** median(map(log10, sizes)))
