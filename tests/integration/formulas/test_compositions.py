"""Calls of functions without a backward of their own make the nodes that gradviz lists."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from gradviz.formulas import known_formulas
from gradviz.formulas.compositions import Composition, compositions
from gradviz.recording.walk.node_kinds import kind_of_operation

# Nodes that do not matter for a gradient: other shapes and types of the same numbers.
_PLUMBING = frozenset({"ToCopyBackward0", "UnsafeSplitBackward0"})
CALLS = list(dict.fromkeys(each for found in compositions().values() for each in found))


def _leaf(*sizes: int) -> torch.Tensor:
    return torch.rand(*sizes, requires_grad=True)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """The names that a call may use."""
    torch.manual_seed(0)
    positive = torch.rand(4, 4)
    return {
        "torch": torch, "F": functional, "nn": nn, "weight_norm": weight_norm,
        "x": _leaf(3, 4), "y": _leaf(3, 4), "p": _leaf(3, 4), "square": _leaf(4, 4), "cube": _leaf(2, 4, 4),
        "positive": (positive @ positive.T + torch.eye(4)).requires_grad_(),
        "z": torch.rand(3, 4, dtype=torch.complex64, requires_grad=True),
        "vector": _leaf(4), "scale": _leaf(4), "shift": _leaf(4), "weight": _leaf(5, 4), "bias": _leaf(5),
        "batch": _leaf(2, 3, 4), "line": _leaf(2, 3, 8), "image": _leaf(2, 3, 8, 8), "volume": _leaf(1, 2, 4, 4, 4),
        "kernel1": _leaf(4, 3, 3), "kernel": _leaf(4, 3, 3, 3), "kernel3": _leaf(2, 2, 2, 2, 2),
        "kernel_t": _leaf(3, 4, 3, 3), "q": _leaf(1, 2, 4, 8), "columns": _leaf(1, 12, 49),
        "grid": torch.rand(2, 4, 4, 2),
        "labels": torch.tensor([0, 1, 2]), "rows": torch.tensor([0, 2]), "bags": torch.tensor([[0, 1]]),
        "order": torch.rand(3, 4).argsort(1),
        "log_p": _leaf(5, 1, 3), "targets": torch.tensor([[1, 2]]), "lengths": torch.tensor([5]),
        "counts": torch.tensor([2]),
    }  # fmt: skip


@pytest.mark.parametrize("composition", CALLS, ids=[each.call for each in CALLS])
def test_a_call_makes_the_nodes_that_are_named(composition: Composition, names: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = eval(composition.call, dict(names))
    made = _nodes_of(result)
    told = {*composition.nodes, *composition.sometimes}
    assert {name for name in made if name not in told and not _is_plumbing(name)} == set()
    assert set(composition.nodes) <= made


def test_every_node_that_is_named_has_a_formula() -> None:
    named = {node for each in CALLS for node in (*each.nodes, *each.sometimes)}
    assert named - known_formulas().by_node.keys() == set()


def _is_plumbing(name: str) -> bool:
    return kind_of_operation(name) == "view" or name in _PLUMBING


def _nodes_of(result: torch.Tensor) -> set[str]:
    found: set[str] = set()
    waiting, seen = [result.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if "AccumulateGrad" not in node.name():
            found.add(node.name())
        waiting += [other for other, _ in node.next_functions]
    return found
