"""Hooks on modules, tensors, leaves and nodes; some change what they get, and one removes itself."""

import torch
from torch import nn

torch.manual_seed(0)
calls = []


def noting(name, change=None):
    def hook(*args):
        calls.append(name)
        if change is None:
            return None
        return change(*args)

    return hook


model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
model.register_forward_pre_hook(noting("model forward before"))
model.register_forward_hook(noting("model forward", lambda module, args, out: out * 1.5))
model[0].register_forward_hook(noting("with kwargs"), with_kwargs=True, always_call=True)
model[0].register_full_backward_pre_hook(noting("linear backward before", lambda module, grads: (grads[0] * 2,)))
model[0].register_full_backward_hook(noting("linear backward"))
model[2].register_full_backward_hook(noting("last backward", lambda module, received, sent: (received[0] * 0.5,)))
model[0].weight.register_hook(noting("weight", lambda gradient: gradient.clamp(-0.1, 0.1)))
model[0].weight.register_hook(noting("weight again"))
model[2].bias.register_post_accumulate_grad_hook(noting("bias accumulated"))
for _ in range(3):
    hidden = model[1](model[0](torch.randn(5, 3, requires_grad=True)))
    hidden.register_hook(noting("hidden", lambda gradient: gradient * 3))
    hidden.retain_grad()
    hidden.grad_fn.register_prehook(noting("node before", lambda gradients: (gradients[0] + 1,)))
    handle = hidden.grad_fn.register_hook(noting("node after", lambda sent, received: (sent[0] - 1,)))
    once = hidden.register_hook(lambda gradient: (calls.append("once"), once.remove())[0])
    torch.autograd.graph.register_multi_grad_hook([hidden, model[2].weight], noting("several"))
    loss = model[2](hidden).square().sum() + model(torch.randn(2, 3)).sum()
    loss.backward()
    handle.remove()
