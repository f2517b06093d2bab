"""Hooks that pack what is saved for backward: of the program, and torch's that move it to the processor's memory."""

import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

torch.manual_seed(0)
packed, unpacked = [], []


def pack(tensor):
    packed.append(tuple(tensor.shape))
    return tensor.detach().clone()


def unpack(kept):
    unpacked.append(tuple(kept.shape))
    return kept


w = torch.randn(3, 3, requires_grad=True)
x = torch.randn(3, 3)
with saved_tensors_hooks(pack, unpack):
    inner = torch.tanh(x @ w).exp()
    with save_on_cpu():
        inner = inner * inner
loss = inner.sin().sum()
loss.backward(retain_graph=True)
loss.backward()
(w * 2).square().sum().backward()

handle_calls = []
y = torch.randn(3, requires_grad=True)
z = y.exp()
z.grad_fn._raw_saved_result.register_hooks(
    lambda tensor: (handle_calls.append("pack"), tensor)[1], lambda kept: (handle_calls.append("unpack"), kept)[1]
)
z.sum().backward()
