"""A few dozen small programs with different graphs. Each gives back the tensors whose graph is meant."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Program = Callable[[], "tuple[Tensor, ...]"]
PROGRAMS: dict[str, Program] = {}


def program(make: Callable[[], Tensor | tuple[Tensor, ...]]) -> Callable[[], Any]:
    """Enters a program into `PROGRAMS`, under the words of its name."""

    def roots() -> tuple[Tensor, ...]:
        torch.manual_seed(0)
        made = make()
        return made if isinstance(made, tuple) else (made,)

    PROGRAMS[make.__name__.replace("_", " ")] = roots
    return make


def weight(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A leaf with a graph."""
    return torch.ones(shape, dtype=dtype, requires_grad=True)


class Twice(torch.autograd.Function):
    """A function with two outputs, one of which is usually left unused."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 2 + grads[1] * 3


@program
def one_operation() -> Tensor:
    return weight(3).sum()


@program
def a_leaf_alone() -> Tensor:
    return weight()


@program
def a_diamond() -> Tensor:
    x = weight(3) * 2
    return (x.sin() * x.cos()).sum()


@program
def the_same_tensor_twice_in_one_call() -> Tensor:
    w = weight(3)
    return (w * w).sum()


@program
def a_leaf_shared_by_many() -> Tensor:
    w = weight(3)
    return sum(((w * step).sum() for step in range(1, 20)), torch.zeros(()))


@program
def no_gradient_for_one_argument() -> Tensor:
    return (weight(3) * torch.ones(3)).sum()


@program
def no_gradient_for_the_first_argument() -> Tensor:
    return F.linear(torch.ones(2, 3), weight(4, 3)).sum()


@program
def several_outputs_of_unbind() -> Tensor:
    first, _, third = (weight(3, 2) * 2).unbind()
    return (first * third).sum()


@program
def several_outputs_of_split() -> Tensor:
    parts = (weight(6) * 2).split([1, 2, 3])
    return parts[2].sum() + parts[0].sum()


@program
def chunks_in_reverse() -> Tensor:
    return torch.cat(tuple(reversed((weight(6) * 1).chunk(3)))).prod()


@program
def values_and_indices() -> Tensor:
    values, _ = (weight(4) * 2).max(dim=0)
    return values + (weight(4) * 1).topk(2).values.sum()


@program
def an_lstm() -> Tensor:
    output, (hidden, cell) = nn.LSTM(2, 3, num_layers=2)(torch.ones(4, 1, 2))
    return output.sum() + hidden.sum() + cell.mean()


@program
def a_recurrent_cell_unrolled() -> Tensor:
    cell, hidden = nn.RNNCell(2, 3), torch.zeros(1, 3)
    for _ in range(30):
        hidden = cell(torch.ones(1, 2), hidden)
    return hidden.sum()


@program
def in_place_on_the_whole() -> Tensor:
    x = weight(3) * 2
    x.add_(1).mul_(weight(3))
    return x.sum()


@program
def in_place_on_a_view() -> Tensor:
    x = weight(4) * 2
    x[1:3].mul_(weight(2))
    return x.sum()


@program
def a_view_of_what_was_changed() -> Tensor:
    base = weight(4) * 2
    view = base[:2]
    base.mul_(3)
    return view.sum() + base.sum()


@program
def assignment_to_an_element() -> Tensor:
    x = torch.zeros(3, 3)
    x[0] = weight(3)
    x[1, 2] = weight()
    return x.sum()


@program
def as_strided() -> Tensor:
    return (weight(6) * 1).as_strided((2, 2), (3, 1)).sum()


@program
def a_convolutional_net() -> Tensor:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return net(torch.ones(1, 1, 6, 6)).sum()


@program
def attention() -> Tensor:
    return F.scaled_dot_product_attention(weight(1, 2, 3, 4), weight(1, 2, 3, 4), weight(1, 2, 3, 4)).sum()


@program
def an_encoder_layer() -> Tensor:
    return nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)(torch.ones(1, 3, 4)).sum()


@program
def an_embedding() -> Tensor:
    return nn.EmbeddingBag(5, 3)(torch.tensor([[0, 1], [2, 2]])).sum() + nn.Embedding(5, 3)(torch.tensor([4])).sum()


@program
def a_loss_with_targets() -> Tensor:
    return F.cross_entropy(weight(2, 3) * 1, torch.tensor([0, 2]))


@program
def einsum_and_where() -> Tensor:
    x = torch.einsum("ij,jk->ik", weight(2, 3), weight(3, 2))
    return torch.where(x > 0, x, weight(2, 2)).sum()


@program
def linear_algebra() -> Tensor:
    matrix = weight(2, 2) + torch.eye(2)
    return torch.linalg.eigh(matrix @ matrix.mT).eigenvalues.sum() + torch.linalg.svd(matrix)[1].sum()


@program
def fourier() -> Tensor:
    return torch.fft.rfft(weight(4)).abs().sum()


@program
def complex_numbers() -> Tensor:
    z = weight(2, dtype=torch.complex64) * (1 + 2j)
    return (z.conj() * z).real.sum() + torch.view_as_real(z).sum()


@program
def a_sparse_product() -> Tensor:
    sparse = torch.eye(3).to_sparse().requires_grad_()
    return torch.sparse.mm(sparse, weight(3, 2)).sum()


@program
def a_function_in_python() -> Tensor:
    first, _ = Twice.apply(weight(3) * 1)
    return first.sum()


@program
def both_outputs_of_a_function_in_python() -> Tensor:
    first, second = Twice.apply(weight(3))
    return (first * second).sum()


@program
def reentrant_checkpoint() -> Tensor:
    return checkpoint(nn.Linear(2, 2), weight(1, 2), use_reentrant=True).sum()


@program
def checkpoint_without_reentering() -> Tensor:
    return checkpoint(nn.Linear(2, 2), weight(1, 2), use_reentrant=False).sum()


@program
def the_graph_of_a_gradient() -> Tensor:
    x = weight(3)
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return gradient.pow(2).sum()


@program
def the_graph_of_a_second_gradient() -> Tensor:
    x = weight(3)
    (first,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    return second.sum()


@program
def weight_normalisation() -> Tensor:
    return nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))(torch.ones(1, 2)).sum()


@program
def two_roots_that_share_their_graph() -> tuple[Tensor, ...]:
    x = weight(3) * 2
    return x.sum(), x.exp().sum()


@program
def two_outputs_of_one_operation_as_roots() -> tuple[Tensor, ...]:
    low, high = (weight(2) * 1).unbind()
    return low, high


@program
def one_root_inside_the_graph_of_another() -> tuple[Tensor, ...]:
    x = (weight(3) * 2).sum()
    return x, x.exp()


@program
def roots_without_a_common_node() -> tuple[Tensor, ...]:
    return weight(2).sum(), weight(3).prod(), weight()


@program
def empty_and_scalar_tensors() -> Tensor:
    return weight(0, 3).sum() + weight() * 2


@program
def half_precision() -> Tensor:
    return (weight(3, dtype=torch.bfloat16) * weight(3)).sum()


@program
def autocast() -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return nn.Linear(2, 2)(weight(1, 2)).sum()


@program
def a_mapped_function() -> Tensor:
    return torch.vmap(lambda row, w: (row * w).sum(), in_dims=(0, None))(weight(2, 3), weight(3)).sum()


@program
def a_nested_tensor() -> Tensor:
    nested = torch.nested.as_nested_tensor([weight(2), weight(3)], layout=torch.jagged)
    return nested.sin().values().sum()


@program
def a_long_chain_that_is_cut_for_freeing() -> Tensor:
    x = weight(1)
    for _ in range(900):
        x = x + 1
    return x.sum()


def independent_walk(roots: tuple[Tensor, ...]) -> Iterator[tuple[Any, tuple[tuple[Any, int], ...]]]:
    """Every node and its ``next_functions``, in the most direct way."""
    waiting = [root.grad_fn or torch.autograd.graph.get_gradient_edge(root).node for root in roots]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node, node.next_functions
        for follower, _ in node.next_functions:
            if follower is not None and follower not in seen:
                seen.add(follower)
                waiting.append(follower)
