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
from gradviz.graph.traversal import ancestors, descendants, topological_order

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


@dataclass(frozen=True)
class Growths:
    """How gradients grow and shrink in one graph."""

    ordered: tuple[Growth, ...]
    """Every operation that ran with measured gradients; the one that shrinks them most comes first."""
    between_layers: Descent | None
    """The gradients at the nodes that use a weight, in the engine's order; None if there are only a few."""
    from_loss: Descent | None
    """From the root's gradient to the nodes that use a weight; None if there are only a few."""

    @classmethod
    def of(cls, graph: Graph) -> Growths:
        norms = [norm for _, norm, _ in sorted(_arrivals_at_layers(graph))]
        return cls(tuple(_ordered(graph)), _descent(norms), _descent_from_loss(graph, norms))


def descent_on_one_path(graph: Graph, growth: Growth) -> Descent | None:
    """As `Growths.between_layers`, at the layers before and behind one path through the nodes of an operation; None if
    there are only a few.

    Two terms of a loss go through layers of their own: the gradients of the one say nothing about those of the other,
    which may have a hundred times its weight. Where single numbers are added up, terms of a loss meet.
    """
    path, _ = _steepest_path(graph, growth)
    in_model = [node for node in path if not _gets_numbers(graph.nodes[node])] or path
    near = ancestors(graph, in_model[:1]) | descendants(graph, path[-1:])
    return _descent([norm for _, norm, node in sorted(_arrivals_at_layers(graph)) if node in near])


def _gets_numbers(node: Node) -> bool:
    """Whether every gradient that arrived at a node is that of a single number."""
    return all(figures is None or figures.count == 1 for figures in node.arrived)


def descent_along(graph: Graph, growth: Growth) -> Descent | None:
    """The gradients at the nodes of one operation, for loops without weights; None if there are only a few."""
    return _descent([norm for node in growth.nodes if (norm := _norm(graph.nodes[node].arrived))])


def _descent(norms: list[float]) -> Descent | None:
    if len(norms) < MIN_LAYERS:
        return None
    third = len(norms) // 3
    return Descent(typical(norms[:third]), typical(norms[-third:]), len(norms))


def _descent_from_loss(graph: Graph, norms: list[float]) -> Descent | None:
    began = _norm(root.gradient for root in graph.roots)
    if len(norms) < MIN_LAYERS or not began:
        return None
    return Descent(began, typical(norms), len(norms), is_from_loss=True)


def _arrivals_at_layers(graph: Graph) -> Iterator[tuple[int, float, int]]:
    """For every node that takes a weight: when it ran, the norm of its gradient, and its id."""
    for node in graph.nodes:
        norm = _norm(node.arrived)
        if node.run is not None and norm and _is_layer(graph, node):
            yield node.run.order, norm, node.id


def chain_above_layers(graph: Graph, growth: Growth, steep: float) -> Growth | None:
    """The nodes of `growth` on one path, if they change the gradient of every layer below by the factor `steep`.

    In a product, the gradient of each factor is multiplied by all the others, so all layers get little. With a
    running average or a decaying state, the last layer still gets the whole gradient. A gradient that is small because
    the loss is nearly zero is small before the chain begins.
    """
    path, changes = _steepest_path(graph, growth)
    chain = Growth(growth.operation, path, sum(changes), _trend([_norm(graph.nodes[node].arrived) for node in path]))
    if len(path) < MIN_LAYERS:
        return None
    first = path[1]  # path[0] may be one more of the loss's own, which scales it
    began, below = _norm(graph.nodes[first].arrived), ancestors(graph, [first])
    norms = [norm for _, norm, node in _arrivals_at_layers(graph) if node in below]
    if len(norms) < MIN_LAYERS or not began:
        return None
    nearest = log10((max(norms) if chain.decades < 0 else min(norms)) / began)
    is_steep = abs(nearest) >= log10(steep) and (nearest < 0) == (chain.decades < 0)
    # One node that does it all is no chain: so the typical one counts, and what arrives at all of them.
    parts = chain.trend, median(changes) * len(path)
    return chain if is_steep and min(part / nearest for part in parts) >= _LEAST_PART_OF_CHAIN else None


_LEAST_PART_OF_CHAIN = 1 / 3
"""Two thirds of a chain lie between the middles of its first and its last third, so that this is half of what it does.

Measured on programs whose layers get less than a millionth of what the loss begins with: 671 products of many factors
(probabilities, gates, survival, likelihoods), of which 666 are found, and 690 healthy ones whose loss is nearly zero or
scaled down (deep and residual networks, recurrent cells, running averages, discounted sums, transformers, heads beside
each other), of which none is. Any limit from 0.2 to 1/3 gives the same; 0.5 misses 44 products more.
"""


def _steepest_path(graph: Graph, growth: Growth) -> tuple[tuple[int, ...], list[float]]:
    """The nodes of `growth` on that path of the graph along which they change the gradient most, the last that was
    computed first; and by how many powers of ten each does."""
    sign = -1 if growth.decades < 0 else 1
    changes = {node: _change(graph, graph.nodes[node]) or 0.0 for node in growth.nodes}
    steepest: list[float] = [0.0] * len(graph.nodes)
    behind: list[int | None] = [None] * len(graph.nodes)
    for node in topological_order(graph):
        sources = [edge.target for edge in graph.nodes[node].edges if edge is not None]
        if sources:
            behind[node] = source = max(sources, key=steepest.__getitem__)
            steepest[node] = steepest[source]
        steepest[node] += sign * changes.get(node, 0.0)
    path: list[int] = []
    at: int | None = max(growth.nodes, key=steepest.__getitem__)
    while at is not None:
        path += [at] * (at in changes)
        at = behind[at]
    return tuple(path), [changes[each] for each in path]


def _is_layer(graph: Graph, node: Node) -> bool:
    """Whether it uses a weight, directly or transposed. The transposition itself does not count: its gradient is that
    of the weight.

    Weights that are plain tensors count as well.
    """
    targets = [edge.target for edge in node.edges if edge is not None]
    return node.kind != "view" and any(leads_to_a_leaf(graph, target) for target in targets)


def _ordered(graph: Graph) -> list[Growth]:
    """The change of a node is that of the norm between what it got and what it sent to other operations. What it sends
    to a leaf, directly or transposed, ends there."""
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
    sent = [
        figures
        for edge, figures in zip(node.edges, node.gradients, strict=False)
        if edge is not None and not leads_to_a_leaf(graph, edge.target)
    ]
    # A sum sends what it gets to each of its inputs: that is no growth along any path.
    went = max((_norm([each]) for each in sent), default=0.0) if node.name in _SUMS else _norm(sent)
    return log10(went / came) if came and went else None


_SUMS = frozenset({"AddBackward0", "SubBackward0"})


def _trend(arrivals: Sequence[float]) -> float:
    third = -(-len(arrivals) // 3)
    return log10(typical(arrivals[-third:]) / typical(arrivals[:third]))


def _norm(gradients: Iterable[TensorFigures | None]) -> float:
    """L2 norm of all of them together; zero if nothing is known."""
    return hypot(*(figures.norm for figures in gradients if figures is not None and figures.norm is not None))


def typical(sizes: Iterable[float]) -> float:
    """The median of the powers of ten of these sizes."""
    return float(10 ** median(map(log10, sizes)))
