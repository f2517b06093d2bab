"""Operations are told apart by what they do, for colours."""

from __future__ import annotations

import pytest

from gradviz.graph.model import REENTRANT_CHECKPOINT, Node, NodeKind
from gradviz.graph.query.operation_kinds import OperationKind, kind_of_operation, kind_of_several


def node(name: str, call: str | None = None, kind: NodeKind = "operation") -> Node:
    return Node(0, f"{name}Backward0", kind, forward_call=call)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("convolution", "Convolution MkldnnConvolution SlowConvTranspose2D"),
        ("linear", "Addmm Mm Bmm Baddbmm Mv Dot MkldnnRnnLayer CudnnRnn"),
        ("normalisation", "NativeBatchNorm CudnnBatchNorm NativeLayerNorm NativeGroupNorm FusedRmsNorm"),
        ("activation", "Relu LeakyRelu Gelu Silu Sigmoid Tanh Softmax LogSoftmax Hardtanh Softplus Elu PreluKernel"),
        ("attention", "ScaledDotProductFlashAttentionForCpu ScaledDotProductEfficientAttention"),
        ("pooling", "MaxPool2DWithIndices AvgPool2D MkldnnAdaptiveAvgPool2D UpsampleBilinear2D GridSampler2D"),
        ("embedding", "Embedding EmbeddingBag"),
        ("loss", "NllLoss NllLoss2D MseLoss BinaryCrossEntropyWithLogits KlDiv SmoothL1Loss CtcLoss"),
        ("elementwise", "Add Mul Exp Sum Mean Max Norm LinalgVectorNorm Pow Clamp"),
        ("shape", "Cat Stack Clone Index Unsqueeze Permute Unbind ConstantPadNd SplitWithSizes"),
    ],
)
def test_the_name_of_a_node_says_its_kind(kind: OperationKind, names: str) -> None:
    assert {name: kind_of_operation(node(name)) for name in names.split()} == dict.fromkeys(names.split(), kind)


def test_the_call_says_more_than_the_nodes_that_it_made() -> None:
    assert kind_of_operation(node("LogSoftmax", "torch.nn.functional.cross_entropy")) == "loss"
    assert kind_of_operation(node("Bmm", "torch.nn.functional.scaled_dot_product_attention")) == "attention"
    assert kind_of_operation(node("Mean", "torch.nn.functional.adaptive_avg_pool2d")) == "pooling"


def test_a_leaf_and_code_of_the_user_have_no_kind() -> None:
    assert kind_of_operation(node("MyRelu", kind="custom")) is None
    assert kind_of_operation(Node(0, "torch::autograd::AccumulateGrad", "parameter")) is None


def test_an_operation_that_a_checkpoint_computes_again_keeps_its_kind() -> None:
    assert kind_of_operation(node("Addmm", kind="checkpoint")) == "linear"
    assert kind_of_operation(Node(0, REENTRANT_CHECKPOINT, "checkpoint")) is None


def test_a_box_has_the_kind_of_its_main_operations() -> None:
    def box(names: str) -> OperationKind | None:
        return kind_of_several(node(name) for name in names.split())

    assert box("Convolution NativeBatchNorm Relu Add") == "convolution"
    assert box("Addmm ScaledDotProductFlashAttentionForCpu View") == "attention"
    assert box("NativeLayerNorm Mul") == "normalisation"
    assert box("Convolution Addmm") is None
    assert box("Add Cat") == "elementwise"
    assert box("") is None
