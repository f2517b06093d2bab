"""Notes backward calls that a node makes while the engine runs it: reentrant checkpoints, reversible layers.

The nodes that such a call reaches get their gradients, but are not in the graph of the outer call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from gradviz.graph.model import Graph
from gradviz.recording.torch_access.engine import current_autograd_node
from gradviz.recording.walk.capture_builder import CaptureBuilder, Recorded
from gradviz.recording.walk.graph_walker import Walk


class InnerBackwards:
    """Marks the nodes that call backward, in the graphs in `builder`."""

    def __init__(self, builder: CaptureBuilder) -> None:
        self._builder = builder
        self._running: dict[int, tuple[Walk, set[int]]] = {}
        """For each call that runs now, by index of its graph: the walk, and the indices of such nodes."""

    @contextmanager
    def awaited(self, recorded: Recorded | None) -> Iterator[None]:
        """Wrap a backward call; afterwards its graph has the marks, also if the call raised."""
        if recorded is None:
            yield
            return
        indices: set[int] = set()
        self._running[recorded.graph_index] = recorded.walk, indices
        try:
            yield
        finally:
            del self._running[recorded.graph_index]
            if indices:
                self._builder.graphs[recorded.graph_index] = _marked(
                    self._builder.graphs[recorded.graph_index], indices
                )

    def note(self) -> None:
        """A call from inside the engine is about to run. Must not raise: the program waits for it."""
        try:
            node = current_autograd_node()
            for walk, indices in list(self._running.values()):
                index = walk.position.get(node)
                if index is not None:
                    indices.add(index)
        except Exception as defect:
            self._builder.disclose_defect("a backward inside backward could not be noted", defect)


def _marked(graph: Graph, indices: set[int]) -> Graph:
    nodes = list(graph.nodes)
    for index in indices:
        nodes[index] = replace(nodes[index], calls_backward=True)
    return replace(graph, nodes=tuple(nodes))
