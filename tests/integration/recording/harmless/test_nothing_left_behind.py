"""However a program ends, torch is restored: nothing is left on its stacks, in its tables or in its modules.

`conftest.py` compares everything after each test; the tests here give it occasions.
"""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import copy
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from gradviz.recording.recorder import Recorder
from gradviz.recording.run.recording_plan import RecordingPlan, StopScript
from tests.integration.recording.helpers import record, record_failing, recorded_script, recorder
from tests.integration.recording.small_graphs import weight
from tests.leftovers import changes, random_state, snapshot

ONE_AND_ON = RecordingPlan(backward=1, keep_going=True)


class Give(BaseException):
    """Not caught by ``except Exception``."""


def raises(*_: Any) -> Any:
    raise Give


class Raising(nn.Module):
    """Fails in its forward."""

    def forward(self, x: Tensor) -> Tensor:
        raise Give


class RaisingBackward(torch.autograd.Function):
    """Fails in its backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise Give


def in_a_module() -> None:
    nn.Sequential(nn.Identity(), Raising())(weight(2))


def in_a_module_hook() -> None:
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(raises)
    layer(torch.ones(1, 2))


def in_a_module_pre_hook() -> None:
    layer = nn.Linear(2, 2)
    layer.register_forward_pre_hook(raises)
    layer(torch.ones(1, 2))


def in_a_tensor_hook() -> None:
    hidden = weight(2) * 2
    hidden.register_hook(raises)
    hidden.sum().backward()


def in_a_custom_backward() -> None:
    RaisingBackward.apply(weight(2)).sum().backward()


def in_a_custom_forward() -> None:
    class RaisingForward(torch.autograd.Function):
        forward = staticmethod(raises)
        backward = staticmethod(raises)  # type: ignore[assignment]

    RaisingForward.apply(weight(2))


def in_the_computation_of_a_checkpoint() -> None:
    runs = []

    def second_time_raises(x: Tensor) -> Tensor:
        runs.append(1)
        if len(runs) == 2:
            raise Give
        return x.sin()

    checkpoint(second_time_raises, weight(2) * 1, use_reentrant=True).sum().backward()


def inside_a_mode() -> None:
    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return raises()

    with Mode():
        torch.ones(3)


def between_no_grad_and_its_end() -> None:
    with torch.no_grad(), torch.autocast("cpu"), torch.inference_mode():
        raises()


@pytest.mark.parametrize(
    "program",
    [
        in_a_module,
        in_a_module_hook,
        in_a_module_pre_hook,
        in_a_tensor_hook,
        in_a_custom_backward,
        in_a_custom_forward,
        in_the_computation_of_a_checkpoint,
        inside_a_mode,
        between_no_grad_and_its_end,
    ],
)
def test_torch_is_put_back_when_the_program_raises(program: Callable[[], None]) -> None:
    before = snapshot()
    record_failing(program, Give)
    assert changes(before, snapshot()) == []


def step() -> None:
    """One training step."""
    layer = nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()


def test_torch_is_put_back_after_the_last_wanted_backward_of_a_script_that_goes_on() -> None:
    before = snapshot()

    def run() -> list[str]:
        step()
        return changes(before, snapshot())

    assert record(run, ONE_AND_ON).value == []


@pytest.mark.parametrize(
    "backward",
    [
        lambda loss: loss.backward(),
        lambda loss: torch.autograd.backward(loss),
        lambda loss: torch.Tensor.backward(loss),
        lambda loss: nn.Sequential().apply(lambda _: loss.backward()),
    ],
)
def test_torch_is_put_back_however_backward_was_called(backward: Callable[[Tensor], Any]) -> None:
    before = snapshot()

    def run() -> list[str]:
        backward((weight(2) * 2).sum())
        weight(2).sin().sum().backward()
        return changes(before, snapshot())

    recording = record(run, ONE_AND_ON)
    assert recording.value == []
    assert len(recording.capture.graphs) == 1


def test_torch_is_put_back_when_backward_is_called_inside_a_mode_of_the_program() -> None:
    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    before = snapshot()

    def run() -> list[str]:
        with Mode():
            step()
            step()
        return changes(before, snapshot())

    assert record(run, ONE_AND_ON).value == []


def test_torch_is_put_back_when_the_script_is_stopped_after_its_backward(tmp_path: Path) -> None:
    before = snapshot()
    script = """
    import torch
    layer = torch.nn.Linear(2, 2)
    try:
        layer(torch.ones(1, 2)).sum().backward()
    finally:
        left = torch._C._len_torch_function_stack()
    """
    assert recorded_script(tmp_path, script, RecordingPlan()).outcome == "stopped"
    assert changes(before, snapshot()) == []


def test_a_recorder_may_be_stopped_twice_and_in_any_state() -> None:
    before = snapshot()
    never_started = Recorder(RecordingPlan())
    never_started.stop()
    with recorder() as running:
        running.stop()
        running.stop()
    assert changes(before, snapshot()) == []


def test_one_recorder_after_another_finds_torch_untouched() -> None:
    assert [len(record(step).capture.graphs) for _ in range(3)] == [1, 1, 1]


def test_a_mode_that_the_program_entered_and_never_left_stays_active() -> None:
    class Mode(TorchFunctionMode):
        pass

    mode = Mode()
    with recorder():
        mode.__enter__()
    try:
        assert torch._C._len_torch_function_stack() == 1
        assert torch._C._get_function_stack_at(0) is mode
    finally:
        mode.__exit__(None, None, None)


def test_module_hooks_that_the_program_registered_globally_stay() -> None:
    seen: list[str] = []
    module = sys.modules["torch.nn.modules.module"]
    with recorder():
        handle = module.register_module_forward_hook(lambda layer, args, result: seen.append(type(layer).__name__))
    try:
        nn.Identity()(torch.ones(1))
        assert seen == ["Identity"]
    finally:
        handle.remove()


def test_the_default_device_can_be_set_and_reset_while_recording() -> None:
    def run() -> tuple[str, str]:
        torch.set_default_device("meta")
        try:
            layer = nn.Linear(2, 2)
            layer(torch.ones(1, 2)).sum().backward()
            return str(layer.weight.device), str(torch.ones(1).device)
        finally:
            torch.set_default_device(None)

    before = snapshot()
    recording = record(run)
    assert recording.value == ("meta", "meta")
    assert recording.graph.nodes[-1].outputs[0] is not None
    assert recording.graph.nodes[-1].outputs[0].device == "meta"
    assert changes(before, snapshot()) == []


def test_the_default_device_that_was_set_while_recording_stays_set() -> None:
    try:
        record(lambda: torch.set_default_device("meta"))
        assert str(torch.ones(1).device) == "meta"
    finally:
        torch.set_default_device(None)
    assert str(torch.ones(1).device) == "cpu"


def test_modules_used_while_recording_can_be_copied_and_saved() -> None:
    def run() -> nn.Module:
        layer = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        layer(torch.ones(1, 2)).sum().backward()
        copy.deepcopy(layer)
        return layer

    layer = record(run).value
    torch.save(layer, io.BytesIO())
    assert not layer._forward_hooks
    assert not layer._forward_pre_hooks


def test_random_generators_are_where_they_would_be() -> None:
    def run() -> None:
        layer = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
        layer(torch.randn(1, 2)).sum().backward()

    torch.manual_seed(0)
    run()
    native = random_state()
    torch.manual_seed(0)
    record(run)
    assert random_state() == native


def test_the_stop_after_the_wanted_backward_is_not_an_error_of_the_program(tmp_path: Path) -> None:
    capture = recorded_script(
        tmp_path,
        """
        import torch
        try:
            torch.ones(2, requires_grad=True).sum().backward()
        except Exception:
            raise AssertionError("the stop was caught")
        """,
        RecordingPlan(),
    )
    assert capture.error is None
    assert issubclass(StopScript, SystemExit)
