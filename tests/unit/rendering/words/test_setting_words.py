"""The quiet words after an operation's name."""

from __future__ import annotations

import pytest

from gradviz.graph.model import Attribute, Node
from gradviz.rendering.words.setting_words import setting_words


def words(name: str, call: str = "", **attributes: Attribute) -> str:
    return setting_words(Node(0, name, forward_call=call or None, attributes=attributes))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words("SoftmaxBackward0", dim=-1), "dim=-1"),
        (words("SumBackward1", dim=[1], keepdim=False), "dim=1"),
        (words("MeanBackward1", dim=[2, 3], keepdim=False), "dim=(2, 3)"),
        (words("PowBackward0", exponent=2), "2"),
        (words("PowBackward0", exponent=0.5), "0.5"),
        (words("LeakyReluBackward0", negative_slope=0.2), "0.2"),
        (words("CatBackward0", dim=1), "dim=1"),
        (words("SplitBackward0", dim=2, split_size=96), "96, dim=2"),
        (words("TransposeBackward0", dim0=1, dim1=2), "1, 2"),
        (words("ClampBackward1", min=-1, max=1), "min=-1, max=1"),
        (words("ClampBackward1", min=0, max=None), "min=0"),
        (words("ConvolutionBackward0", stride=[2, 2], dilation=[1, 1], groups=6), "stride=2, groups=6"),
        (words("ConvolutionBackward0", stride=[2, 1], dilation=[1, 1], groups=1), "stride=(2, 1)"),
        (words("MaxPool2DWithIndicesBackward0", kernel_size=[3, 3], stride=[2, 2]), "3×3, stride=2"),
        (words("NativeBatchNormBackward0", training=False, eps=1e-5), "eval"),
        (words("MseLossBackward0", reduction=2), "sum"),
    ],
)
def test_arguments_that_decide_the_meaning_of_an_operation_are_shown(said: str, expected: str) -> None:
    assert said == expected


@pytest.mark.parametrize(
    "said",
    [
        words("AddBackward0", alpha=1),
        words("ConvolutionBackward0", stride=[1, 1], dilation=[1, 1], groups=1, padding=[1, 1]),
        words("MaxPool2DWithIndicesBackward0", stride=[], dilation=[1, 1]),
        words("LinalgVectorNormBackward0", ord=2, dim=None),
        words("NllLossBackward0", ignore_index=-100, reduction=1),
        words("NativeBatchNormBackward0", training=True, eps=1e-5),
        words("NativeLayerNormBackward0", normalized_shape=[32]),
        words("PowBackward0", "torch.Tensor.square", exponent=2),
        words("SoftmaxBackward0"),
    ],
)
def test_arguments_with_usual_values_are_only_in_the_tooltip(said: str) -> None:
    assert said == ""


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("SelectBackward0", {"dim": 0, "index": 0}, "[0]"),
        ("SelectBackward0", {"dim": 1, "index": -1}, "[:, -1]"),
        ("SelectBackward0", {"dim": -1, "index": 2}, "[..., 2]"),
        ("SelectBackward0", {"dim": -2, "index": 2}, "[..., 2, :]"),
        ("SliceBackward0", {"dim": 0, "start": 2, "end": 4, "step": 1}, "[2:4]"),
        ("SliceBackward0", {"dim": 1, "start": 0, "end": 2**63 - 1, "step": 2}, "[:, ::2]"),
        ("UnsqueezeBackward0", {"dim": 1}, "[:, None]"),
    ],
)
def test_an_index_reads_as_the_program_wrote_it(name: str, attributes: dict[str, Attribute], expected: str) -> None:
    assert words(name, "torch.Tensor.__getitem__", **attributes) == expected


def test_the_same_node_made_by_another_call_names_its_arguments() -> None:
    assert words("SelectBackward0", "torch.select", dim=1, index=0) == "dim=1, index=0"
    assert words("SplitBackward0", "torch.Tensor.chunk", dim=1, split_size=4) == "dim=1"
