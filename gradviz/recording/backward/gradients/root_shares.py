"""Measures what each loss adds to the gradient of every leaf: one backward per loss, before the program's own.

The program's state is restored, but hooks, custom functions and checkpoints of the program run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from math import isfinite
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from gradviz.graph.model import Graph
from gradviz.graph.root_shares import LeafProducts, RootShares
from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.backward.gradients.loss_terms import Loss, losses_of
from gradviz.recording.backward.program_state import program_state_restored
from gradviz.recording.torch_access.unwatched_backward import unwatched
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.leaves import leaf_variables

NOTHING_TO_COMPARE = (
    "shares of losses were asked for, but backward started from one root that is not a sum: there is nothing to compare"
)


def measured_root_shares(walk: Walk, graph: Graph, request: BackwardRequest) -> RootShares | None:
    """Runs a backward for each loss of the call; None if there is only one. Raises what the program's hooks raise."""
    with measuring():
        losses = losses_of(walk, graph, request.gradients)
    if len(losses) < 2:
        return None
    leaves = [(index, variable) for index, variable in leaf_variables(walk) if variable.requires_grad]
    with program_state_restored(graph), unwatched():
        gradients = [_gradients_of(loss, walk, [variable for _, variable in leaves]) for loss in losses]
    with measuring():
        products = list(_products([index for index, _ in leaves], gradients))
    return RootShares(tuple(loss.term for loss in losses), tuple(products))


def _gradients_of(loss: Loss, walk: Walk, leaves: list[torch.Tensor]) -> Sequence[Any]:
    edges = [GradientEdge(walk.wrappers[index], output_nr) for (index, output_nr), _ in loss.starts]
    starts = [gradient for _, gradient in loss.starts]
    return torch.autograd.grad(edges, leaves, starts, retain_graph=True, allow_unused=True)


def _products(indices: Sequence[int], gradients: Sequence[Sequence[Any]]) -> Iterator[LeafProducts]:
    count = len(gradients)
    for position, index in enumerate(indices):
        flat = [_flat(of_loss[position]) for of_loss in gradients]
        if not any(each is not None for each in flat):
            continue
        matrix: list[list[float | None]] = [[0.0] * count for _ in range(count)]
        for one, other in combinations_with_replacement(range(count), 2):
            left, right = flat[one], flat[other]
            if left is not None and right is not None:
                product = float(left @ right)
                matrix[one][other] = matrix[other][one] = product if isfinite(product) else None
        yield LeafProducts(index, tuple(product for row in matrix for product in row))


def _flat(gradient: Any) -> torch.Tensor | None:
    """A vector of real numbers; None for gradients that do not exist or cannot be measured."""
    if gradient is None or type(gradient) is not torch.Tensor or gradient.is_meta or gradient.is_nested:
        return None
    dense = gradient.to_dense() if gradient.layout != torch.strided else gradient
    numbers = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
    wide = numbers if numbers.dtype in (torch.float32, torch.float64) else numbers.float()
    return wide.reshape(-1)
