"""torch.func: grad, vmap, jacrev, jacfwd, hessian, vjp, jvp, functional_call, per-sample gradients."""

import torch
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

torch.manual_seed(0)


def f(x):
    return (x.sin() * x).sum()


x = torch.randn(4, requires_grad=True)
model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
parameters = dict(model.named_parameters())


def loss_of(parameters, sample):
    return functional_call(model, parameters, (sample,)).square().sum()


batch = torch.randn(5, 4)
found = {
    "grad": grad(f)(x),
    "grad and value": grad_and_value(f)(x),
    "second": grad(lambda v: grad(f)(v).sum())(x),
    "jacrev": jacrev(torch.sin)(x),
    "jacfwd": jacfwd(torch.sin)(x),
    "hessian": hessian(f)(x),
    "vjp": vjp(torch.exp, x)[1](torch.ones(4)),
    "jvp": jvp(torch.exp, (x,), (torch.ones(4),)),
    "vmap": vmap(f)(batch),
    "per sample": vmap(grad(loss_of), in_dims=(None, 0))(parameters, batch),
    "random": vmap(lambda v: v * torch.rand(4), randomness="different")(batch),
}
stacked, buffers = stack_module_state([nn.Linear(4, 2) for _ in range(3)])
one = nn.Linear(4, 2)
ensemble = vmap(lambda p, b, v: functional_call(one, (p, b), (v,)), in_dims=(0, 0, None))
ensemble(stacked, buffers, batch).sum().backward()
grad(f)(x).sum().backward()
vmap(f)(batch * x).sum().backward()
f(x).backward()
torch.autograd.functional.jacobian(torch.tanh, x, create_graph=True).sum().backward()
torch.autograd.functional.hvp(f, x, torch.ones(4))
(batched,) = torch.autograd.grad(torch.tanh(x), x, torch.eye(4), is_grads_batched=True)
