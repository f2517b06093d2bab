"""Every torch call is logged if that is asked for, with the tensors that it took and returned."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace as replace_in
from torch import Tensor, nn

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.call_log import Call, CallLog, TensorUse, ValueFacts
from gradviz.recording.calls.rows import Row, Rows
from gradviz.recording.run.recording_plan import RecordingPlan
from tests.integration.recording.helpers import EVERY_BACKWARD, record, recorded_script
from tests.integration.recording.small_graphs import weight
from tests.leftovers import random_state

WITH_CALLS = replace(EVERY_BACKWARD, calls=True)


def log_of(program: Callable[[], Any], plan: RecordingPlan = WITH_CALLS) -> CallLog:
    """The log of a program, which goes through a file unchanged."""
    capture = record(program, plan).capture
    assert read_capture(write_capture(capture), "run.gradviz") == capture
    assert capture.calls is not None
    return capture.calls


def calls_of(log: CallLog, name: str) -> list[Call]:
    return [call for call in log.calls if call.function.rpartition(".")[2] == name]


def the_call(log: CallLog, name: str) -> Call:
    (call,) = calls_of(log, name)
    return call


def flags(use: TensorUse) -> tuple[int | None, bool, bool]:
    return use.version, use.requires_grad, use.has_grad_fn


def test_a_leaf_made_of_a_view_of_data_is_a_leaf() -> None:
    def program() -> Tensor:
        row = torch.ones(2, 2)[0].zero_()  # a view whose base was changed
        return (row.requires_grad_() * 2).sum()

    (row,) = the_call(log_of(program), "mul").inputs
    assert (flags(row), row.is_leaf) == ((1, True, False), True)


@pytest.mark.parametrize("is_in_optimizer_before", [False, True])
def test_a_lazy_weight_has_the_shape_and_memory_that_its_module_gave_it(is_in_optimizer_before: bool) -> None:
    layer = nn.LazyLinear(1)

    def program() -> Tensor:
        if is_in_optimizer_before:
            torch.optim.SGD(layer.parameters(), lr=0.1)
        layer(torch.ones(2, 3))
        return layer(torch.ones(5, 3)).sum() + layer.weight.view(3).sum()

    log = log_of(program)
    weight, bias = (log.tensors[use.tensor] for use in calls_of(log, "linear")[-1].inputs[1:])
    (flat,) = the_call(log, "view").outputs
    assert (weight.facts.shape, bias.facts.shape) == ((1, 3), (1,))
    assert (weight.role, weight.storage) == ("parameter", log.tensors[flat.tensor].storage)


def test_a_single_complex_number_is_logged_with_its_values() -> None:
    log = log_of(lambda: torch.complex(weight(2), torch.ones(2)).sum().abs())
    assert the_call(log, "sum").outputs[0].values == ValueFacts(1, 2.0, 2.0, 0)


def test_a_logged_call_has_its_inputs_and_outputs() -> None:
    w, x = weight(2), torch.tensor([0.0, 3.0])
    log = log_of(lambda: (w * x).detach())
    product, detach = the_call(log, "mul"), the_call(log, "detach")
    assert [(use.place, flags(use)) for use in product.inputs] == [("0", (0, True, False)), ("1", (0, False, False))]
    assert [flags(use) for use in product.outputs] == [(0, True, True)]
    assert [flags(use) for use in detach.outputs] == [(0, False, False)]
    assert detach.inputs[0].tensor == product.outputs[0].tensor
    assert log.tensors[detach.outputs[0].tensor].storage == log.tensors[product.outputs[0].tensor].storage
    assert product.node_count == 1
    values = product.inputs[1].values
    assert values is not None
    assert (values.minimum, values.maximum, values.zeros, values.is_finite) == (0.0, 3.0, 1, True)


def test_what_is_changed_in_place_is_an_output_with_another_version() -> None:
    def run() -> None:
        buffer = torch.zeros(3)
        buffer[1] = 2.0
        torch._foreach_add_([buffer], 1.0)
        torch.add(buffer, 1.0, out=buffer)

    log = log_of(run)
    names = ["__setitem__", "_foreach_add_", "add"]
    assert [[use.version for use in the_call(log, name).changed] for name in names] == [[1], [2], [3]]
    assert len({use.tensor for name in names for use in the_call(log, name).changed}) == 1


def test_values_show_where_inf_came_first() -> None:
    x = torch.tensor([0.0, 1.0])
    log = log_of(lambda: torch.where(x > 0, torch.log(x), x) * 1.0)
    infinite = [call.function for call in log.calls if any(use.values and use.values.infs for use in call.outputs)]
    assert infinite == ["torch.log"]


def test_whole_numbers_and_truth_values_have_values() -> None:
    log = log_of(lambda: torch.arange(3) > 1)
    (many,) = the_call(log, "arange").outputs
    (mask,) = the_call(log, "gt").outputs
    assert many.values == ValueFacts(3, 0.0, 2.0, 1)
    assert mask.values == ValueFacts(3, 0.0, 1.0, 2)


def test_the_line_that_made_a_module_is_known_by_its_path(tmp_path: Path) -> None:
    source = """
import torch
net = torch.nn.Sequential(
    torch.nn.Linear(2, 2),
    torch.nn.Tanh(),
)
net(torch.ones(1, 2)).sum().backward()
"""
    log = recorded_script(tmp_path, source, WITH_CALLS).calls
    assert log is not None
    made = {call.name: (call.function, row) for row, call in enumerate(log.calls) if call.kind == "make_module"}
    assert made["net.1"][0] == "torch.nn.modules.activation.Tanh"
    lines = {name: site.line for name, (_, row) in made.items() if (site := Dataflow(log).line_of(row))}
    assert lines == {"net": 3, "net.0": 4, "net.1": 5}


def test_uninitialized_memory_has_no_values() -> None:
    log = log_of(lambda: torch.empty(1000).fill_(2.0))
    assert [call.outputs[0].values is None for call in log.calls] == [True, False]
    assert the_call(log, "fill_").inputs[0].values is None


def test_numbers_that_leave_torch_are_noted() -> None:
    def run() -> None:
        w = weight()
        w.item(), float(w.detach()), (w > 0).tolist()

    log = log_of(run)
    assert the_call(log, "item").result == weight().item()
    assert the_call(log, "__float__").result == weight().item()
    assert the_call(log, "tolist").result is True


def test_a_call_that_raises_is_in_the_log_with_its_inputs() -> None:
    def run() -> None:
        with pytest.raises(RuntimeError):
            torch.ones(2) @ torch.ones(3)

    call = the_call(log_of(run), "matmul")
    assert len(call.inputs) == 2
    assert call.raised is not None
    assert call.raised.startswith("RuntimeError: ")


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


def test_a_custom_function_is_one_call_with_others_inside() -> None:
    log = log_of(lambda: Double.apply(Double.apply(weight())).sum().backward())
    first, second = (call for call in log.calls if call.kind == "custom")
    assert first.outputs[0].tensor == second.inputs[0].tensor
    assert second.outputs[0].tensor == the_call(log, "sum").inputs[0].tensor
    inner = [call for call in log.calls if call.function == "torch.Tensor.mul"]
    assert [call.inside for call in inner[:2]] == [log.calls.index(first), log.calls.index(second)]
    assert first.definition is not None
    assert log.definitions[first.definition].name.endswith("backward")
    assert not Dataflow(log).cuts


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return -grad


def test_an_input_that_a_custom_function_returns_is_no_leaf_outside_of_it() -> None:
    log = log_of(lambda: Same.apply(weight()).sum().backward())
    (custom,) = (call for call in log.calls if call.kind == "custom")
    assert custom.outputs[0].has_grad_fn
    assert the_call(log, "sum").inputs[0].has_grad_fn


def test_logged_optimizers_have_their_tensors_steps_and_clearings() -> None:
    def run() -> None:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    log = log_of(run)
    (optimizer,) = log.optimizers
    assert (optimizer.class_name, optimizer.learning_rates) == ("SGD", (0.5,))
    kinds = ("add_param_group", "backward", "step", "zero_grad")
    assert [call.kind for call in log.calls if call.kind in kinds] == list(kinds)
    step = next(call for call in log.calls if call.kind == "step")
    assert {use.tensor for use in step.changed} == set(optimizer.groups[0])
    assert [log.tensors[number].names for number in optimizer.groups[0]] == [("model.weight",), ("model.bias",)]
    assert not [call for call in log.calls if call.function == "torch.Tensor.add_"]


def test_a_parameter_made_of_a_result_is_a_cut() -> None:
    def run() -> None:
        model, source = nn.Linear(2, 2), weight(2, 2)
        model.weight = nn.Parameter(source * 2)
        model(torch.ones(1, 2)).sum().backward()

    flow = Dataflow(log_of(run))
    (cut,) = [cut for cut in flow.cuts if cut.kind == "parameter"]
    assert flow.log.calls[cut.call].name == "weight"
    assert len(leaf_names_above(flow, cut.live_inputs[0])) == 1


SWITCHES = """
import torch

w = torch.ones(2, requires_grad=True)

@torch.no_grad()
def decorated():
    return w * 2

with torch.no_grad():  # line 10
    a = w * 2
with torch.inference_mode():
    b = w * 2
c = decorated()
torch.set_grad_enabled(False)
d = w * 2
torch.set_grad_enabled(True)
(w * 2).sum().backward()
"""


def test_the_line_that_switched_gradients_off_is_known(tmp_path: Path) -> None:
    log = recorded_script(tmp_path, SWITCHES, WITH_CALLS).calls
    assert log is not None
    flow = Dataflow(log)
    cuts = [(cut.kind, log.call_sites[cut.call_site].line) for cut in flow.cuts if cut.call_site is not None]
    assert cuts == [("no_grad", 10), ("inference", 12), ("no_grad", 6), ("no_grad", 15)]


@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
def test_a_traced_module_is_logged_with_all_its_parameters() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    traced: Any = torch.jit.trace(net, torch.ones(1, 3))
    log = log_of(lambda: traced(torch.ones(2, 3)).sum().backward())
    assert sum(tensor.is_leaf and tensor.requires_grad for tensor in log.tensors) == 4


def test_a_tensor_that_comes_back_from_numpy_is_recognized() -> None:
    def run() -> None:
        w = weight(3)
        array = (w * 2).detach().numpy()
        np.add(array, 1.0, out=array)
        torch.from_numpy(array).mul(weight(3)).sum().backward()

    flow = Dataflow(log_of(run))
    (number,) = [call.inputs[0].tensor for call in flow.log.calls if call.function == "torch.Tensor.mul"][1:]
    user = flow.users(number)[0]
    assert [reentry.certainty for reentry in flow.reentries[user]] == ["memory"]
    assert [cut.kind for cut in flow.cuts_reaching(number, user)] == ["detach"]


def test_leaves_have_their_state_at_the_end(tmp_path: Path) -> None:
    source = """
    import torch
    used, frozen, idle = (torch.nn.Parameter(torch.ones(4)) for _ in range(3))
    frozen.requires_grad_(False)
    (used * frozen * 3).sum().backward()
    """
    log = recorded_script(tmp_path, source, WITH_CALLS).calls
    assert log is not None
    ends = {name: tensor.end for tensor in log.tensors for name in tensor.names if tensor.end}
    assert {name: (end.requires_grad, end.has_grad, end.norm) for name, end in ends.items()} == {
        "used": (True, True, 6.0),
        "frozen": (False, False, None),
        "idle": (True, False, None),
    }


def train(steps: int = 3) -> list[Any]:
    """The results of a training loop with dropout, in-place changes and clipping."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    seen: list[Any] = []
    first: Any = next(model.parameters())
    first.register_hook(lambda grad: seen.append(float(grad.sum())))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(6, 4)).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        seen += [loss.item(), first._version, first.grad._version, first.grad is first.grad]
    return [*seen, *(tensor.tolist() for tensor in model.state_dict().values())]


def test_a_program_computes_the_same_with_its_calls_logged() -> None:
    native, state = train(), random_state()
    recorded = record(train, WITH_CALLS).value
    assert recorded == native
    assert random_state() == state


def test_the_same_program_gives_the_same_log() -> None:
    # torch goes on counting nodes from one run to the next.
    first, second = (
        [replace_in(call, sequence_nr=None) for call in log.calls] for log in (log_of(train) for _ in range(2))
    )
    assert first == second


def test_a_long_run_keeps_its_beginning_its_end_and_what_is_still_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows.__init__, "__defaults__", (400,))

    def run() -> None:
        w = weight(2)
        kept = (w * 5).sum()
        optimizer = torch.optim.SGD([w], lr=0.1)
        for step in range(300):
            if step == 150:
                late = w.exp()
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        (kept + late.sum()).backward()

    log = log_of(run, replace(WITH_CALLS, backward=301))
    assert len(log.calls) <= 400
    assert log.dropped > 0
    assert calls_of(log, "exp"), "something alive was computed by it"
    numbers = [int(call.name) for call in log.calls if call.kind == "backward" and call.name]
    assert numbers[:3] == [1, 2, 3]
    assert numbers[-2:] == [300, 301]


def test_a_long_run_keeps_how_the_buffers_of_its_model_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows.__init__, "__defaults__", (400,))

    def run() -> None:
        for _ in range(300):
            torch.ones(2)
        model = nn.Linear(2, 1)
        model.register_buffer("mask", torch.ones(2, 2).tril(1).view(1, 2, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(100):
            optimizer.zero_grad()
            (model(torch.ones(3, 2)).sum() * model.mask.sum()).backward()  # type: ignore[operator]
            optimizer.step()

    log = log_of(run, replace(WITH_CALLS, backward=100))
    assert log.dropped > 0
    assert calls_of(log, "view")


def test_dropped_calls_have_no_number_of_a_log_that_was_built_before() -> None:
    rows = Rows(8)
    made = [rows.add(Row("torch.exp", "operation")) for _ in range(8)]
    for number, row in enumerate(made):
        row.number = number
    rows.drop_some([])
    kept = list(rows)
    assert [row.number for row in made if row not in kept] == [-1] * rows.dropped


def test_a_long_run_keeps_the_moments_at_which_it_was_noted_what_was_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows.__init__, "__defaults__", (400,))

    def run() -> None:
        model, kept = nn.Linear(2, 1), []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(70):
            loss = model(torch.ones(3, 2)).sum()
            kept.append(loss)
            for _ in range(20):
                torch.ones(2)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        del kept[:]

    log = log_of(run, replace(WITH_CALLS, backward=70))
    assert log.dropped > 0
    assert len(log.moments) >= 7  # Before the backward calls 1, 2, 4 ... 64.
    last_but_one = log.moments[-2]
    assert sum((known.alive_after or 0) >= last_but_one for known in log.tensors) > 10


def test_nothing_lives_longer_because_its_calls_are_logged() -> None:
    def run() -> list[Any]:
        model, x = nn.Linear(2, 1), torch.ones(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        watched = [weakref.ref(thing) for thing in (model, x, optimizer, loss)]
        del model, x, optimizer, loss
        return [reference() for reference in watched]

    assert record(run, WITH_CALLS).value == [None] * 4
