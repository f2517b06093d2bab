"""Tensors of every kind are recorded, and none is changed."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.model import TensorFacts
from tests.integration.recording.helpers import leaf_named, node_named, nodes_named, record
from tests.integration.recording.small_graphs import weight


def only_output(name: str, run: Any) -> TensorFacts:
    """Facts of what the only node of this name made."""
    (facts,) = node_named(record(run).graph, name).outputs
    assert facts is not None
    return facts


def test_complex_tensors_have_their_dtype() -> None:
    def run() -> None:
        z = weight(2, dtype=torch.complex64)
        z.exp().abs().sum().backward()

    assert only_output("ExpBackward0", run) == TensorFacts((2,), "complex64")


def test_half_precision_tensors_have_their_dtype() -> None:
    assert only_output("ExpBackward0", lambda: weight(2, dtype=torch.bfloat16).exp().sum().backward()) == TensorFacts(
        (2,), "bfloat16"
    )


def test_meta_tensors_have_their_device() -> None:
    def run() -> None:
        layer = nn.Linear(2, 3, device="meta")
        layer(torch.ones(1, 2, device="meta")).sum().backward()

    assert only_output("AddmmBackward0", run) == TensorFacts((1, 3), "float32", "meta")


def test_scalars_and_empty_tensors_have_their_shapes() -> None:
    graph = record(lambda: (weight().exp() + weight(0, 3).sin().sum()).backward()).graph
    assert node_named(graph, "ExpBackward0").outputs == (TensorFacts((), "float32"),)
    assert node_named(graph, "SinBackward0").outputs == (TensorFacts((0, 3), "float32"),)


def test_a_sparse_leaf_has_its_layout() -> None:
    def run() -> None:
        sparse = torch.eye(3).to_sparse().requires_grad_()
        torch.sparse.mm(sparse, torch.ones(3, 2)).sum().backward()

    assert leaf_named(record(run).graph, "sparse").outputs == (TensorFacts((3, 3), "float32", layout="sparse_coo"),)


def test_a_compressed_sparse_constant_is_recorded() -> None:
    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch calls the layout a beta
            rows = torch.eye(3).to_sparse_csr()
        (rows @ weight(3, 2)).sum().backward()

    graph = record(run).graph
    assert "sparse_csr" in [constant.tensor.layout for constant in graph.constants]


def test_a_jagged_nested_tensor_has_its_ragged_size_as_text() -> None:
    def run() -> None:
        nested = torch.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=torch.jagged, requires_grad=True)
        nested.sin().values().sum().backward()

    facts = leaf_named(record(run).graph, "nested").outputs[0]
    assert facts is not None
    assert facts.shape[0] == 2
    assert isinstance(facts.shape[1], str)
    assert facts.layout == "jagged"


def test_a_strided_nested_tensor_has_the_number_of_its_parts() -> None:
    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch calls the layout a prototype
            nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
        torch.nested.to_padded_tensor(nested * 2, 0.0).sum().backward()

    recording = record(run)
    facts = leaf_named(recording.graph, "nested").outputs[0]
    assert facts is not None
    assert facts.shape == (2, "*")
    assert recording.capture.disclosures == (
        "the shapes of 1 node could not be read",
        "2 gradients could not be measured: it is a nested tensor",
    )


class Counting(torch.Tensor):
    """Counts every torch function that reaches it."""

    seen: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Private(torch.Tensor):
    """A subclass that answers only operations."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "__get__":
            raise RuntimeError("this tensor was looked at")
        return super().__torch_function__(func, types, args, kwargs or {})


class OwnShape(torch.Tensor):
    """Has a property where torch has its shape, and counts who reads it."""

    looked_at = 0

    @property
    def shape(self) -> Any:  # type: ignore[override]
        OwnShape.looked_at += 1
        return super().shape


def step_with(subclass: type[Tensor]) -> Tensor:
    """A training step in which leaf, data, target and result are of a subclass."""
    w = torch.ones(3).as_subclass(subclass).requires_grad_()
    data = torch.full((3,), 2.0).as_subclass(subclass)
    hidden = torch.stack([w * data, w]).sin()
    hidden.register_hook(lambda gradient: None)
    loss = (hidden - data).sum()
    loss.backward()
    with torch._C.DisableTorchFunctionSubclass():
        assert w.grad is not None
        return w.grad


def test_a_subclass_sees_the_calls_that_it_would_see_without_us() -> None:
    Counting.seen.clear()
    native_gradient = step_with(Counting)
    native = list(Counting.seen)
    Counting.seen.clear()
    recording = record(lambda: step_with(Counting))
    assert Counting.seen == native
    assert torch.equal(recording.value, native_gradient)
    assert leaf_named(recording.graph, "w").outputs == (TensorFacts((3,), "float32", type_name="Counting"),)


def test_a_subclass_that_refuses_to_be_looked_at_is_recorded_all_the_same() -> None:
    graph = record(lambda: step_with(Private)).graph
    assert node_named(graph, "StackBackward0").forward_call == "torch.stack"
    # Results of a subclass are aliases of what was computed.
    assert "hidden" in [name for node in nodes_named(graph, "AliasBackward0") for name in node.names]
    assert graph.roots[0].name == "loss"
    assert leaf_named(graph, "w").is_leaf


def test_a_property_that_hides_one_of_torchs_own_is_not_read() -> None:
    OwnShape.looked_at = 0
    step_with(OwnShape)
    native, OwnShape.looked_at = OwnShape.looked_at, 0
    graph = record(lambda: step_with(OwnShape)).graph
    assert OwnShape.looked_at == native
    assert leaf_named(graph, "w").outputs == (TensorFacts((3,), "float32", type_name="OwnShape"),)


class Wrapper(torch.Tensor):
    """A tensor around another one, as quantised and distributed tensors are; counts what is dispatched to it."""

    seen: list[str] = []  # noqa: RUF012
    wrapped: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor, requires_grad: bool = False) -> Wrapper:
        made: Wrapper = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=requires_grad, dispatch_sizes_strides_policy="sizes"
        )
        made.wrapped = inner
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        cls.seen.append(str(func))
        plain = torch.utils._pytree.tree_map(lambda x: x.wrapped if isinstance(x, cls) else x, args)
        result = func(*plain, **(kwargs or {}))
        return cls(result) if isinstance(result, Tensor) else result


def test_a_wrapper_tensor_is_dispatched_no_call_of_ours() -> None:
    def run() -> None:
        w, data = Wrapper(torch.ones(3), requires_grad=True), Wrapper(torch.ones(3))
        loss = (w * data).sin()
        torch.autograd.backward(loss, Wrapper(torch.ones(3)))

    Wrapper.seen.clear()
    run()
    native = list(Wrapper.seen)
    Wrapper.seen.clear()
    graph = record(run).graph
    assert Wrapper.seen == native
    assert node_named(graph, "SinBackward0").names == ("loss",)


def test_lazy_parameters_that_never_ran_cost_nothing() -> None:
    def run() -> None:
        model = nn.ModuleDict({"used": nn.Linear(2, 2), "lazy": nn.LazyLinear(3)})
        model["used"](torch.ones(1, 2)).sum().backward()

    assert len(record(run).graph.nodes) > 3


def test_a_lazy_layer_that_ran_is_recorded() -> None:
    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch says that lazy layers are new
            model = nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(2))
        model(torch.ones(1, 2)).sum().backward()

    assert leaf_named(record(run).graph, "model.1.weight").outputs == (TensorFacts((2, 3), "float32"),)


def test_an_undefined_gradient_is_no_obstacle() -> None:
    class Undefined(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> None:
            return None

    def run() -> tuple[Tensor | None, Tensor | None]:
        w, other = weight(3), weight(3)
        (Undefined.apply(w * 2).sin() + other).sum().backward()
        return w.grad, other.grad

    recording = record(run)
    assert recording.value[0] is None or not recording.value[0].any()
    assert torch.equal(recording.value[1], torch.ones(3))
    assert node_named(recording.graph, "UndefinedBackward").kind == "custom"


def test_integers_and_indices_are_constants_and_not_edges() -> None:
    def run() -> None:
        index = torch.tensor([0, 2])
        weight(3)[index].sum().backward()

    graph = record(run).graph
    picked = nodes_named(graph, "IndexBackward0")[0]
    assert [constant.names for constant in graph.constants] == [("index",)], picked


def test_a_recording_with_ragged_sizes_can_be_written() -> None:
    def run() -> None:
        ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged, requires_grad=True)
        (ragged * 2).values().sum().backward()

    capture = record(run).capture
    assert read_capture(write_capture(capture), "run.gradviz") == capture
