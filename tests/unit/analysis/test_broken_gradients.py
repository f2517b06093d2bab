"""Where the first NaN of a run began, from graphs made by hand."""

from __future__ import annotations

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.numbers.broken_gradients import BrokenGradients
from gradviz.graph.call_log import CallLog
from gradviz.graph.gradients import NodeRun
from gradviz.graph.model import BackwardCall, Edge, Graph, Node, Root
from tests.unit.analysis.test_gradient_origins import FINE, NAN
from tests.unit.analysis.work import lines_run


def masked_again_and_again(length: int) -> Graph:
    """Every second node makes NaN, the next one drops it, and backward failed at a node that none of it reaches."""
    states = ((FINE, NAN), (NAN, FINE))
    nodes = [
        Node(number, "ExpBackward0", edges=(Edge(number - 1),), arrived=(came,), gradients=(sent,), run=NodeRun(0))
        for number in range(1, length)
        for came, sent in [states[number % 2]]
    ]
    return Graph(
        (Node(0, "Root", edges=()), *nodes), (Root(length - 1),), backward=BackwardCall(1, failed_node=length - 1)
    )


def test_origins_that_reach_no_broken_leaf_are_left_out_in_one_pass() -> None:
    def looked_for(length: int) -> int:
        graph = masked_again_and_again(length)
        return lines_run(BrokenGradients(BackwardCalls(Dataflow(CallLog()), (graph,))).first)

    assert looked_for(401) < 5 * looked_for(101)
