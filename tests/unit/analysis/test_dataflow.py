"""Answers from the calls of a run, from logs made by hand."""

from __future__ import annotations

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, CallLog, LoggedTensor, TensorUse, ValueFacts
from gradviz.graph.tensor_facts import TensorFacts
from tests.unit.analysis.work import lines_run

TWOS, THREES = (ValueFacts(count=1, minimum=value, maximum=value) for value in (2.0, 3.0))


def use(tensor: int, place: str = "0", values: ValueFacts | None = None) -> TensorUse:
    return TensorUse(tensor, place, 0, False, True, values)


def log(*calls: Call) -> CallLog:
    tensors = {use.tensor for call in calls for use in (*call.inputs, *call.outputs)}
    return CallLog(calls, tuple(LoggedTensor(TensorFacts((), "float32")) for _ in range(max(tensors) + 1)))


def test_values_are_those_that_were_read_last_before_the_call() -> None:
    weight = 0
    flow = Dataflow(
        log(
            Call("torch.Tensor.sin", inputs=(use(weight, values=TWOS),)),
            Call("torch.Tensor.cos", inputs=(use(weight),)),
            Call("torch.Tensor.add_", inputs=(use(weight),), outputs=(use(weight, "return", THREES),)),
            Call("torch.Tensor.cos", inputs=(use(weight),)),
        )
    )
    assert [flow.values(weight, row) for row in range(4)] == [TWOS, TWOS, TWOS, THREES]


def test_asking_for_the_values_of_a_weight_at_every_use_takes_no_longer_for_the_late_ones() -> None:
    def asked_at_every_use(steps: int) -> int:
        first = Call("torch.Tensor.sin", inputs=(use(0, values=TWOS),))
        flow = Dataflow(log(first, *(Call("torch.Tensor.sin", inputs=(use(0),)) for _ in range(steps))))
        return lines_run(lambda: [flow.values(0, row) for row in range(steps)])

    assert asked_at_every_use(400) < 5 * asked_at_every_use(100)
