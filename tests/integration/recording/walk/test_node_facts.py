"""The facts about a node: its kind, the call that made it, its arguments, shapes and hooks."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gradviz.graph.model import Node, TensorFacts
from tests.integration.recording.helpers import leaf_named, names_of_nodes, node_named, record
from tests.integration.recording.small_graphs import weight

FORWARD_CALLS: dict[str, Callable[[Tensor], Any]] = {
    "torch.nn.functional.linear": lambda x: F.linear(x, torch.ones(2, 2)),
    "torch.nn.functional.relu": lambda x: F.relu(x),
    "torch.nn.functional.gelu": lambda x: F.gelu(x),
    "torch.nn.functional.layer_norm": lambda x: F.layer_norm(x, (2,)),
    "torch.nn.functional.cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 1])),
    "torch.nn.functional.scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "torch.relu": lambda x: torch.relu(x),
    "torch.matmul": lambda x: torch.matmul(x, x),
    "torch.add": lambda x: torch.add(x, 1),
    "torch.einsum": lambda x: torch.einsum("ij->ji", x),
    "torch.stack": lambda x: torch.stack([x, x]),
    "torch.where": lambda x: torch.where(x > 0, x, 0),
    "torch.norm": lambda x: torch.norm(x),
    "torch.linalg.inv": lambda x: torch.linalg.inv(x + torch.eye(2)),
    "torch.linalg.norm": lambda x: torch.linalg.norm(x),
    "torch.fft.fft": lambda x: torch.fft.fft(x),
    "torch.special.expit": lambda x: torch.special.expit(x),
    "torch.sparse.mm": lambda x: torch.sparse.mm(torch.eye(2).to_sparse(), x),
    "torch.Tensor.add": lambda x: x + 1,
    "torch.Tensor.mul": lambda x: x * 2,
    "torch.Tensor.matmul": lambda x: x @ x,
    "torch.Tensor.neg": lambda x: -x,
    "torch.Tensor.sum": lambda x: x.sum(),
    "torch.Tensor.__rsub__": lambda x: 1 - x,
    "torch.Tensor.__getitem__": lambda x: x[0],
    "torch.Tensor.view": lambda x: x.view(-1),
    "torch.Tensor.T": lambda x: x.T,
    "torch.Tensor.mT": lambda x: x.mT,
    "torch.Tensor.to": lambda x: x.to(torch.float64),
    "torch.Tensor.norm": lambda x: x.norm(),
}


@pytest.mark.parametrize("call", FORWARD_CALLS)
def test_a_node_names_the_torch_function_that_made_it(call: str) -> None:
    def run() -> None:
        result = FORWARD_CALLS[call](weight(2, 2))
        torch.autograd.backward(result, torch.ones_like(result))

    graph = record(run).graph
    assert graph.nodes[graph.roots[0].node].forward_call == call


@pytest.mark.parametrize(
    ("call", "change"),
    [
        ("torch.Tensor.add_", lambda x: x.add_(1)),
        ("torch.Tensor.add_", lambda x: x.__iadd__(1)),
        ("torch.Tensor.relu_", lambda x: x.relu_()),
        ("torch.relu_", lambda x: torch.relu_(x)),
        ("torch.Tensor.__setitem__", lambda x: x.__setitem__(0, weight(2))),
        ("torch.Tensor.copy_", lambda x: x.copy_(weight(2, 2))),
        ("torch.Tensor.zero_", lambda x: x.zero_()),
        ("torch.nn.functional.relu", lambda x: F.relu(x, inplace=True)),
    ],
)
def test_what_rewrites_a_tensor_is_an_inplace_node(call: str, change: Callable[[Tensor], Any]) -> None:
    def run() -> None:
        x = weight(2, 2) * 2
        change(x)
        torch.autograd.backward(x, torch.ones(2, 2))

    graph = record(run).graph
    node = graph.nodes[graph.roots[0].node]
    assert (node.forward_call, node.kind) == (call, "inplace")


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.view(-1),
        lambda x: x.T,
        lambda x: x[0],
        lambda x: x[:, 1:],
        lambda x: x.unsqueeze(0),
        lambda x: x.expand(3, 2, 2),
        lambda x: x.unbind()[0],
        lambda x: x.diagonal(),
        lambda x: x.as_strided((2,), (1,)),
        lambda x: x.chunk(2)[1],
        lambda x: x.unfold(0, 1, 1),
    ],
)
def test_another_look_at_the_same_storage_is_a_view_node(look: Callable[[Tensor], Tensor]) -> None:
    def run() -> Tensor:
        x = weight(2, 2) * 1
        seen = look(x)
        assert seen._is_view()
        torch.autograd.backward(seen, torch.ones_like(seen))
        return seen

    graph = record(run).graph
    assert graph.nodes[graph.roots[0].node].kind == "view"


@pytest.mark.parametrize("copy", [lambda x: x.clone(), lambda x: x.repeat(2, 2), lambda x: x[x > 0], lambda x: x * 1])
def test_new_storage_is_an_operation(copy: Callable[[Tensor], Tensor]) -> None:
    def run() -> None:
        result = copy(weight(2, 2))
        torch.autograd.backward(result, torch.ones_like(result))

    graph = record(run).graph
    assert graph.nodes[graph.roots[0].node].kind == "operation"


def made_by(operation: Callable[[Tensor], Tensor]) -> Node:
    """The node of one operation on a 2 by 3 tensor."""

    def run() -> None:
        result = operation(weight(2, 3))
        torch.autograd.backward(result, torch.ones_like(result))

    graph = record(run).graph
    return graph.nodes[graph.roots[0].node]


def test_a_negative_dimension_arrives_as_a_negative_number() -> None:
    assert made_by(lambda x: torch.softmax(x, dim=-1)).attributes == {"dim": -1}
    assert made_by(lambda x: x.sum(dim=(0, -1))).attributes == {"dim": [0, -1], "keepdim": False}
    assert made_by(lambda x: x.transpose(-1, -2)).attributes == {"dim0": -1, "dim1": -2}


def test_numbers_flags_and_words_that_a_call_was_given_are_kept() -> None:
    assert made_by(lambda x: torch.add(x, x, alpha=3)).attributes == {"alpha": 3}
    assert made_by(lambda x: F.leaky_relu(x, 0.25)).attributes == {"negative_slope": 0.25}
    assert made_by(lambda x: F.gelu(x, approximate="tanh")).attributes == {"approximate": "tanh"}
    assert made_by(lambda x: x.clamp(min=0.5)).attributes == {"min": 0.5, "max": None}
    assert made_by(lambda x: x**3).attributes == {"exponent": 3}


def test_an_infinite_argument_is_kept_as_text() -> None:
    assert made_by(lambda x: F.hardtanh(x, -float("inf"), 1.0)).attributes == {"min_val": "-inf", "max_val": 1.0}


def test_a_node_has_shape_dtype_and_device_of_its_output() -> None:
    assert made_by(lambda x: x.sum(dim=0)).outputs == (TensorFacts((3,), "float32", "cpu"),)
    assert made_by(lambda x: x.double()).outputs == (TensorFacts((2, 3), "float64", "cpu"),)
    assert made_by(lambda x: x.chunk(2)[0]).outputs == (TensorFacts((1, 3), "float32"), TensorFacts((1, 3), "float32"))


def test_sequence_numbers_are_torchs_own_and_leaves_have_none() -> None:
    def run() -> tuple[int, int]:
        product = weight(3) * 2
        total = product.sum()
        total.backward()
        assert product.grad_fn is not None
        assert total.grad_fn is not None
        return product.grad_fn._sequence_nr(), total.grad_fn._sequence_nr()

    recording = record(run)
    assert [node.sequence_nr for node in recording.graph.nodes] == [None, *recording.value]


def test_all_nodes_of_a_composite_function_name_it() -> None:
    def run() -> None:
        F.cross_entropy(weight(2, 3), torch.tensor([0, 1])).backward()

    graph = record(run).graph
    assert [node.forward_call for node in graph.nodes if not node.is_leaf] == ["torch.nn.functional.cross_entropy"] * 2


def test_hooks_are_named_on_leaves_and_in_between() -> None:
    def look_at_gradient(gradient: Tensor) -> None: ...

    def after_accumulation(leaf: Tensor) -> None: ...

    def run() -> None:
        w = weight(3)
        w.register_hook(look_at_gradient)
        w.register_post_accumulate_grad_hook(after_accumulation)
        product = w * 2
        product.register_hook(look_at_gradient)
        product.sum().backward()

    graph = record(run).graph
    leaf, product, total = graph.nodes
    assert [hook.rpartition(".")[2] for hook in leaf.hooks] == ["look_at_gradient", "after_accumulation"]
    assert [hook.rpartition(".")[2] for hook in product.hooks] == ["look_at_gradient"]
    assert total.hooks == ()


def test_a_hook_that_was_removed_before_backward_is_not_shown() -> None:
    def run() -> None:
        w = weight(3)
        w.register_hook(print).remove()
        product = w * 2
        product.register_hook(print).remove()
        product.sum().backward()

    assert [node.hooks for node in record(run).graph.nodes] == [(), (), ()]


def test_a_hook_object_is_named_by_its_class() -> None:
    class Clip:
        def __call__(self, gradient: Tensor) -> None: ...

    def run() -> None:
        w = weight(3)
        w.register_hook(Clip())
        (w * 2).sum().backward()

    (hook,) = leaf_named(record(run).graph, "w").hooks
    assert hook.endswith("Clip")


def test_a_node_of_an_unknown_kind_keeps_its_own_name() -> None:
    """Nodes that C++ extensions and TorchScript define have no Python class of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript

        def doubled_sine(x: Tensor) -> Tensor:
            return (x * 2).sin()

        scripted = torch.jit.script(doubled_sine)
        for _ in range(3):  # it is compiled after having been seen twice
            scripted(weight(3))

    def run() -> tuple[str, ...]:
        result = scripted(weight(3))
        result.sum().backward()
        assert result.grad_fn is not None
        return (result.grad_fn.name(),)

    recording = record(run)
    assert recording.value[0] in names_of_nodes(recording.graph)
    assert "DifferentiableGraph" in recording.value[0]


def test_a_custom_operator_is_named_as_the_user_calls_it() -> None:
    @torch.library.custom_op("gradviz_tests::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    doubled.register_autograd(lambda ctx, gradient: gradient * 2)

    def run() -> None:
        torch.ops.gradviz_tests.doubled(weight(3)).sum().backward()

    graph = record(run).graph
    (node,) = [node for node in graph.nodes if "doubled" in node.name.lower()]
    assert node.kind == "custom"
    assert node.forward_call == "torch.ops.gradviz_tests.doubled"
    assert node.call_site is not None


def test_a_graph_of_gradients_has_its_calls_too() -> None:
    def run() -> None:
        x = weight(3)
        (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        gradient.pow(2).sum().backward()

    first, second = record(run).capture.graphs
    assert first.backward is not None
    assert (first.backward.function, first.backward.create_graph, first.backward.retain_graph) == ("grad", True, True)
    made_by_grad = [node for node in second.nodes if node.forward_call == "torch.autograd.grad"]
    assert made_by_grad, [node.forward_call for node in second.nodes]
    assert node_named(first, "SumBackward0").forward_call == "torch.Tensor.sum"
