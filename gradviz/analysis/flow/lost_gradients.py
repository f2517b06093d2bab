"""Why a parameter got no gradient, and where one became zero."""

from __future__ import annotations

from functools import cached_property

from gradviz.capture.capture import Capture, Parameter
from gradviz.graph.inner_backward import callers_of_backward, words_for_callers
from gradviz.graph.model import Graph, Node
from gradviz.graph.traversal import topological_order

NOT_IN_GRAPH = "not in the graph: the loss was not computed from it, or the path is cut"


class LostGradients:
    """Answers for all leaves of one graph, with one pass over it."""

    def __init__(self, capture: Capture, graph: Graph) -> None:
        self._capture, self._graph = capture, graph

    def why_nothing_arrived(self, parameter: Parameter, leaf: Node | None) -> str:
        """In a few words, why this parameter, whose leaf may not be in the graph, got nothing."""
        if not parameter.requires_grad:
            return "frozen (requires_grad=False)"
        if leaf is None and parameter.gets_reduced_gradient:
            return "not used on this rank: its .grad is made of the gradients of other ranks"
        if leaf is None:
            return self._why_not_in_graph
        if leaf.run is not None:
            return "undefined: the node above sent None"
        if self._capture.error is not None and self._capture.error.in_backward:
            return "backward failed before it came here"
        if self._graph.backward is not None and self._graph.backward.function == "grad":
            return "autograd.grad was not asked for it"
        return "not run: backward was called for other inputs"

    @cached_property
    def _why_not_in_graph(self) -> str:
        callers = callers_of_backward(self._graph)
        if callers:
            return f"not in the graph; perhaps used inside {words_for_callers(callers)}, and got its gradient there"
        return NOT_IN_GRAPH

    def where_it_became_zero(self, leaf: Node) -> int | None:
        """The last node in the engine's order that got a gradient other than zero and from which `leaf` got zero."""
        found = self._last_makers.get(leaf.id)
        return None if found is None else found[1]

    @cached_property
    def _last_makers(self) -> dict[int, tuple[int, int]]:
        """For each node that got zero, when the last node that made such a zero ran, and that node."""
        found: dict[int, tuple[int, int]] = {}
        for number in reversed(topological_order(self._graph)):
            node = self._graph.nodes[number]
            own = found.get(number)
            if any(arrived is not None and not arrived.is_zero for arrived in node.arrived):
                own = None if node.run is None else (node.run.order, number)
            for edge, sent in zip(node.edges, node.gradients, strict=False):
                if own is not None and edge is not None and sent is not None and sent.is_zero:
                    found[edge.target] = max(own, found.get(edge.target, own))
        return found
