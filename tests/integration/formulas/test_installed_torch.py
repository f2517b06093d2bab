"""The formulas read from torch's files match the torch that runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gradviz.formulas import of
from gradviz.formulas.special_nodes import special_node
from tests.formulas.coverage import classes_that_differ, known_names


def test_every_node_that_torch_has_is_explained() -> None:
    known = known_names()
    assert len(known.of_torch) > 600
    assert known.of_torch - known.exact - known.special == frozenset()


def test_compiled_nodes_save_the_values_that_their_formulas_name() -> None:
    assert classes_that_differ() == []


@pytest.mark.parametrize(
    "call", [torch.exp, lambda x: torch.softmax(x, 0), lambda x: torch.cdist(x, x.detach()), lambda x: torch.pdist(x)]
)
def test_a_backward_can_be_differentiated_where_gradviz_says_so(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.rand(3, 3, requires_grad=True)
    result = call(x)
    assert result.grad_fn is not None
    derivative = of(result.grad_fn.name())
    assert derivative is not None
    (first,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    if derivative.second.is_possible:
        torch.autograd.grad(first.square().sum(), x)
    else:
        with pytest.raises(RuntimeError, match="is not implemented"):
            torch.autograd.grad(first.square().sum(), x)


def test_nodes_written_by_hand_have_a_description_under_the_names_that_torch_gives_them() -> None:
    base = torch.ones(3, requires_grad=True).clone()
    base[0] = torch.ones((), requires_grad=True)
    copied = torch.zeros(2, dtype=torch.float64)
    copied.copy_(torch.ones(2, requires_grad=True))
    leaf = base.grad_fn.next_functions[1][0] if base.grad_fn is not None else None
    unknown = torch.floor_divide(base, 2).grad_fn
    again = checkpoint(torch.exp, base, use_reentrant=True).grad_fn
    assert special_node(type(again).__name__) is not None  # not every torch lets a custom function tell its name
    for node in (base.grad_fn, copied.grad_fn, leaf, unknown):
        assert node is not None
        assert special_node(node.name()) is not None, node.name()
