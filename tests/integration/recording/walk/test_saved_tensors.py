"""What is recorded of saved tensors: hand-computed sums, nothing unpacked, nothing kept alive, nothing guessed."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradviz.analysis.memory.allocator_balance import balances
from gradviz.analysis.memory.kept_memory import GraphMemory, memory_of
from gradviz.graph.model import Graph, Node
from gradviz.graph.saved_tensors import OlderGraph, SavedTensor
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.torch_access.nodes import SHOWS_SLOTS
from gradviz.recording.walk.object_memory import sizes_of_objects
from tests.integration.recording.helpers import node_named, record, recorder

FLOAT = 4


def graph_of_step(step: Callable[[], Any]) -> Graph:
    return record(step).graph


def memory_of_step(step: Callable[[], Any]) -> GraphMemory:
    return memory_of(graph_of_step(step))


def slot(node: Node, name: str) -> SavedTensor:
    (saved,) = (saved for saved in node.saved if saved.slot == name)
    return saved


# -- sums that can be done by hand -------------------------------------------------------------------------------------


def test_a_two_layer_mlp_keeps_its_input_and_one_hidden_layer_once() -> None:
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    x = torch.randn(512, 256)

    memory = memory_of_step(lambda: model(x).sum().backward())

    assert memory.input_bytes == 512 * 256 * FLOAT
    assert memory.saved_bytes == (512 * 256 + 512 * 512) * FLOAT
    # The first weight is not saved: nobody wants the gradient of x.
    assert memory.parameter_bytes == 512 * 10 * FLOAT
    (hidden,) = (use for use in memory.storages if use.kind == "intermediate")
    assert [(holder.operation, holder.slot) for holder in hidden.held_by] == [
        ("ReluBackward0", "result"),
        ("AddmmBackward0", "mat1"),
    ]


def test_a_relu_result_that_is_squared_is_counted_once() -> None:
    x = torch.randn(100, requires_grad=True)

    def step() -> None:
        y = (x * 2).relu()
        (y * y).sum().backward()

    graph = graph_of_step(step)

    mul = [node for node in graph.nodes if node.name == "MulBackward0"][-1]
    relu = node_named(graph, "ReluBackward0")
    assert {saved.storage for saved in mul.saved} == {slot(relu, "result").storage}
    assert {saved.source for saved in mul.saved} == {relu.id}
    kept = [use for use in memory_of(graph).storages if use.bytes >= 400]
    assert [use.bytes for use in kept] == [100 * FLOAT]


def test_a_small_view_counts_the_whole_storage_that_it_keeps() -> None:
    x = torch.randn(4, requires_grad=True)

    def step() -> None:
        large = x.repeat(1000)
        (large[:4] ** 2).sum().backward()

    memory = memory_of_step(step)

    (use,) = (use for use in memory.storages if use.kind == "intermediate")
    assert (use.bytes, use.seen_bytes) == (4000 * FLOAT, 4 * FLOAT)


def test_tied_weights_are_one_storage_with_both_names() -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(10, 4), "head": nn.Linear(4, 10, bias=False)})
    model["head"].weight = model["embed"].weight

    def step() -> None:
        model["head"](model["embed"](torch.arange(3))).sum().backward()

    (weight,) = (use for use in memory_of_step(step).storages if use.kind == "parameter")

    assert weight.bytes == 40 * FLOAT
    assert set(weight.names) >= {"model.embed.weight", "model.head.weight"}


def test_batch_norm_buffers_count_as_buffers() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    x = torch.randn(2, 3, 6, 6)

    memory = memory_of_step(lambda: model(x).sum().backward())

    by_kind = {kind: sum(use.bytes for use in memory.storages if use.kind == kind) for kind in ("buffer", "input")}
    assert by_kind == {"buffer": 2 * 8 * FLOAT, "input": 2 * 3 * 36 * FLOAT}
    # The convolution's result, and the mean and deviation of each channel.
    assert memory.saved_bytes == memory.input_bytes + (2 * 8 * 16 + 2 * 8) * FLOAT


# -- never unpacking ---------------------------------------------------------------------------------------------------


def test_a_checkpointed_block_is_not_computed_again_and_keeps_its_input_only() -> None:
    runs = []
    weight = torch.randn(8, 8, requires_grad=True)

    def block(x: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        return (x @ weight).relu().sin()

    def step() -> None:
        checkpoint(block, weight * 2, use_reentrant=False).sum().backward()

    memory = memory_of_step(step)

    assert len(runs) == 2  # forward, and what backward itself needs
    assert memory.recomputed_bytes == 4 * 64 * FLOAT  # mat1 and mat2, relu's result, what sin was given
    (kept,) = (use for use in memory.storages if use.kind == "intermediate" and use.bytes >= 64 * FLOAT)
    assert [(holder.slot, holder.kept_in) for holder in kept.held_by] == [("argument 0", "checkpoint")]


def test_hooks_of_the_user_are_not_called_and_what_they_made_is_sized() -> None:
    calls = {"pack": 0, "unpack": 0}
    x = torch.randn(100, requires_grad=True)

    def pack(tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        calls["pack"] += 1
        return "half", tensor.half()

    def unpack(packed: tuple[str, torch.Tensor]) -> torch.Tensor:
        calls["unpack"] += 1
        return packed[1].float()

    def step() -> None:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x.exp()
        y.sum().backward()

    saved = slot(node_named(graph_of_step(step), "ExpBackward0"), "result")

    assert calls == {"pack": 1, "unpack": 1}
    assert (saved.bytes, saved.state) == (200, "held")
    assert saved.packed_by is not None
    assert saved.packed_by.endswith("<locals>.unpack")


def test_tensors_that_a_pack_hook_puts_into_an_object_are_sized() -> None:
    class Packed:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.halves = [tensor.half()]

    x = torch.randn(100, requires_grad=True)

    def step() -> None:
        with torch.autograd.graph.saved_tensors_hooks(Packed, lambda packed: packed.halves[0].float()):
            y = x.exp()
        y.sum().backward()

    saved = slot(node_named(graph_of_step(step), "ExpBackward0"), "result")

    assert (saved.bytes, saved.state) == (200, "held")


def test_memory_that_a_hook_hides_is_disclosed_and_not_guessed() -> None:
    stored: dict[int, torch.Tensor] = {}
    x = torch.randn(100, requires_grad=True)

    def pack(tensor: torch.Tensor) -> str:
        stored[len(stored)] = tensor
        return f"file {len(stored) - 1}"

    def step() -> None:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda name: stored[int(name.split()[1])]):
            y = x.exp()
        y.sum().backward()

    memory = memory_of_step(step)

    (unknown,) = memory.unknown
    assert (unknown.operation, unknown.slot) == ("ExpBackward0", "result")
    assert "<lambda>" in unknown.why
    assert memory.saved_bytes == 0


def test_offloaded_tensors_say_so() -> None:
    x = torch.randn(10, requires_grad=True)

    def step() -> None:
        with torch.autograd.graph.save_on_cpu():
            y = x.exp()
        y.sum().backward()

    assert slot(node_named(graph_of_step(step), "ExpBackward0"), "result").packed_by == "offload"


# -- beside the slots --------------------------------------------------------------------------------------------------


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.mask = x > 0
        return x * ctx.mask

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * ctx.mask


def test_tensors_put_on_ctx_by_hand_are_listed() -> None:
    x = torch.randn(10, requires_grad=True)

    node = node_named(graph_of_step(lambda: Masked.apply(x).sum().backward()), "MaskedBackward")

    assert [(saved.slot, saved.kept_in, saved.bytes) for saved in node.saved] == [
        ("tensors[0]", "slot", 40),
        ("mask", "ctx", 10),
    ]


def test_a_custom_function_that_saved_a_tensor_written_to_before_is_read() -> None:
    x = torch.randn(10, requires_grad=True)

    def step() -> None:
        scaled = x * 2
        scaled.mul_(3)
        Masked.apply(scaled).sum().backward()

    capture = record(step).capture

    first, *_ = node_named(capture.graphs[0], "MaskedBackward").saved
    # Where it has to be unpacked, torch has compared the versions.
    assert (first.slot, first.version, first.saved_version) == ("tensors[0]", 1, None if SHOWS_SLOTS else 1)
    assert capture.disclosures == ()


def test_tensors_that_a_hook_captured_are_listed() -> None:
    x = torch.randn(10, requires_grad=True)

    def step() -> None:
        scale = torch.full((10,), 2.0)
        y = x * 2
        y.register_hook(lambda grad: grad * scale)
        y.sum().backward()

    mul = node_named(graph_of_step(step), "MulBackward0")

    (saved,) = (saved for saved in mul.saved if saved.kept_in == "hook")
    assert saved.slot.endswith(".scale")
    assert saved.bytes == 40


def test_a_sparse_tensor_is_its_indices_and_values() -> None:
    matrix = torch.eye(3).to_sparse()
    weight = torch.randn(3, 3, requires_grad=True)

    def step() -> None:
        torch.sparse.mm(matrix, weight).sum().backward()

    saved = [saved for node in graph_of_step(step).nodes for saved in node.saved if saved.slot.startswith("mat1")]

    assert {each.slot: each.bytes for each in saved} == {"mat1.indices": 2 * 3 * 8, "mat1.values": 3 * FLOAT}


def test_the_saved_tensors_of_an_inplace_write_into_a_part_are_disclosed_as_unknown() -> None:
    x = torch.randn(4, requires_grad=True)

    def step() -> None:
        y = x * 1
        y[:2].mul_(x[2:])
        y.sum().backward()

    (unknown,) = memory_of_step(step).unknown

    assert unknown.operation == "torch::autograd::CopySlices"


# -- versions and freed graphs -----------------------------------------------------------------------------------------


def test_a_change_in_place_shows_in_the_versions() -> None:
    x = torch.randn(4, requires_grad=True)

    def step() -> None:
        y = x * 1
        z = y.exp()
        z.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()

    saved = slot(node_named(graph_of_step(step), "ExpBackward0"), "result")

    assert (saved.saved_version, saved.version) == (0, 1)


def test_the_versions_of_views_of_plain_data_and_of_lists_are_known_too() -> None:
    x, rows, index = torch.ones(4, requires_grad=True), torch.ones(3, 4), torch.tensor([0, 2])

    def step() -> None:
        loss = (x * rows[0]).sum() + x[index].sum()
        rows[0] = 2
        index[0] = 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    graph = graph_of_step(step)

    changed = [
        slot(node_named(graph, "MulBackward0"), "other"),
        slot(node_named(graph, "IndexBackward0"), "indices[0]" if SHOWS_SLOTS else "indices"),
    ]
    assert [(saved.saved_version, saved.version) for saved in changed] == [(0, 1), (0, 1)]


@pytest.mark.skipif(not SHOWS_SLOTS, reason="this torch unpacks to read, which makes the node of a changed view")
def test_reading_the_version_of_a_view_makes_no_node_for_it() -> None:
    x = torch.ones(4, requires_grad=True)

    def step() -> int:
        base = x * 1
        view = base[:2]
        loss = (view * view).sum()
        base.add_(1)
        numbers = torch._C._autograd._get_sequence_nr()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        return torch._C._autograd._get_sequence_nr() - numbers

    assert record(step).value == step()


def test_a_graph_that_was_freed_says_so_and_counts_nothing() -> None:
    x = torch.randn(4, requires_grad=True)

    def step() -> None:
        loss = x.exp().sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()

    first, second = record(step).capture.graphs

    assert memory_of(first).saved_bytes == 4 * FLOAT
    assert (memory_of(second).saved_bytes, memory_of(second).freed_nodes) == (0, 1)


# -- contracts ---------------------------------------------------------------------------------------------------------


def test_sizes_of_objects_are_known_before_the_program_fills_its_memory() -> None:
    """To read the allocator afterwards takes seconds: it counts the blocks that backward has freed."""
    sizes_of_objects.cache_clear()
    with recorder():
        measured = sizes_of_objects.cache_info().misses
    record(lambda: torch.ones(3, requires_grad=True).exp().sum().backward())
    assert (measured, sizes_of_objects.cache_info().misses) == (1, 1)


def test_nothing_that_was_saved_stays_alive_after_the_step() -> None:
    weight = torch.randn(8, 8, requires_grad=True)
    alive: list[weakref.ref[Any]] = []

    def step() -> None:
        hidden = (weight @ weight).relu()
        alive.extend((weakref.ref(hidden), weakref.ref(hidden.untyped_storage())))
        (hidden * hidden).sum().backward()

    recording = record(step)
    gc.collect()

    assert recording.graph.storages
    assert [reference() for reference in alive] == [None, None]


def test_reading_saved_tensors_makes_no_nodes_and_changes_no_version() -> None:
    weight = torch.randn(8, 8, requires_grad=True)

    def step() -> tuple[int, int]:
        base = weight * 2
        view = base[0]
        base.add_(1)
        loss = (view * view).sum()
        before = torch._C._autograd._get_sequence_nr()
        loss.backward()
        return torch._C._autograd._get_sequence_nr() - before, view._version

    assert record(step).value == step()


def test_a_forward_after_the_first_is_compared_on_its_own() -> None:
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
    x = torch.randn(2048, 512)

    def step() -> None:
        for _ in range(3):
            F.relu(model(x)).sum().backward()

    (graph,) = record(step, RecordingPlan(backward=3, keep_going=True)).capture.graphs
    found = [balance for balance in balances(graph) if balance.reading.device == "cpu"]
    if not found:
        pytest.skip("the C library here does not tell how much it has given out")

    (balance,) = found
    assert balance.saved == 4 * 2048 * 512 * FLOAT
    assert abs(balance.rest) < balance.retained / 100


def test_variables_that_keep_the_graphs_of_earlier_steps_are_listed() -> None:
    model = nn.Linear(3, 1)

    def step() -> None:
        losses = []
        for _ in range(4):
            output = model(torch.ones(2, 3))
            loss = output.sum()
            loss.backward()
            losses.append(loss)

    (graph,) = record(step, RecordingPlan(backward=4, keep_going=True)).capture.graphs
    assert graph.older_graphs == (OlderGraph("losses", 3),)


def test_a_loop_that_keeps_no_earlier_graph_lists_none() -> None:
    model = nn.Linear(3, 1)

    def step() -> None:
        total = 0.0
        for _ in range(4):
            output = model(torch.ones(2, 3))
            loss = output.sum()
            loss.backward()
            total += loss.item()

    (graph,) = record(step, RecordingPlan(backward=4, keep_going=True)).capture.graphs
    assert graph.older_graphs == ()


def test_of_an_rnn_torchs_own_objects_explain_what_is_kept_beside_the_data() -> None:
    cell, steps = nn.RNNCell(8, 8), torch.randn(400, 4, 8)

    def train() -> None:
        for _ in range(3):
            state = torch.zeros(4, 8)
            for each in steps:
                state = cell(each, state)
            state.sum().backward()

    (graph,) = record(train, RecordingPlan(backward=3, keep_going=True)).capture.graphs

    found = [balance for balance in balances(graph) if balance.reading.device == "cpu"]
    if not found:
        pytest.skip("the C library here does not tell how much it has given out")
    (balance,) = found
    assert balance.objects > 4 * balance.saved  # tiny tensors: nearly all of it
    assert abs(balance.rest) < balance.retained // 10


def test_a_custom_function_that_saves_nothing_is_read_like_any_other() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    recording = record(lambda: Doubled.apply(torch.ones(2, requires_grad=True)).sum().backward())
    assert recording.capture.disclosures == ()
