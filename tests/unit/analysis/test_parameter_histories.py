"""What happened to parameters, from logs made by hand."""

from __future__ import annotations

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.gradients.received_gradients import ReceivedGradients
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.capture.capture import Capture, Program
from gradviz.graph.call_log import Call, CallLog, LoggedOptimizer, LoggedTensor, TensorUse
from gradviz.graph.tensor_facts import TensorFacts
from tests.unit.analysis.work import lines_run


def test_finding_the_optimizers_of_all_parameters_visits_each_once() -> None:
    def looked_for(parameters: int) -> int:
        uses = tuple(TensorUse(number, "0", 0, True, True) for number in range(parameters))
        made = Call("torch.optim.SGD.add_param_group", kind="add_param_group", inputs=uses, optimizer=0)
        tensors = tuple(LoggedTensor(TensorFacts((), "float32")) for _ in uses)
        log = CallLog((made,), tensors, optimizers=(LoggedOptimizer("SGD"),))
        histories = ParameterHistories(Dataflow(log), ReceivedGradients(Capture(Program("train.py")), log))
        return lines_run(lambda: [histories.optimizers_of(number) for number in range(parameters)])

    assert looked_for(200) < 5 * looked_for(50)
