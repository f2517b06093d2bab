"""When backward fails, the node in which it failed is marked; if that cannot be known, none is."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradviz.graph.model import Node
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.torch_access.nodes import SHOWS_SLOTS
from tests.integration.recording.helpers import Recording, line_of, record, record_failing
from tests.integration.recording.small_graphs import weight


def failed(recording: Recording) -> Node | None:
    """The node that is marked as failed in the last graph."""
    graph = recording.capture.graphs[-1]
    assert graph.backward is not None
    place = graph.backward.failed_node
    return None if place is None else graph.nodes[place]


def failed_name(recording: Recording) -> str | None:
    node = failed(recording)
    return node.name if node is not None else None


class Fragile(torch.autograd.Function):
    """Raises in backward when its number is the wrong one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, breaks: bool) -> Tensor:
        ctx.breaks = breaks
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        if ctx.breaks:
            raise ValueError("broken on purpose")
        return gradient * 2, None


def test_an_operation_whose_saved_tensor_was_changed_is_marked() -> None:
    def run() -> None:
        x = weight(3).exp()
        y = x.sin()
        x.add_(1)
        (y * y).sum().backward()

    recording = record_failing(run, RuntimeError)
    assert failed_name(recording) == "SinBackward0"
    node = failed(recording)
    assert node is not None
    assert line_of(recording.capture, recording.graph, node) == "y = x.sin()"


def test_of_several_equal_nodes_the_one_whose_result_was_changed_is_marked() -> None:
    def run() -> None:
        first = weight(3).exp()
        second = first.exp()
        third = second.exp()
        second.mul_(2)
        third.sum().backward()

    recording = record_failing(run, RuntimeError)
    node = failed(recording)
    assert node is not None
    # The second one saved its own result, which is what was multiplied.
    assert line_of(recording.capture, recording.graph, node) == "second = first.exp()"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_custom_function_whose_backward_raised_is_marked_among_several(place: int) -> None:
    def run() -> None:
        x = weight(3)
        for number in range(3):
            x = Fragile.apply(x, number == place)
        x.sum().backward()

    recording = record_failing(run, ValueError)
    graph = recording.graph
    fragile = [node for node in graph.nodes if node.name == "FragileBackward"]
    assert failed(recording) is fragile[place]


def test_a_custom_backward_that_returns_a_wrong_shape_is_marked() -> None:
    class WrongShape(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return torch.ones(7)

    def run() -> None:
        WrongShape.apply(weight(3).sin()).cos().sum().backward()

    assert failed_name(record_failing(run, RuntimeError)) == "WrongShapeBackward"


@pytest.mark.parametrize("count", [1, 3])
def test_a_custom_backward_that_returns_the_wrong_number_of_gradients_is_marked(count: int) -> None:
    class WrongNumber(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            return x * y

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
            return (gradient,) * count

    def run() -> None:
        WrongNumber.apply(weight(3).sin(), weight(3)).cos().sum().backward()

    assert failed_name(record_failing(run, RuntimeError)) == "WrongNumberBackward"


def test_the_second_of_two_backwards_fails_at_the_first_node_that_was_freed() -> None:
    def run() -> None:
        x = weight(3)
        y = (x * x).sin()
        loss = y.sum()
        loss.backward()
        loss.backward()

    recording = record_failing(run, RuntimeError)
    assert len(recording.capture.graphs) == 2
    # Sum saved nothing that could be missing.
    assert failed_name(recording) == "SinBackward0"


def test_an_error_in_a_hook_does_not_mark_a_node_that_did_not_run() -> None:
    def run() -> None:
        x = weight(3).exp()
        y = x.sin()

        def hook(gradient: Tensor) -> None:
            raise ValueError("in a hook")

        y.register_hook(hook)
        (y * y).sum().backward()

    # A hook on `y` runs just before the node that made `y`.
    assert failed_name(record_failing(run, ValueError)) in {None, "SinBackward0"}


def test_an_error_in_a_hook_of_a_leaf_marks_no_finished_node() -> None:
    def run() -> None:
        w = weight(3)

        def hook(gradient: Tensor) -> None:
            raise ValueError("in a hook")

        w.register_hook(hook)
        w.exp().sin().sum().backward()

    assert failed_name(record_failing(run, ValueError)) in {None, "torch::autograd::AccumulateGrad"}


def test_with_a_kept_graph_a_failed_custom_function_is_marked_still() -> None:
    def run() -> None:
        Fragile.apply(weight(3).exp(), True).sum().backward(retain_graph=True)

    assert failed_name(record_failing(run, ValueError)) == "FragileBackward"


def test_with_a_kept_graph_a_failed_operation_is_found_by_those_that_ran() -> None:
    def run() -> None:
        x = weight(3).exp()
        y = x.sin()
        x.add_(1)
        (y * y).sum().backward(retain_graph=True)

    assert failed_name(record_failing(run, RuntimeError)) == "SinBackward0"


def test_an_operation_on_lists_that_frees_what_it_saved_before_it_fails_is_marked() -> None:
    def run() -> None:
        sums = torch._foreach_addcdiv([torch.ones(0), weight(2)], [weight(0), weight(2)], [weight(0), weight(2)])
        torch.stack([each.sum() for each in sums]).sum().backward()

    assert failed_name(record_failing(run, IndexError)) == "ForeachAddcdivBackward0Scalar"


def test_no_node_is_marked_when_backward_never_began() -> None:
    def run() -> None:
        (weight(3) * 2).backward()  # not a scalar

    recording = record_failing(run, RuntimeError)
    assert recording.capture.graphs == () or failed(recording) is None


def test_no_node_is_marked_when_an_input_is_not_part_of_the_graph() -> None:
    def run() -> None:
        torch.autograd.grad((weight(3) * 2).sum(), weight(3))

    assert failed(record_failing(run, RuntimeError)) is None


@pytest.mark.skipif(not SHOWS_SLOTS, reason="this torch does not show which nodes have been freed")
def test_a_branch_that_was_not_asked_for_is_not_marked() -> None:
    def run() -> None:
        x, y = weight(3), weight(3)
        wanted = x.sin()
        square = wanted * wanted
        wanted.add_(1)
        unwanted = y.exp().cos()
        torch.autograd.grad((square + unwanted).sum(), x)

    recording = record_failing(run, RuntimeError)
    node = failed(recording)
    assert node is not None
    assert line_of(recording.capture, recording.graph, node) == "square = wanted * wanted"


def test_a_second_backward_over_a_shared_part_marks_the_freed_node() -> None:
    def run() -> None:
        shared = weight(3).exp().sin()
        first, second = (shared * 2).sum(), shared.cos().tanh().sum()
        first.backward()
        second.backward()

    assert failed_name(record_failing(run, RuntimeError)) == "SinBackward0"


def test_no_node_is_marked_when_ctrl_c_ended_backward() -> None:
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            raise KeyboardInterrupt

    assert failed(record_failing(lambda: Slow.apply(weight(3)).sum().backward(), KeyboardInterrupt)) is None


def test_a_failure_in_one_branch_is_found_beside_a_branch_that_had_not_run() -> None:
    def run() -> None:
        x = weight(3)
        early = x.exp().exp()
        broken = x.sin()
        square = broken * broken
        broken.add_(1)
        (early + square).sum().backward()

    recording = record_failing(run, RuntimeError)
    node = failed(recording)
    assert node is not None
    assert line_of(recording.capture, recording.graph, node) == "square = broken * broken"


def test_a_failure_inside_a_reentrant_checkpoint_marks_the_checkpoint() -> None:
    runs = []

    def second_time_raises(x: Tensor) -> Tensor:
        runs.append(1)
        if len(runs) == 2:
            raise ValueError("computed again")
        return x.sin()

    def run() -> None:
        from torch.utils.checkpoint import checkpoint

        checkpoint(second_time_raises, weight(3).exp(), use_reentrant=True).sum().backward()

    recording = record_failing(run, ValueError)
    assert failed_name(recording) == "CheckpointFunctionBackward"


def test_a_failure_when_a_checkpoint_is_computed_again_marks_the_node_that_asked_for_it() -> None:
    runs = []

    def second_time_raises(x: Tensor) -> Tensor:
        runs.append(1)
        if len(runs) == 2:
            raise ValueError("computed again")
        return x.sin()

    def run() -> None:
        from torch.utils.checkpoint import checkpoint

        checkpoint(second_time_raises, weight(3).exp(), use_reentrant=False).sum().backward()

    assert failed_name(record_failing(run, ValueError)) == "SinBackward0"


def test_a_failure_in_a_model_names_the_module() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.sigmoid(self.linear(x))
            hidden += 1
            return hidden

    def run() -> None:
        net = Net()
        net(torch.ones(1, 3)).sum().backward()

    recording = record_failing(run, RuntimeError)
    node = failed(recording)
    assert node is not None
    assert node.name == "SigmoidBackward0"
    assert node.scope is not None
    assert recording.graph.scopes[node.scope].path == "net"


def test_a_failure_that_the_program_caught_is_not_recorded_beside_the_wanted_call() -> None:
    def run() -> None:
        with pytest.raises(RuntimeError):
            torch.ones(2, requires_grad=True).sin().backward()  # not a scalar
        freed = torch.ones(2, requires_grad=True).sin().sum()
        freed.backward()
        with pytest.raises(RuntimeError, match="second time"):
            freed.backward()
        torch.ones(2, requires_grad=True).exp().sum().backward()

    capture = record(run, RecordingPlan(backward=3, keep_going=True)).capture
    assert [graph.backward and graph.backward.number for graph in capture.graphs] == [3]
