"""Why a parameter got no gradient, and where one became zero."""

from __future__ import annotations

from gradviz.capture.capture import Capture, Parameter
from gradviz.graph.inner_backward import callers_of_backward, words_for_callers
from gradviz.graph.model import Graph, Node

NOT_IN_GRAPH = "not in the graph: the loss was not computed from it, or the path is cut"


def why_nothing_arrived(capture: Capture, graph: Graph, parameter: Parameter, leaf: Node | None) -> str:
    """A few words on why this parameter, whose leaf may not be in the graph, got nothing."""
    if not parameter.requires_grad:
        return "frozen (requires_grad=False)"
    if leaf is None:
        callers = callers_of_backward(graph)
        if callers:
            return f"not in the graph; perhaps used inside {words_for_callers(callers)}, and got its gradient there"
        return NOT_IN_GRAPH
    if leaf.run is not None:
        return "undefined: the node above sent None"
    if capture.error is not None and capture.error.in_backward:
        return "backward failed before it came here"
    if graph.backward is not None and graph.backward.function == "grad":
        return "autograd.grad was not asked for it"
    return "not run: backward was called for other inputs"


def where_it_became_zero(graph: Graph, leaf: Node) -> int | None:
    """The node that the engine ran last of those that got something else than zero, and sent zero towards `leaf`."""
    senders: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for edge, sent in zip(node.edges, node.gradients, strict=False):
            if edge is not None and sent is not None and sent.is_zero:
                senders.setdefault(edge.target, []).append(node)
    waiting, seen, makers = [leaf.id], {leaf.id}, []
    while waiting:
        for sender in senders.get(waiting.pop(), ()):
            if any(arrived is not None and not arrived.is_zero for arrived in sender.arrived):
                makers.append(sender)
            elif sender.id not in seen:
                seen.add(sender.id)
                waiting.append(sender.id)
    ran = [(node.run.order, node.id) for node in makers if node.run is not None]
    return max(ran)[1] if ran else None
