"""Finds where gradients become zero, NaN or Inf; nodes that only pass these on do not count.

A node that sends zero makes everything above it get zero. So the *origin* is separated from what follows: the node that
received a gradient and sent zero, nothing, NaN or Inf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal

from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph, Node
from gradviz.graph.traversal import behind_views

GradientState = Literal["fine", "zero", "none", "inf", "nan"]
"""``zero``: all elements are zero; ``none``: autograd got no tensor at all; ``inf`` and ``nan``: some element is."""
OriginKind = Literal["node", "zeros", "sum", "hook"]
"""``node``: a node made it from a fine gradient; ``zeros``: a node made it from zeros; ``sum``: branches cancel or
overflow in their sum; ``hook``: a hook changed what arrived."""

BROKEN: frozenset[GradientState] = frozenset({"inf", "nan"})
WORST_FIRST: tuple[GradientState, ...] = ("nan", "inf", "zero", "none")


@dataclass(frozen=True)
class GradientOrigin:
    """The change of a gradient to zero, nothing, NaN or Inf."""

    state: GradientState
    by: OriginKind
    is_aside: bool = False
    """Only leaves lose it, and the rest goes on: a weight gets zero if its factor is zero."""


@dataclass(frozen=True)
class GradientOrigins:
    """The gradients of one graph that are zero, missing, NaN or Inf, by node id."""

    arrived: dict[int, GradientState] = field(default_factory=dict)
    """The state of what arrived at each node, for all of its outputs together."""
    by_node: dict[int, GradientOrigin] = field(default_factory=dict)


def state_of(gradients: Iterable[TensorFigures | None]) -> GradientState | None:
    """The state of several gradients together; None if unknown."""
    # In one pass: a page asks this of every gradient.
    found: GradientState | Literal["unmeasured"] | None = None
    for each in gradients:
        if each is None:
            continue
        own = _state(each)
        if own == "nan":
            return "nan"
        if found is None or _RANKS[own] > _RANKS[found]:
            found = own
    return None if found == "unmeasured" else found


def _state(gradient: TensorFigures) -> GradientState | Literal["unmeasured"]:
    if gradient.nans:
        return "nan"
    if gradient.infs:
        return "inf"
    if gradient.unmeasured is not None:
        return "unmeasured"
    if gradient.is_undefined:
        return "none"
    return "zero" if gradient.zeros == gradient.count > 0 else "fine"


_RANKS = {"none": 0, "zero": 1, "fine": 2, "unmeasured": 3, "inf": 4, "nan": 5}
"""Of several gradients together, the state with the highest rank is that of all."""


def find_gradient_origins(graph: Graph) -> GradientOrigins:
    """Linear in the number of edges; empty if no gradients were recorded."""
    found = GradientOrigins()
    # Nearly all gradients are fine, and a quick check is enough for them.
    suspicious = [node for node in graph.nodes if any(map(_is_bad, node.arrived)) or any(map(_is_bad, node.gradients))]
    sent_to = _what_was_sent(graph, {node.id for node in suspicious})
    for node in suspicious:
        state = state_of(node.arrived)
        if state is not None and state != "fine":
            found.arrived[node.id] = state
        origin = _origin_in(graph, node, state) or _origin_above(node, sent_to)
        if origin is not None:
            found.by_node[node.id] = origin
    return found


def _is_bad(gradient: TensorFigures | None) -> bool:
    if gradient is None:
        return False
    # Without `TensorFigures.is_zero`: this is asked of every gradient.
    return bool(gradient.nans or gradient.infs or gradient.is_undefined or gradient.zeros == gradient.count > 0)


def _is_broken(gradient: TensorFigures | None) -> bool:
    return gradient is not None and bool(gradient.nans or gradient.infs)


def _origin_in(graph: Graph, node: Node, arrived: GradientState | None) -> GradientOrigin | None:
    """The origin in the gradients that a node sends; None if there is none, or if it is unknown what the node got.

    Edges to leaves that ``autograd.grad`` was not asked for do not count, because no node runs there.
    """
    if arrived is None or arrived in BROKEN:
        return None
    if arrived != "fine" and not any(map(_is_broken, node.gradients)):
        return None  # it passes on what it got, as in a network whose gradients have vanished nearly every node does
    sent = [
        (edge.target, state_of([gradient]))
        for edge, gradient in zip(node.edges, node.gradients, strict=False)
        if edge is not None and not (_is_nothing(gradient) and graph.nodes[edge.target].run is None)
    ]
    states = {state for _, state in sent}
    worst = next((state for state in WORST_FIRST if state in states), None)
    if worst is None or (worst not in BROKEN and arrived != "fine"):
        return None
    lost_to = (target for target, state in sent if state not in ("fine", None))
    is_aside = "fine" in states and worst not in BROKEN and all(leads_to_a_leaf(graph, target) for target in lost_to)
    return GradientOrigin(worst, "node" if arrived == "fine" else "zeros", is_aside)


def leads_to_a_leaf(graph: Graph, target: int) -> bool:
    """Whether an edge ends at a leaf, directly or through views: a linear layer transposes its weight."""
    return graph.nodes[behind_views(graph, target)[0]].is_leaf


def senders(graph: Graph) -> dict[int, set[int]]:
    """For each node the nodes that send gradients to it."""
    found: dict[int, set[int]] = {}
    for node in graph.nodes:
        for edge in node.edges:
            if edge is not None:
                found.setdefault(edge.target, set()).add(node.id)
    return found


def node_where_paths_split(above: Mapping[int, Set[int]], node: int) -> int | None:
    """The nearest node through which all gradients of `node` went; `above` is the result of `senders`.

    None if they come from several roots, or on very long paths.
    """
    # A sender has a larger number than its receiver, so the smallest node found is above none of the others.
    paths = sorted(above.get(node, ()))
    seen = set(paths)
    while len(paths) > 1:
        lowest = heappop(paths)
        if lowest not in above or len(seen) > _MAX_VISITED:
            return None
        for sender in above[lowest] - seen:
            seen.add(sender)
            heappush(paths, sender)
    return paths[0] if paths else None


_MAX_VISITED = 10_000


def _is_nothing(gradient: TensorFigures | None) -> bool:
    return gradient is not None and gradient.is_undefined


def _origin_above(node: Node, sent_to: dict[tuple[int, int], list[TensorFigures]]) -> GradientOrigin | None:
    """An origin between the senders and a node: in the sum of gradients, or in a hook on it."""
    for slot, arrived in enumerate(node.arrived):
        sent = sent_to.get((node.id, slot), ())
        state = state_of((arrived,)) if sent else None
        if state not in (None, "fine", "none") and _is_news(state, sent):
            return GradientOrigin(state, "hook" if node.hooks or len(sent) == 1 else "sum")
    return None


def _is_news(state: GradientState, sent: Sequence[TensorFigures]) -> bool:
    states = {_state(gradient) for gradient in sent}
    if "unmeasured" in states:
        return False
    return not states & BROKEN if state in BROKEN else "fine" in states


def _what_was_sent(graph: Graph, receivers: Set[int]) -> dict[tuple[int, int], list[TensorFigures]]:
    """The gradients sent to each output of these nodes; for a root also the one that backward started from."""
    sent: dict[tuple[int, int], list[TensorFigures]] = {}
    for target, slot, figures in _everything_sent(graph, receivers) if receivers else ():
        sent.setdefault((target, slot), []).append(figures)
    return sent


def _everything_sent(graph: Graph, receivers: Set[int]) -> Iterator[tuple[int, int, TensorFigures]]:
    for root in graph.roots:
        if root.gradient is not None and root.node in receivers:
            yield root.node, root.output_nr, root.gradient
    for node in graph.nodes:
        for edge, gradient in zip(node.edges, node.gradients, strict=False):
            if edge is not None and edge.target in receivers and gradient is not None:
                yield edge.target, edge.input_nr, gradient
