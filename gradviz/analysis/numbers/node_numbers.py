"""The numbers of one node of a capture: its inputs, the gradient that arrived, saved tensors, and what it sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec import Struct

from gradviz.analysis.finding import location_of_line, text_at
from gradviz.analysis.numbers.node_inputs import NamedTensor, have_complex_numbers, named_edges, node_inputs
from gradviz.analysis.numbers.node_results import arrived_gradients, node_results
from gradviz.capture.capture import Capture
from gradviz.formulas.derivative import Derivative
from gradviz.graph.gradients import LeafGradient, holds_numbers
from gradviz.graph.model import Attribute, Graph, Node
from gradviz.graph.query.operation_names import autograd_name
from gradviz.graph.query.own_line import own_line
from gradviz.graph.saved_tensors import SavedTensor


class NodeNumbers(Struct, frozen=True, omit_defaults=True):
    """One node of a capture."""

    id: int
    name: str
    backward: int | None = None
    """The number of the backward call in the run, from 1."""
    file: str | None = None
    line: int | None = None
    source: str = ""
    """Text of that line."""
    function: str = ""
    """The torch function that was called."""
    module: str = ""
    inputs: tuple[NamedTensor, ...] = ()
    attributes: dict[str, Attribute] = {}
    arrived: tuple[NamedTensor, ...] = ()
    results: tuple[NamedTensor, ...] = ()
    sent: tuple[NamedTensor, ...] = ()
    saved: tuple[SavedTensor, ...] = ()
    leaf_gradient: LeafGradient | None = None
    """Of a leaf: its ``.grad`` before and after."""
    hooks: tuple[str, ...] = ()
    has_run: bool = False
    unsaid: tuple[str, ...] = ()
    """Why numbers are missing, and how to get them."""


def node_numbers(capture: Capture, graph: Graph, node: Node, derivative: Derivative | None) -> NodeNumbers:
    """Everything in the capture about one node of `graph`."""
    return _Numbers(capture, graph, node, derivative).all()


@dataclass(frozen=True)
class _Numbers:
    capture: Capture
    graph: Graph
    node: Node
    derivative: Derivative | None

    def all(self) -> NodeNumbers:
        node, graph = self.node, self.graph
        inputs, results = node_inputs(graph, node, self.derivative), node_results(node, self.derivative)
        site = None if node.call_site is None else graph.call_sites[own_line(graph.call_sites, node.call_site)]
        return NodeNumbers(
            id=node.id,
            name=node.name,
            backward=graph.backward.number if graph.backward else None,
            file=site.file if site else None,
            line=site.line if site else None,
            source=text_at(self.capture.sources, location_of_line(site)).strip(),
            function=node.forward_call or "",
            module=graph.scopes[node.scope].path if node.scope is not None else "",
            inputs=inputs,
            attributes=node.attributes,
            arrived=arrived_gradients(node),
            results=results,
            sent=tuple(self._sent()),
            saved=node.saved,
            leaf_gradient=node.leaf_gradient,
            hooks=node.hooks,
            has_run=node.run is not None,
            unsaid=tuple(self._unsaid((*inputs, *results))),
        )

    def _sent(self) -> Iterator[NamedTensor]:
        for (name, edge), figures in zip(named_edges(self.node, self.derivative), self.node.gradients, strict=False):
            if edge is not None:
                receiver = self.graph.nodes[edge.target]
                yield NamedTensor(name, receiver.names, None, figures, receiver.id, autograd_name(receiver))

    def _unsaid(self, tensors: Iterable[NamedTensor]) -> Iterator[str]:
        if self.graph.backward is None:
            yield "no backward was recorded with this graph, so there are no gradients"
        elif self.graph.failed_node == self.node.id:
            yield "backward raised in this node, so it sent nothing"
        elif self.node.run is None:
            yield "the engine did not run this node, or it was not measured"
        if have_complex_numbers(tensors):
            yield "for complex tensors only norms are recorded, not single numbers"
        elif not any(holds_numbers(node.values) for node in self.graph.nodes):
            yield "no tensor's numbers are recorded here: record with --values, or --values-up-to N for larger tensors"
