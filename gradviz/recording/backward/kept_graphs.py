"""Decides which graphs of a long run are kept: most of its thousands of steps show nothing new.

Kept are the first and the newest graph of each line that calls backward; those with a new symptom (a gradient that is
NaN, infinite, zero or missing, or the largest so far, by powers of ten); and the most recent others, up to a number of
nodes. So a run of any length needs bounded memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from threading import Lock

from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph

RECENT_NODES = 20_000
RECENT_GRAPHS = 100
MAX_KINDS = 16
"""Lines that call backward, with different roots."""
Symptom = tuple[str, Hashable]
"""What it is, and where."""
MAX_OF_A_SYMPTOM = 4
"""Graphs kept because of one symptom, for example because something in them is NaN for the first time."""


class KeptGraphs:
    """Gets each graph when its backward call has ended; returns those that are no longer needed."""

    def __init__(self, recent_nodes: int = RECENT_NODES) -> None:
        self._lock = Lock()
        self._max_recent_nodes = recent_nodes
        self._newest: dict[Hashable, int] = {}
        """Indices of graphs, by kind."""
        self._recent: dict[int, int] = {}
        """Number of nodes of each graph that is kept for a while, by index; the oldest comes first."""
        self._recent_nodes = 0
        self._seen: set[Symptom] = set()
        self._kept_for: Counter[str] = Counter()

    def add(self, index: int, graph: Graph) -> list[int]:
        """The graph with this index is complete; returns the indices of graphs to forget."""
        with self._lock:
            kind = _kind(graph)
            is_first = kind not in self._newest and len(self._newest) < MAX_KINDS
            if is_first or kind in self._newest:
                self._newest[kind] = index
            if not (self._has_new_symptom(graph) or is_first):
                self._recent[index] = len(graph.nodes)
                self._recent_nodes += len(graph.nodes)
            return list(self._too_old())

    def _has_new_symptom(self, graph: Graph) -> bool:
        found = set(_symptoms(graph)) - self._seen
        self._seen |= found
        words = {word for word, _ in found if self._kept_for[word] < MAX_OF_A_SYMPTOM}
        self._kept_for.update(words)
        return bool(words)

    def _too_old(self) -> Iterator[int]:
        newest = set(self._newest.values())
        for index in [index for index in self._recent if index not in newest]:
            if self._recent_nodes <= self._max_recent_nodes and len(self._recent) <= RECENT_GRAPHS:
                return
            self._recent_nodes -= self._recent.pop(index)
            yield index


def _kind(graph: Graph) -> Hashable:
    """What backward calls that come again with every step have in common."""
    call = graph.backward
    site = graph.call_sites[call.call_site] if call is not None and call.call_site is not None else None
    return site and (site.file, site.line), tuple(root.name for root in graph.roots)


def _symptoms(graph: Graph) -> Iterator[Symptom]:
    largest = 0.0
    for node in graph.nodes:
        for figures in node.arrived if node.is_leaf else node.gradients:
            if figures is not None:
                yield from _broken(figures, node.name)
                largest = max(largest, figures.norm or 0.0)
        if node.is_leaf and node.run is None:
            yield "missing", node.names or node.id
        elif node.is_leaf and any(figures is not None and figures.is_zero for figures in node.arrived):
            yield "zero", node.names or node.id
    if 0 < largest < math.inf:
        yield "large", math.floor(math.log10(largest))


def _broken(figures: TensorFigures, name: str) -> Iterator[Symptom]:
    if figures.nans:
        yield "NaN", name
    if figures.infs:
        yield "Inf", name
