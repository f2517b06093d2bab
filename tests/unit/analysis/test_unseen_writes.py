"""Writes through ``.data``, from logs and graphs made by hand."""

from __future__ import annotations

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.in_place.data_written_unseen import unseen_writes
from gradviz.graph.call_log import Call, CallLog, LoggedTensor, TensorUse
from gradviz.graph.model import BackwardCall, Graph, Node, Root
from gradviz.graph.tensor_facts import TensorFacts
from tests.unit.analysis.work import lines_run

FACTS = TensorFacts((), "float32")


def test_many_writes_before_one_backward_look_at_its_graph_once() -> None:
    def looked_for(size: int) -> int:
        leaf, result = TensorUse(0, "0", 0, True, True), TensorUse(1, "return", 0, True, False)
        forward = Call("torch.Tensor.exp", inputs=(leaf,), outputs=(result,), sequence_nr=0, node_count=1)
        writes = [Call("torch.Tensor.data.__set__", inputs=(leaf,)) for _ in range(size)]
        root = TensorUse(1, "root", 0, True, False)
        backward = Call("torch.autograd.backward", kind="backward", inputs=(root,), name="1")
        log = CallLog((forward, *writes, backward), (LoggedTensor(FACTS), LoggedTensor(FACTS)))
        nodes = tuple(Node(number, "ExpBackward0", sequence_nr=number) for number in range(size))
        graph = Graph(nodes, (Root(size - 1),), backward=BackwardCall(1))
        return lines_run(lambda: list(unseen_writes(BackwardCalls(Dataflow(log), (graph,)))))

    assert looked_for(400) < 5 * looked_for(100)
