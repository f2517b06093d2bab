"""What a comparison needs of one rank: of fixed size, whatever its graphs hold, so that thousands stay in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import hypot

from msgspec import Struct

from gradviz.analysis.memory.kept_memory import OWNED_BY_MODULES
from gradviz.analysis.ranks.calls_of_rank import parameter_names, parameter_nodes
from gradviz.analysis.ranks.drift import moment_digests
from gradviz.capture.capture import Capture, Rank
from gradviz.capture.peer_traffic import PeerTraffic
from gradviz.graph.model import Graph, Node
from gradviz.graph.query.own_line import line_words, own_line

MAX_BACKWARD_CALLS = 64
"""Of a longer recording, the first and the last calls are compared."""


MAX_TRAFFIC = 8


class BackwardSummary(Struct, frozen=True):
    """One recorded backward call."""

    number: int
    line: str
    structure: str
    """A digest of operations, lines and edges."""
    parameters: str
    """A digest of the names of the parameters that its graph has."""
    gradients: str
    """A digest of the figures of the gradients that arrived at them: the rank's own ones."""
    norm: float | None
    """L2 norm of all these gradients; None if nothing was measured."""
    reduced_norm: float | None
    """The same of ``.grad``, if a wrapper made it out of the gradients of several ranks."""
    exchanged: int = 0
    """Bytes that it gave to others for its parameters: in backward, and in the forward before it."""
    waited: float | None = None
    """Seconds for which it stood still for that; None if nothing tells."""
    loss: float | None = None
    """The number on which backward was called, if values were recorded."""


class RankSummary(Struct, frozen=True):
    """One rank."""

    rank: Rank
    program: str
    outcome: str
    error: str | None
    backward_calls: int
    kept: int
    """Bytes that the largest of its graphs keeps until its backward has run, without parameters and buffers."""
    calls: dict[int, BackwardSummary]
    """By the number of the backward call."""
    replicas: bytes = b""
    """A digest of the parameters that all ranks should have alike, for each moment at which they were read."""
    moments: tuple[str, ...] = ()
    """What was read at these moments: `ReplicaMoment.kind`."""
    replicated: str = ""
    """A digest of the names of these parameters; empty if nothing keeps them alike."""
    traffic: tuple[PeerTraffic, ...] = ()
    """What it sent to single ranks and received from them: ranks that do so are stages of a pipeline, or similar."""
    parameter_bytes: tuple[int, int] = (0, 0)
    """What it has of the parameters of its modules, and what there is of them in the whole."""
    optimizer_bytes: tuple[int, int | None] | None = None
    """What it has of the state of its optimizers, and what there is of it in the whole, if a rank can know that; None
    if no optimizer was seen to step."""
    may_make_fewer_calls: bool = False
    """As in `Capture`."""
    is_tensor_parallel: bool = False
    """Whether it computes with distributed tensors, so that other ranks are meant to have the same data."""

    @property
    def last(self) -> BackwardSummary | None:
        """The last call that was recorded."""
        return self.calls[max(self.calls)] if self.calls else None


def summary_of(capture: Capture, rank: Rank) -> RankSummary:
    """The summary of a capture."""
    graphs = [graph for graph in capture.graphs if graph.backward is not None]
    if len(graphs) > MAX_BACKWARD_CALLS:
        graphs = [*graphs[: MAX_BACKWARD_CALLS // 2], *graphs[-MAX_BACKWARD_CALLS // 2 :]]
    return RankSummary(
        rank,
        capture.program.name,
        capture.outcome,
        None if capture.error is None else capture.error.type_name,
        capture.backward_calls,
        max((_kept_bytes(graph) for graph in graphs), default=0),
        {each.number: each for each in map(_of_call, graphs)},
        moment_digests(capture.replicas),
        () if capture.replicas is None else _shared(tuple(each.kind for each in capture.replicas.moments)),
        "" if capture.replicas is None else _digest(capture.replicas.names),
        capture.traffic[:MAX_TRAFFIC],
        parameter_bytes(capture),
        optimizer_bytes(capture),
        capture.may_make_fewer_calls,
        any(_is_distributed(node) for graph in graphs for node in parameter_nodes(graph)),
    )


def parameter_bytes(capture: Capture) -> tuple[int, int]:
    """What a rank has of its parameters, and what there is of them in the whole."""
    here = whole = 0
    for parameter in capture.parameters:
        if parameter.sharding is not None:
            here += parameter.sharding.bytes
            whole += parameter.sharding.whole_bytes
        else:
            size = parameter.tensor.bytes or 0
            here, whole = here + size, whole + size
    return here, whole


def optimizer_bytes(capture: Capture) -> tuple[int, int | None] | None:
    """The same of what its optimizers keep; None if none stepped."""
    if not capture.optimizers:
        return None
    wholes = [each.whole_bytes for each in capture.optimizers if each.whole_bytes is not None]
    is_known = len(wholes) == len(capture.optimizers)
    return sum(each.bytes for each in capture.optimizers), sum(wholes) if is_known else None


def _is_distributed(leaf: Node) -> bool:
    return any(tensor is not None and tensor.placements for tensor in leaf.outputs)


@lru_cache(maxsize=16)
def _shared(moments: tuple[str, ...]) -> tuple[str, ...]:
    """The same object for ranks that read at the same moments: most do."""
    return moments


def _of_call(graph: Graph) -> BackwardSummary:
    assert graph.backward is not None
    site = graph.backward.call_site
    return BackwardSummary(
        graph.backward.number,
        "" if site is None else line_words(graph.call_sites[own_line(graph.call_sites, site)]),
        _digest(_structure(graph)),
        _digest(sorted(parameter_names(graph))),
        _digest(_own_gradients(graph)),
        _total(node.arrived[0].norm for node in parameter_nodes(graph) if node.arrived and node.arrived[0] is not None),
        _total(
            left.after.norm
            for node in parameter_nodes(graph)
            if (left := node.leaf_gradient) is not None and left.reduced_by and left.after is not None
        ),
        sum(each.bytes if each.sent is None else each.sent for each in graph.exchanges),
        _waited(graph),
        _loss(graph),
    )


def _waited(graph: Graph) -> float | None:
    known = [each.waited for each in graph.exchanges if each.waited is not None]
    return sum(known) if known else None


def _loss(graph: Graph) -> float | None:
    if len(graph.roots) != 1:
        return None
    root = graph.roots[0]
    values = graph.nodes[root.node].values
    figures = values[root.output_nr] if root.output_nr < len(values) else None
    return float(figures.values[0]) if figures is not None and figures.values and len(figures.values) == 1 else None


def _kept_bytes(graph: Graph) -> int:
    return sum(storage.bytes for storage in graph.storages if storage.kind not in OWNED_BY_MODULES)


def _structure(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        edges = ",".join("-" if edge is None else f"{edge.target}:{edge.input_nr}" for edge in node.edges)
        line = "" if node.call_site is None else line_words(graph.call_sites[node.call_site])
        yield f"{node.name} {line} {edges}"


def _own_gradients(graph: Graph) -> Iterator[str]:
    for node in parameter_nodes(graph):
        figures = node.arrived[0] if node.arrived else None
        if figures is not None and figures.is_measured:
            yield f"{node.names[0]} {figures.norm!r} {figures.mean!r} {figures.minimum!r} {figures.maximum!r}"


def _digest(lines: Iterable[str]) -> str:
    digest, is_empty = hashlib.sha256(), True
    for line in lines:
        digest.update(f"{line}\n".encode())
        is_empty = False
    return "" if is_empty else digest.hexdigest()[:16]


def _total(norms: Iterable[float | None]) -> float | None:
    known = [norm for norm in norms if norm is not None]
    return hypot(*known) if known else None
