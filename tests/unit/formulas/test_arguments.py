"""Names of the inputs and results of nodes, from the schemas of their functions."""

from __future__ import annotations

import pytest

from gradviz.formulas import of
from gradviz.formulas.arguments import edge_names, result_names, tensor_arguments


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("mul.Tensor(Tensor self, Tensor other) -> Tensor", ["self", "other"]),
        ("add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", ["self", "other"]),
        ("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", ["input", "weight", "bias"]),
        ("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", ["self", "indices"]),
        ("avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[]) -> Tensor", ["self"]),
    ],
)
def test_tensor_arguments_are_distinguished_from_settings(schema: str, names: list[str]) -> None:
    assert [each.name for each in tensor_arguments(schema)] == names


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("exp(Tensor self) -> Tensor", ("result",)),
        ("sort(Tensor self) -> (Tensor values, Tensor indices)", ("values", "indices")),
        ("native_dropout(Tensor input, float p) -> (Tensor, Tensor)", ("result0", "result1")),
    ],
)
def test_results_are_called_as_in_the_formulas(schema: str, names: tuple[str, ...]) -> None:
    assert result_names(schema) == names


@pytest.mark.parametrize(
    ("node", "count", "names"),
    [
        ("AddmmBackward0", 3, ("self", "mat1", "mat2")),
        ("CatBackward0", 2, ("tensors[0]", "tensors[1]")),
        ("ConvolutionBackward0", 3, ("input", "weight", "bias")),
        ("MulBackward0", 5, ()),
    ],
)
def test_edges_are_arguments_in_order(node: str, count: int, names: tuple[str, ...]) -> None:
    derivative = of(node)
    assert derivative is not None
    assert edge_names(derivative, count) == names
