"""Cosine similarity by hand: the scalar product, divided by both lengths."""

import torch

torch.manual_seed(0)
a = torch.randn(5, requires_grad=True)
b = torch.randn(5, requires_grad=True)

similarity = torch.dot(a, b) / (a.norm() * b.norm())
similarity.backward()

assert torch.allclose(similarity, torch.cosine_similarity(a, b, dim=0))
# Longer vectors are no more similar: the gradient is at right angles to each of them.
assert torch.isclose(torch.dot(a.grad, a), torch.tensor(0.0), atol=1e-6)
assert torch.isclose(torch.dot(b.grad, b), torch.tensor(0.0), atol=1e-6)
