"""Leaves whose gradient is only rounding error at every recorded step: what arrives on several paths, or from several
elements, cancels out.

What is the same for all members of a softmax has no influence on it, and the sum of its gradients is zero in theory; in
floating point a few last digits are left, so that it is not exactly zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.numbers.gradient_origins import leads_to_a_leaf, node_where_paths_split, senders
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import CallSite, Graph, Node


class Cancelling(Struct, frozen=True):
    """A place where gradients cancel out."""

    node: int
    """The node that sends a sum of elements, or at which several paths meet."""
    is_meeting: bool


class RoundingGradient(Struct, frozen=True):
    """A leaf that gets only rounding errors."""

    leaf: str
    graph: int
    """The last graph that it is in."""
    leaf_node: int
    at: Cancelling
    """Where the gradients cancel out; of several places, the nearest to the loss."""
    split: int | None
    """If paths meet there: the node from which they all come; None if there is no single one."""
    steps: int
    """In how many graphs it does."""
    backward: CallSite | None = None
    """The backward call whose graphs these are, if other calls bring it more; else None."""
    of: int = 0
    """If so, how many graphs this call has."""


_History = list[tuple[int, int, Cancelling | None]]
"""The graphs that have a gradient for a leaf, its node there, and where its gradient cancels out."""


def rounding_gradients(graphs: Sequence[Graph]) -> Iterator[RoundingGradient]:
    """The leaves of whom this is true in every graph that has a gradient for them, at least in `MIN_STEPS`; otherwise
    in most graphs of one backward call."""
    histories: dict[str, _History] = defaultdict(list)
    for number, graph in enumerate(graphs):
        origins = _origins_by_receiver(graph)
        for leaf in graph.leaves:
            if leaf.names and any(each is not None and each.norm is not None for each in leaf.arrived):
                histories[leaf.names[0]].append((number, leaf.id, origins.get(leaf.id)))
    for name, with_zeros in histories.items():
        history = [each for each in with_zeros if _is_not_zero(graphs[each[0]].nodes[each[1]])]
        if len(history) >= MIN_STEPS and all(at is not None for *_, at in history):
            yield _found(graphs, name, history)
            continue
        by_call: dict[CallSite | None, _History] = defaultdict(list)
        for each in with_zeros if history else ():
            by_call[_call_site(graphs[each[0]])].append(each)
        for site, of_call in by_call.items() if len(by_call) > 1 else ():
            cancelled = [each for each in of_call if each[2] is not None and each[2].is_meeting]
            if site is not None and len(cancelled) >= max(MIN_STEPS, _MOST * len(of_call)):
                yield replace(_found(graphs, name, cancelled), backward=site, of=len(of_call))


def _is_not_zero(leaf: Node) -> bool:
    return any(each is not None and each.norm for each in leaf.arrived)


def _found(graphs: Sequence[Graph], name: str, history: _History) -> RoundingGradient:
    number, leaf_node, at = history[-1]
    assert at is not None
    split = node_where_paths_split(senders(graphs[number]), at.node) if at.is_meeting else None
    return RoundingGradient(name, number, leaf_node, at, split, len(history))


def _call_site(graph: Graph) -> CallSite | None:
    site = None if graph.backward is None else graph.backward.call_site
    return None if site is None else graph.call_sites[site]


MIN_STEPS = 3
_MOST = 0.7
"""A factor that is computed from what it divides cancels it where all have one sign, which may come during training."""


def _origins_by_receiver(graph: Graph) -> dict[int, Cancelling]:
    """For each node that gets rounding errors only: where they begin.

    Each sender has a larger number than its receivers, so one pass is enough.
    """
    sent: dict[int, list[tuple[float, Cancelling | None]]] = defaultdict(list)
    found: dict[int, Cancelling] = {}
    for node in reversed(graph.nodes):
        own = _origin_of(graph, node, sent.pop(node.id, []))
        if own is not None:
            found[node.id] = own
        for edge, figures in zip(node.edges, node.gradients, strict=False):
            if edge is not None and figures is not None and (figures.norm or (own is not None and figures.norm == 0)):
                is_lost = own is None and _cancels_in(graph, node, edge.target, figures)
                sent[edge.target].append((figures.norm, Cancelling(node.id, is_meeting=False) if is_lost else own))
    return found


def _origin_of(graph: Graph, node: Node, sent: list[tuple[float, Cancelling | None]]) -> Cancelling | None:
    """Where the rounding errors begin that are all that a node gets; None if it gets more."""
    if not sent:
        return None
    fine = [norm for norm, origin in sent if origin is None]
    if not fine:
        return max((origin for _, origin in sent if origin is not None), key=lambda origin: origin.node)
    arrived, limit = _norm(node.arrived), _limit(node.arrived)
    is_shift = node.is_leaf or _is_lookup_of_leaf(graph, node)
    is_lost = arrived is not None and len(fine) > 1 and arrived <= limit * max(fine) and not is_shift
    return Cancelling(node.id, is_meeting=True) if is_lost else None


def _cancels_in(graph: Graph, node: Node, target: int, figures: TensorFigures) -> bool:
    """Whether a node sends the sum of elements that cancel out.

    Not to a leaf: a bias before a normalization or a softmax has no influence there, and that is how most are built.
    """
    arrived = _norm(node.arrived)
    if arrived is None or figures.norm is None or not (_sums_up(node) and len(figures.shape) > 0):
        return False
    return figures.norm <= _limit(node.arrived) * arrived and not leads_to_a_leaf(graph, target)


def _sums_up(node: Node) -> bool:
    """Whether what it sends is a sum of elements of what it got, where it took some of them several times."""
    return node.name.rstrip("0123456789") in _SUM_UP


_SUM_UP = frozenset(
    f"{name}Backward" for name in ("Add", "Sub", "Expand", "Index", "IndexSelect", "Gather", "Repeat", "Take")
)
_LOOK_UP = frozenset(f"{name}Backward" for name in ("Embedding", "Index", "IndexSelect", "Gather"))
_LIMITS = {"float32": 2e-6, "float64": 4e-15}
"""The norm of rounding errors, as a share of what cancelled out; other dtypes round too much to tell."""


def _is_lookup_of_leaf(graph: Graph, node: Node) -> bool:
    targets = [edge.target for edge in node.edges if edge is not None]
    return node.name.rstrip("0123456789") in _LOOK_UP and all(leads_to_a_leaf(graph, target) for target in targets)


def _norm(arrived: Sequence[TensorFigures | None]) -> float | None:
    """The norm of what arrived for the only output; None if there are several, or if it is not measured."""
    first = arrived[0] if len(arrived) == 1 else None
    return None if first is None else first.norm


def _limit(arrived: Sequence[TensorFigures | None]) -> float:
    first = arrived[0] if arrived else None
    return 0.0 if first is None else _LIMITS.get(first.dtype, 0.0)
