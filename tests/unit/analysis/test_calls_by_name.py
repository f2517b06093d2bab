"""Calls found by the names of their functions, and what they changed, from logs made by hand."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import calls_named
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.refused_calls import views_between
from gradviz.analysis.rules.bases.losses.targets.fitted_values import fitted_values
from gradviz.graph.call_log import Call, CallLog, LoggedTensor, TensorUse
from gradviz.graph.tensor_facts import TensorFacts
from tests.unit.analysis.work import lines_run

FACTS = TensorFacts((4,), "float32")


def use(tensor: int, place: str = "0", version: int = 0, *, live: bool = False) -> TensorUse:
    return TensorUse(tensor, place, version, live, is_leaf=True)


def test_calls_of_all_spellings_come_in_the_order_of_the_log() -> None:
    functions = ("torch.Tensor.__rsub__", "torch.Tensor.mul", "torch.sub", "torch.Tensor.sub_")
    flow = Dataflow(CallLog(tuple(Call(function) for function in functions)))
    assert [(row, call.function) for row, call in calls_named(flow, ("sub",))] == [
        (0, "torch.Tensor.__rsub__"),
        (2, "torch.sub"),
        (3, "torch.Tensor.sub_"),
    ]


def test_a_view_leads_to_the_calls_that_made_it_and_not_to_others_of_the_same_memory() -> None:
    calls = (
        Call("torch.Tensor.select", inputs=(use(0),), outputs=(use(1, "return"),)),
        Call("torch.Tensor.view", inputs=(use(0),), outputs=(use(2, "return"),)),
        Call("torch.Tensor.view", inputs=(use(1),), outputs=(use(3, "return"),)),
        Call("torch.Tensor.clone", inputs=(use(3),), outputs=(use(4, "return"),)),
    )
    tensors = tuple(LoggedTensor(FACTS, storage=storage) for storage in (0, 0, 0, 0, 1))
    flow = Dataflow(CallLog(calls, tensors))
    assert [views_between(flow, tensor, 4) for tensor in (2, 3, 4)] == [(1,), (0, 2), ()]


def test_a_parameter_moved_in_place_at_each_step_is_looked_through_once() -> None:
    def looked_for(size: int) -> int:
        moves = [
            Call(
                "torch.Tensor.sub_",
                inputs=(use(0, version=each, live=True), use(1, "1")),
                outputs=(use(0, "return", each + 1, live=True),),
            )
            for each in range(size)
        ]
        flow = Dataflow(CallLog(tuple(moves), (LoggedTensor(FACTS), LoggedTensor(FACTS))))
        return lines_run(lambda: list(fitted_values(flow)))

    assert looked_for(400) < 5 * looked_for(100)
