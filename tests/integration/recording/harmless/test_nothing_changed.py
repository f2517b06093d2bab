"""A program computes the same, bit for bit, and sees the same calls, whether it is recorded or not."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import gradviz
from gradviz.collector import collector_paused
from gradviz.recording.run.recording_plan import RecordingPlan
from tests.integration.recording.helpers import names_of_nodes, record
from tests.integration.recording.small_graphs import PROGRAMS, Program, independent_walk, weight


def gradients_of(program: Program) -> list[Tensor | None]:
    """What backward leaves in every leaf of a program's graph, in the order of an independent walk."""
    roots = program()
    torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
    leaves = [node.variable for node, _ in independent_walk(roots) if hasattr(node, "variable")]
    return [leaf.grad for leaf in leaves]


def same(left: Tensor | None, right: Tensor | None) -> bool:
    """Equal bit for bit, NaN included."""
    if left is None or right is None:
        return left is right
    if left.layout != torch.strided:
        return torch.equal(left.to_dense(), right.to_dense())
    return left.shape == right.shape and torch.equal(left.nan_to_num(7.0), right.nan_to_num(7.0))


@pytest.mark.parametrize("words", PROGRAMS)
def test_gradients_are_the_same_bit_for_bit(words: str) -> None:
    native = gradients_of(PROGRAMS[words])
    recorded = record(lambda: gradients_of(PROGRAMS[words])).value
    assert all(same(*pair) for pair in zip(native, recorded, strict=True))


def encoder_results(grad: bool) -> list[Tensor]:
    """What transformers compute in evaluation, where torch has a fast path of its own."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 3 + [True] * 2, [False] * 2 + [True] * 3])
    with torch.set_grad_enabled(grad):
        return [
            layer(x),
            encoder(x, src_key_padding_mask=padding),
            attention(x, x, x, key_padding_mask=padding, need_weights=False)[0],
        ]


@pytest.mark.parametrize("grad", [True, False])
def test_transformers_compute_the_same_in_evaluation(grad: bool) -> None:
    native = encoder_results(grad)
    recorded = record(lambda: encoder_results(grad)).value
    assert [torch.equal(*pair) for pair in zip(native, recorded, strict=True)] == [True, True, True]


class FunctionCalls(TorchFunctionMode):
    """Notes every torch function."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(f"{getattr(func, '__name__', func)} {len(args)} {sorted(kwargs or {})}")
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    """Notes every operator."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def weights_of(layer: nn.Module) -> Tensor:
    """The weight of a linear layer."""
    assert isinstance(layer, nn.Linear)
    return layer.weight


def varied_step() -> None:
    """A step with modules, views, in-place changes, a stale view, a leaf hook and a checkpoint."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.GELU())
    base = model(torch.ones(2, 3)) * 1
    view = torch.view_as_real(base.to(torch.complex64))[..., 0]
    stale = base[0]
    base.mul_(2)
    base[0] = 1
    assert stale.shape == (3,)
    weights_of(model[0]).register_hook(lambda gradient: None)
    loss = F.cross_entropy(base + view, torch.tensor([0, 1])) + checkpoint(torch.sin, base, use_reentrant=False).sum()
    loss.backward()


@pytest.mark.parametrize("mode_type", [FunctionCalls, Operators])
@pytest.mark.parametrize("recorder_is_inside", [True, False])
def test_a_mode_of_the_program_sees_the_calls_that_it_would_see_without_us(
    mode_type: type[FunctionCalls] | type[Operators], recorder_is_inside: bool
) -> None:
    native = mode_type()
    with native:
        varied_step()

    def run_in_mode() -> None:
        with watched:
            varied_step()

    watched = mode_type()
    if recorder_is_inside:
        with watched:
            record(varied_step)
    else:
        record(run_in_mode)
    assert watched.seen == native.seen


def test_hooks_are_called_as_often_and_in_the_same_order() -> None:
    def step() -> list[str]:
        calls: list[str] = []

        def hook(name: str) -> Callable[..., None]:
            return lambda *_: calls.append(name)

        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        model.register_forward_pre_hook(hook("model before"))
        model.register_forward_hook(hook("model after"))
        model[0].register_forward_hook(hook("linear after"))
        model[0].register_full_backward_hook(hook("linear gradient"))
        model.register_full_backward_pre_hook(hook("model gradient before"))
        weights_of(model[0]).register_hook(hook("weight"))
        weights_of(model[0]).register_post_accumulate_grad_hook(hook("weight accumulated"))
        hidden = model(weight(1, 2))
        hidden.register_hook(hook("hidden"))
        assert hidden.grad_fn is not None
        hidden.grad_fn.register_prehook(hook("node before"))
        hidden.grad_fn.register_hook(hook("node after"))
        hidden.sum().backward()
        return calls

    native = step()
    assert len(native) == 10
    assert record(step).value == native


def test_versions_and_gradients_are_not_touched() -> None:
    def run() -> tuple[list[int], Tensor | None]:
        w = weight(3)
        hidden = w * 2
        view = hidden[:2]
        hidden.add_(1)
        loss = hidden.sum() + view.sum()
        versions = [tensor._version for tensor in (w, hidden, view, loss)]
        torch.autograd.grad(loss, w, retain_graph=True)
        assert [tensor._version for tensor in (w, hidden, view, loss)] == versions
        return versions, w.grad

    recording = record(run)
    assert recording.value == run()
    assert recording.value[1] is None


def test_backward_returns_what_torch_returns() -> None:
    w = weight(3)
    gradients = record(lambda: torch.autograd.grad((w * 2).sum(), [w, weight(2)], allow_unused=True)).value
    assert torch.equal(gradients[0], torch.full((3,), 2.0))
    assert gradients[1] is None


def test_a_gradient_that_already_exists_is_added_to_as_without_recording() -> None:
    w = weight(3)
    w.grad = kept = torch.ones(3)
    record(lambda: (w * 2).sum().backward())
    assert w.grad is kept
    assert torch.equal(kept, torch.full((3,), 3.0))


def test_optimizers_step_the_same() -> None:
    def train() -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(5, 3)).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return list(model.state_dict().values())

    native, recorded = train(), record(train)
    assert all(torch.equal(*pair) for pair in zip(native, recorded.value, strict=True))
    assert len(recorded.capture.graphs) == 4


def test_a_module_that_cannot_be_hashed_runs_as_without_recording() -> None:
    class Comparable(nn.Module):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Comparable)

        def forward(self, x: Tensor) -> Tensor:
            return x.sin()

    def run() -> None:
        model = Comparable()
        model(weight(2)).sum().backward()

    assert "SinBackward0" in names_of_nodes(record(run).graph)


class Jealous(dict[str, Any]):
    """A mapping that computes its values when they are read, and notes what was read."""

    asked: list[str] = []  # noqa: RUF012

    def __getitem__(self, key: str) -> Any:
        self.asked.append(key)
        raise OSError("the file is closed")

    def values(self) -> Any:
        raise OSError("the file is closed")

    items = values


def test_reading_containers_of_the_program_runs_none_of_their_code() -> None:
    class Odd:
        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            raise OSError("asked for its class")

        def __getattr__(self, name: str) -> Any:
            raise OSError(f"asked for {name}")

    def run() -> None:
        lazy, odd = Jealous(a=1), Odd()  # noqa: F841
        loss = weight(2).sum()
        loss.backward()

    Jealous.asked.clear()
    assert record(run).graph.roots[0].name == "loss"
    assert Jealous.asked == []


def test_gradients_of_several_branches_are_added_in_place_as_without_recording() -> None:
    def run() -> int:
        w = weight(3)
        (w[0] * w[1] * w[2]).backward()
        assert w.grad is not None
        return w.grad._version

    assert record(run).value == run()


def test_asking_for_gradients_makes_no_node_of_ours() -> None:
    def run() -> int:
        before = torch._C._autograd._get_sequence_nr()
        w, unused = weight(3), weight(2)
        torch.autograd.grad((w * 2).sum(), [w, unused], allow_unused=True)
        return torch._C._autograd._get_sequence_nr() - before

    assert record(run).value == run()


def test_views_that_went_stale_are_not_asked_for_their_node() -> None:
    def run() -> int:
        before = torch._C._autograd._get_sequence_nr()
        hidden = weight(4) * 2
        view, element = hidden.view(2, 2), hidden[0]
        hidden.add_(1)
        hidden.sum().backward()
        assert view.shape == (2, 2)
        assert element.shape == ()
        return torch._C._autograd._get_sequence_nr() - before

    assert record(run).value == run()


# torch's own way of getting the formulas for forward mode.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_dual_numbers_are_measured_without_their_tangents() -> None:
    def run() -> Tensor | None:
        w = weight(3)
        with forward_ad.dual_level():
            (forward_ad.make_dual(w, torch.ones(3)).exp() * 2).sum().backward()
        return w.grad

    assert same(record(run).value, run())


def test_backward_on_a_leaf_takes_no_sequence_number() -> None:
    def numbers_taken() -> int:
        before = torch._C._autograd._get_sequence_nr()
        leaf = torch.ones((), requires_grad=True)
        leaf.backward()
        torch.autograd.grad(leaf, leaf)
        return torch._C._autograd._get_sequence_nr() - before

    recorded = record(numbers_taken)
    assert recorded.value == numbers_taken()
    assert [names_of_nodes(graph) for graph in recorded.capture.graphs] == [["torch::autograd::AccumulateGrad"]] * 2


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled:UserWarning")
def test_stacks_that_anomaly_mode_keeps_are_those_of_the_program() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=0))

    def stacks() -> list[str]:
        with torch.autograd.detect_anomaly():
            x = torch.ones(2, requires_grad=True)
            (gradient,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        nodes = [node for node, _ in independent_walk((gradient, x.exp()))]
        return ["".join(node.metadata.get("traceback_", ())) for node in nodes]

    def own(texts: list[str]) -> list[str]:
        """Below the line that calls `stacks`, which is another in each run."""
        return [text.partition("in stacks\n")[2] for text in texts]

    recorded = record(stacks).value
    assert own(recorded) == own(stacks())
    assert any("activation.py" in text for text in recorded)
    assert not any("gradviz/recording" in text for text in recorded)


class Masked(nn.Module):
    """Reads shapes, uses a buffer, and calls a function of torch that is written in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, features: Tensor, hidden_ones: Tensor) -> Tensor:
        scores = self.layer(features).masked_fill(hidden_ones, 0) * self.scale
        return F.softmax(scores * scores.shape[0], dim=1)


@pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("calls", [False, True])
def test_a_traced_graph_computes_the_same_with_the_same_structure(calls: bool) -> None:
    def traced() -> tuple[str, list[float]]:
        torch.manual_seed(0)
        given = torch.randn(2, 3), torch.zeros(2, 3, dtype=torch.bool)
        module = torch.jit.trace(Masked(), given)
        # Values are numbered: torch names them after variables of the frame that calls it, which may be ours.
        graph = str(torch._C._jit_pass_canonicalize(module.inlined_graph, False))
        # torch counts the classes that it traced.
        return re.sub(r"___torch_mangle_\d+\.", "", graph), module(*given).tolist()

    recorded = record(traced, RecordingPlan(calls=calls))
    assert recorded.value == traced()


@pytest.mark.parametrize("calls", [False, True])
def test_tensors_can_be_swapped_once_a_recording_is_over(calls: bool) -> None:
    left, right = torch.ones(2), torch.zeros(3)
    with collector_paused():
        with gradviz.record(calls=calls) as recording:
            loss = (left + weight(2)).sum()
        torch.utils.swap_tensors(left, right)
    assert left.shape == (3,)
    assert recording.graph.roots[0].name == "loss"
    assert loss.requires_grad


@pytest.mark.parametrize("calls", [False, True])
def test_tensors_that_we_know_can_be_swapped(calls: bool) -> None:
    left, right = torch.ones(2), torch.zeros(3)

    def swapped() -> Tensor:
        total = left + weight(2)
        torch.utils.swap_tensors(left, right)
        return total

    record(swapped, RecordingPlan(calls=calls))
    assert left.shape == (3,)
