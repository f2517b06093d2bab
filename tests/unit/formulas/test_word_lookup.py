"""What a word means without a graph."""

from __future__ import annotations

import pytest

from gradviz.formulas import known_formulas
from gradviz.formulas.available_formulas import KnownFormulas
from gradviz.formulas.derivative import FormulaTable
from gradviz.formulas.word_lookup import known_words, meaning_of


@pytest.mark.parametrize(
    ("word", "node"),
    [
        ("MulBackward0", "MulBackward0"),
        ("mulbackward1", "MulBackward1"),
        ("MulBackward", "MulBackward0"),
        ("Mul", "MulBackward0"),
        ("mul", "MulBackward0"),
        ("mul_", "MulBackward0"),
        ("*", "MulBackward0"),
        ("__imul__", "MulBackward0"),
        ("torch.Tensor.mul()", "MulBackward0"),
        ("aten::mul.Tensor", "MulBackward0"),
        ("torch.ops.aten.mul.Tensor", "MulBackward0"),
        ("torch.softmax", "SoftmaxBackward0"),
        ("F.linear", "AddmmBackward0"),
        ("torch.nn.Linear", "AddmmBackward0"),
        ("torch.nn.modules.linear.Linear", "AddmmBackward0"),
        ("nn.GELU", "GeluBackward0"),
        ("torch.special.expm1", "Expm1Backward0"),
        ("torch.linalg.norm", "LinalgVectorNormBackward0"),
        ("linalg.svd", "LinalgSvdBackward0"),
        ("native_layer_norm", "NativeLayerNormBackward0"),
        ("AccumulateGrad", "AccumulateGrad"),
        ("torch::autograd::CopySlices", "CopySlices"),
        ("CheckpointFunction", "CheckpointFunctionBackward"),
        ("Gather", "GatherBackward0"),
        ("nn.MultiMarginLoss", "MultiMarginLossBackward0"),
        ("torch.utils.checkpoint.checkpoint", "CheckpointFunctionBackward"),
        ("x.grad", "AccumulateGrad"),
        ("eigh", "LinalgEighBackward0"),
        ("torch.cholesky", "CholeskyBackward0"),
    ],
)
def test_a_word_means_the_usual_node_first(word: str, node: str) -> None:
    found = meaning_of(word, known_formulas())
    assert found is not None
    assert found.nodes[0] == node


def test_the_other_nodes_of_a_word_follow_and_nested_tensors_come_last() -> None:
    product, total = meaning_of("mul", known_formulas()), meaning_of("sum", known_formulas())
    assert product is not None
    assert total is not None
    assert product.nodes == ("MulBackward0", "MulBackward1")
    assert total.nodes[:2] == ("SumBackward0", "SumBackward1")
    assert all("NestedTensor" in node for node in total.nodes[2:])


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("argmax", "undifferentiable"),
        ("torch.vander", "followed"),
        ("nn.CosineEmbeddingLoss", "followed"),
        ("Tensor.detach_", "cut"),
        ("torch.no_grad", "cut"),
    ],
)
def test_functions_without_a_backward_are_reported_as_such(word: str, kind: str) -> None:
    found = meaning_of(word, known_formulas())
    assert found is not None
    assert (found.kind, found.nodes) == (kind, ())


@pytest.mark.parametrize("word", ["", "no_such_function", "torch.", "(", "Backward0", "mul mul"])
def test_an_unknown_word_means_nothing(word: str) -> None:
    assert meaning_of(word, known_formulas()) is None


def test_without_torch_gradviz_still_knows_its_own_formulas() -> None:
    nothing = KnownFormulas(FormulaTable(""), ("no torch",))
    softmax = meaning_of("softmax", nothing)
    assert softmax is not None
    assert softmax.nodes == ("SoftmaxBackward0",)
    assert meaning_of("MulBackward0", nothing) is not None
    assert "AccumulateGrad" in known_words(nothing)
