"""Which backward calls of two recordings belong together, and which differ in number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.analysis.diff.difference import Change
from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph
from gradviz.graph.number_words import counted


@dataclass(frozen=True)
class GraphPair:
    """Two graphs, one of each recording."""

    a: Graph
    b: Graph

    @property
    def words(self) -> str:
        """``backward 3``, ``backward 3 (A) and 4 (B)``; empty for graphs without a backward call."""
        a, b = number_of(self.a), number_of(self.b)
        if a is None or b is None:
            return ""
        return f"backward {a}" if a == b else f"backward {a} (A) and {b} (B)"


def number_of(graph: Graph) -> int | None:
    """The number of its backward call."""
    return None if graph.backward is None else graph.backward.number


def graph_pairs(one: Capture, other: Capture, chosen: tuple[int | None, int | None]) -> list[GraphPair]:
    """The graphs of backward calls with the same number; if a graph was chosen, it and the chosen or first other one.

    Graphs of no backward call belong together by order.
    """
    if not one.graphs or not other.graphs:
        return []
    if chosen != (None, None):
        return [GraphPair(one.graphs[chosen[0] or 0], other.graphs[chosen[1] or 0])]
    numbered = {number_of(graph): graph for graph in other.graphs}
    if None in numbered or any(graph.backward is None for graph in one.graphs):
        return [GraphPair(*pair) for pair in zip(one.graphs, other.graphs, strict=False)]
    pairs = [GraphPair(graph, numbered[number_of(graph)]) for graph in one.graphs if number_of(graph) in numbered]
    return pairs or [GraphPair(one.graphs[0], other.graphs[0])]


def calls_changed(one: Capture, other: Capture, chosen: tuple[int | None, int | None]) -> Iterator[Change]:
    """Another number of backward calls, unless single ones are compared or one of the scripts was stopped early."""
    if chosen != (None, None) or one.outcome != other.outcome or one.outcome == "interrupted":
        return
    if one.backward_calls != other.backward_calls:
        times = counted(one.backward_calls, "time")
        yield Change("backward", f"backward is called {times} in A, {counted(other.backward_calls, 'time')} in B")


def not_compared(one: Capture, other: Capture, pairs: list[GraphPair]) -> Iterator[str]:
    """What is said where graphs of one recording have no counterpart."""
    left = len(one.graphs) + len(other.graphs) - 2 * len(pairs)
    if left and pairs and len(one.graphs) + len(other.graphs) > 2:
        compared = counted(len(pairs), "backward call")
        yield f"gradients of {compared} are compared; of {counted(left, 'other')}, only one recording has a graph"
