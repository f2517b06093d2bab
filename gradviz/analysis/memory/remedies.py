"""Copies that are kept beside their source, large storages kept for small views, float32 that autocast would halve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gradviz.analysis.memory.checkpointing import storages_of_outputs
from gradviz.analysis.memory.kept_memory import GraphMemory, StorageUse, line_of
from gradviz.graph.model import Graph
from gradviz.graph.query.operation_names import stem_of
from gradviz.graph.traversal import behind_views, topological_order

_COPIES = {
    "ToCopy": "the same values in another dtype or on another device",
    "Clone": "a copy",
    "Cat": "its parts side by side",
    "Stack": "its parts side by side",
    "Repeat": "the same values several times",
}
"""Operations that put the values of their inputs, unchanged, into a new storage."""

_STAYS_IN_FLOAT32 = frozenset(
    {
        *("Acos", "Asin", "Cosh", "Erfinv", "Exp", "Expm1", "Log", "Log10", "Log2", "Log1P", "Reciprocal", "Rsqrt"),
        *("Sinh", "Tan", "Pow", "Softplus", "NativeLayerNorm", "NativeGroupNorm", "Norm", "LinalgVectorNorm"),
        *("NuclearNorm", "CosineSimilarity", "Cdist", "Renorm", "BinaryCrossEntropyWithLogits", "MseLoss", "L1Loss"),
        *("HuberLoss", "SmoothL1Loss", "NllLoss", "NllLoss2D", "KlDiv", "LogSoftmax", "Softmax", "Prod"),
        *("Cumprod", "Cumsum", "Dist", "Sum", "LogSigmoid", "MultiMarginLoss", "SoftMarginLoss", "FusedRmsNorm"),
    }
)
"""What autocast always computes in float32; the list of torch's documentation, by node."""


@dataclass(frozen=True)
class SavedTwice:
    """Values that are kept in two storages."""

    bytes: int
    """Of the second one, which could be saved."""
    what: str
    operation: str
    """Name of the node that made the copy."""
    file: str | None
    line: int | None


def saved_twice(graph: Graph) -> list[SavedTwice]:
    """Copies that nodes keep in addition to the source; the largest first."""
    return sorted(_copies_beside_their_source(graph), key=lambda copy: -copy.bytes)


def _copies_beside_their_source(graph: Graph) -> Iterator[SavedTwice]:
    storages = storages_of_outputs(graph)
    reported: set[int] = set()
    for node in graph.nodes:
        copy = storages.get((node.id, 0))
        what = _COPIES.get(stem_of(node.name))
        if what is None or copy is None or copy in reported:
            continue
        edges = [edge for edge in node.edges if edge is not None]
        sources = [storages.get(behind_views(graph, edge.target, edge.input_nr)) for edge in edges]
        if sources and all(source is not None and source != copy for source in sources):
            reported.add(copy)
            yield SavedTwice(graph.storages[copy].bytes, what, node.name, *line_of(graph, node))


def large_for_small_views(memory: GraphMemory) -> list[StorageUse]:
    """Storages of which saved tensors cover less than half, and which nothing else is known to hold."""
    return [use for use in memory.storages if use.counts and not use.names and use.seen_bytes * 2 < use.bytes]


class Repeated(NamedTuple):
    """Several forward computations of one model that all wait for one backward."""

    path: str
    calls: int
    bytes: int
    """What they keep together."""
    is_chain: bool = False
    """Each call used the result of the call before, as in a recurrent network: no backward can run in between."""


def forwards_kept_at_once(graph: Graph, memory: GraphMemory) -> list[Repeated]:
    """Outermost modules that were called several times and kept memory each time: summed losses, or time steps."""
    bytes_of_call: Counter[int] = Counter()
    for use in memory.counted():
        scope = _outermost_call(graph, graph.nodes[use.held_by[0].node].scope)
        if scope is not None and use.kind == "intermediate":
            bytes_of_call[scope] += use.bytes
    by_path: dict[str, list[int]] = {}
    for scope, size in bytes_of_call.items():
        by_path.setdefault(graph.scopes[scope].path, []).append(size)
    found = [
        Repeated(path, len(sizes), sum(sizes), _feeds_itself(graph, path))
        for path, sizes in by_path.items()
        if len(sizes) > 1
    ]
    return sorted(found, key=lambda each: -each.bytes)


def _outermost_call(graph: Graph, scope: int | None) -> int | None:
    while scope is not None and (parent := graph.scopes[scope].parent) is not None:
        scope = parent
    return scope


def _feeds_itself(graph: Graph, path: str) -> bool:
    """Whether some call of the module was computed from the result of another call."""
    calls = [_outermost_call(graph, scope) for scope in range(len(graph.scopes))]
    came_from: dict[int, int] = {}
    for index in topological_order(graph):
        node = graph.nodes[index]
        call = calls[node.scope] if node.scope is not None else None
        before = {came_from[edge.target] for edge in node.edges if edge is not None and edge.target in came_from}
        if call is not None and graph.scopes[call].path == path and not node.is_leaf:
            if before - {call}:
                return True
            came_from[index] = call
        elif before:
            came_from[index] = max(before)
    return False


def halved_by_autocast(graph: Graph) -> int:
    """The bytes saved if every float32 storage that may be halved were halved: an upper limit."""
    may_be_halved: dict[int, bool] = {}
    for node in graph.nodes:
        for saved in node.saved:
            if saved.storage is not None:
                is_float32 = saved.tensor is not None and saved.tensor.dtype == "float32"
                fits = is_float32 and stem_of(node.name) not in _STAYS_IN_FLOAT32
                may_be_halved[saved.storage] = may_be_halved.get(saved.storage, True) and fits
    storages = (graph.storages[index] for index, fits in may_be_halved.items() if fits)
    return sum(storage.bytes // 2 for storage in storages if storage.kind == "intermediate")
