"""Backward calls that a node makes itself while the engine runs it: reentrant checkpoints, reversible layers.

What such a call reaches gets its gradients, and is not in the graph of the call around it.
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
    """Marks the nodes of the graphs in `builder` that call backward while theirs runs."""

    def __init__(self, builder: CaptureBuilder) -> None:
        self._builder = builder
        self._running: dict[int, tuple[Walk, set[int]]] = {}
        """Of each call that runs now, by the place of its graph: the walk, and the places of such nodes in it."""

    @contextmanager
    def awaited(self, recorded: Recorded | None) -> Iterator[None]:
        """Around a backward call; its graph has the marks afterwards, also when the call raised."""
        if recorded is None:
            yield
            return
        places: set[int] = set()
        self._running[recorded.place] = recorded.walk, places
        try:
            yield
        finally:
            del self._running[recorded.place]
            if places:
                self._builder.graphs[recorded.place] = _marked(self._builder.graphs[recorded.place], places)

    def note(self) -> None:
        """A call from inside the engine is about to run; must not raise, as the program waits."""
        try:
            node = current_autograd_node()
            for walk, places in list(self._running.values()):
                place = walk.position.get(node)
                if place is not None:
                    places.add(place)
        except Exception as defect:
            self._builder.disclose_defect("a backward inside backward could not be noted", defect)


def _marked(graph: Graph, places: set[int]) -> Graph:
    nodes = list(graph.nodes)
    for place in places:
        nodes[place] = replace(nodes[place], calls_backward=True)
    return replace(graph, nodes=tuple(nodes))
