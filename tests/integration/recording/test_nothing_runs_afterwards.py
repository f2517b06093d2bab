"""Once a recording is over, no line of gradviz runs any more, whatever the program does, and no number is drawn for it.

What replaced something of torch and was not taken back would run: found here by what happens, not by a list of names.
"""

# Much of torch has no types: backward, Variable, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Variable
from torch.utils.checkpoint import checkpoint

import gradviz
from tests.integration.recording.child import forked_result
from tests.integration.recording.helpers import EVERY_BACKWARD, EVERY_CALL, record, recorded_script
from tests.integration.recording.small_graphs import weight
from tests.leftovers import random_state

_OWN = str(Path(gradviz.__file__).parent)


class Doubled(torch.autograd.Function):
    """Twice what it is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


def train() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()


def wrap_in_a_variable() -> None:
    (Variable(torch.ones(2), requires_grad=True) * 2).sum().backward()


def swap_tensors() -> None:
    left, right = torch.ones(2), torch.zeros(3)
    torch.utils.swap_tensors(left, right)


def keep_stacks_in_anomaly_mode() -> None:
    with torch.autograd.detect_anomaly():
        weight(2).exp().sum().backward()


def trace() -> None:
    torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))


def call_a_custom_function() -> None:
    Doubled.apply(weight(2)).sum().backward()


def compute_again_in_backward() -> None:
    checkpoint(torch.exp, weight(2), use_reentrant=False).sum().backward()


def ask_for_gradients() -> None:
    w = weight(2)
    torch.autograd.grad(w.exp().sum(), w, create_graph=True)


def take_a_hook_off_again() -> None:
    hidden = weight(2) * 2
    handle = hidden.register_hook(lambda gradient: gradient)
    hidden.sum().backward()
    handle.remove()


def change_modes() -> None:
    with torch.no_grad():
        torch.ones(2).numpy()
    with torch.inference_mode():
        torch.ones(2).tolist()


PROGRAMS = (
    train,
    wrap_in_a_variable,
    swap_tensors,
    keep_stacks_in_anomaly_mode,
    trace,
    call_a_custom_function,
    compute_again_in_backward,
    ask_for_gradients,
    take_a_hook_off_again,
    change_modes,
)


PLANS: dict[str, Any] = {"graphs": EVERY_BACKWARD, "calls": EVERY_CALL}


def own_functions_in(program: Callable[[], None]) -> set[str]:
    """The functions of gradviz that run while `program` does."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_OWN):
            found.add(f"{Path(frame.f_code.co_filename).name}: {frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        program()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled:UserWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_no_line_of_gradviz_runs_once_a_recording_is_over(program: Callable[[], None], plan: Any) -> None:
    while_recording: set[str] = set()
    record(lambda: while_recording.update(own_functions_in(program)), plan)
    assert while_recording, "the recorder saw nothing of it"
    assert own_functions_in(program) == set()


@pytest.mark.parametrize(("import_first", "plan"), [(True, "graphs"), (False, "graphs"), (True, "calls")])
def test_no_line_of_gradviz_runs_in_compiled_code_once_a_recording_is_over(import_first: bool, plan: str) -> None:
    found = forked_result(
        f"""
        from tests.integration.recording.test_nothing_runs_afterwards import PLANS, own_functions_in
        if {import_first}:
            import torch._dynamo
        model = torch.compile(torch.nn.Linear(2, 2), backend="eager")

        def program():
            model(torch.ones(1, 2)).sum().backward()

        while_recording = set()
        record(lambda: while_recording.update(own_functions_in(program)), PLANS["{plan}"])
        print(json.dumps([len(while_recording), sorted(own_functions_in(program))]))
        """
    )
    assert found[0] > 0
    assert found[1] == []


def test_trying_out_a_custom_function_draws_no_random_number_of_the_program(tmp_path: Path) -> None:
    capture = recorded_script(
        tmp_path,
        """
        import random
        import numpy
        import torch

        class Noisy(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x + 0 * (torch.rand(()) + random.random() + numpy.random.rand())

            @staticmethod
            def backward(ctx, gradient):
                return 2 * gradient + 0 * torch.rand(())

        Noisy.apply(torch.ones(2, requires_grad=True)).sum().backward()
        random.seed(0)
        numpy.random.seed(0)
        torch.manual_seed(0)
        """,
        EVERY_CALL,
    )
    left = random_state()
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    assert left == random_state()
    assert capture.calls is not None and capture.calls.derivatives, "it was not tried out"
