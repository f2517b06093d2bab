"""A capture under examination: what several rules ask of it is worked out once."""

from __future__ import annotations

from functools import cache, cached_property

from gradviz.analysis.dataflow import Dataflow
from gradviz.analysis.finding import NodeAt, Place
from gradviz.analysis.gradient_flow import GradientFlow, gradient_flow, has_gradients
from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph
from gradviz.graph.source_lines import readers_lines


class Case:
    """What rules look at. Everything is read from the capture, so a saved file is examined like a run."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.flow_of = cache(self._flow_of)
        self._readers_lines_of = cache(lambda number: readers_lines(self.graphs[number]))

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """In the order in which their backward calls came."""
        return self.capture.graphs

    @cached_property
    def dataflow(self) -> Dataflow | None:
        """The torch calls of the run; None for a capture that was made without them."""
        return None if self.capture.calls is None else Dataflow(self.capture.calls)

    @cached_property
    def measured_graphs(self) -> tuple[int, ...]:
        """Numbers of the graphs whose gradients were measured."""
        return tuple(number for number, graph in enumerate(self.graphs) if has_gradients(graph))

    def place_of(self, number: int, node: int) -> Place | None:
        """The innermost line of the reader's own code that made a node of a graph; a library's if there is no other."""
        graph = self.graphs[number]
        site = graph.nodes[node].call_site
        if site is None:
            return None
        line = graph.call_sites[self._readers_lines_of(number)[site]]
        return Place(line.file, line.line)

    def source_line(self, place: Place | None) -> str | None:
        """The text of a line, where the capture holds it."""
        return None if place is None else self.capture.sources.get(place.file, {}).get(place.line)

    def marks(self, number: int, nodes: tuple[int, ...]) -> tuple[NodeAt, ...]:
        """The nodes of a graph as a finding names them."""
        return tuple(NodeAt(number, node) for node in nodes)

    def _flow_of(self, number: int) -> GradientFlow:
        return gradient_flow(self.capture, self.graphs[number])
