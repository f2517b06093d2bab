"""Sparse, complex, half, quantized, nested and meta tensors; gradients that are sparse, expanded, undefined."""

import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
embedding = nn.Embedding(10, 3, sparse=True)
bag = nn.EmbeddingBag(10, 3, mode="sum", sparse=True)
optimizer = torch.optim.SparseAdam([*embedding.parameters(), *bag.parameters()], lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    (embedding(torch.tensor([1, 2, 2])).sum() + bag(torch.tensor([[1, 4]])).square().sum()).backward()
    optimizer.step()
z = torch.randn(3, dtype=torch.complex64, requires_grad=True)
(z * z.conj()).real.sum().backward()
z.imag.sum().backward()
half = torch.randn(3, dtype=torch.bfloat16, requires_grad=True)
(half * 2).sum().backward()
expanded = torch.randn(1, requires_grad=True)
expanded.expand(1000, 1000).sum().backward()
nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged, requires_grad=True)
(nested * 2).values().sum().backward()
meta = torch.randn(3, device="meta", requires_grad=True)
(meta * 2).sum().backward()
sparse = torch.eye(3).to_sparse().requires_grad_()
torch.sparse.mm(sparse, torch.ones(3, 3)).sum().backward()
empty = torch.zeros(0, 3, requires_grad=True)
empty.sum().backward()
infinite = torch.tensor([0.0, 1.0], requires_grad=True)
infinite.log().sum().backward()
values, indices = torch.randn(5, requires_grad=True).sort()
values[:2].sum().backward()
a = torch.randn(3, requires_grad=True)
torch.autograd.backward([a.sum(), (a * 2)], [None, torch.ones(3)])
injected = torch.randn(3, requires_grad=True)
injected.grad = torch.ones(3)
given = injected.grad
(injected * 2).sum().backward()
assert injected.grad is given
