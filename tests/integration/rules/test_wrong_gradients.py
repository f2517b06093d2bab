"""Causes that make a gradient wrong, in many shapes, and similar programs that are correct."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.finding import Finding
from gradviz.analysis.rules import RULES
from gradviz.analysis.rules.cost.saved_memory import saved_memory_above
from gradviz.capture.capture import Capture
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run
from tests.integration.rules import checked_scripts

WRONG: dict[tuple[str, str], str] = {
    ("broadcast_mismatch", "a policy loss with log probabilities of shape (N, 1)"): """
import torch
from torch import nn
policy = nn.Linear(4, 3)
optimizer = torch.optim.Adam(policy.parameters())
states, actions, returns = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randn(16)
chosen = policy(states).log_softmax(-1).gather(1, actions.unsqueeze(1))
advantage = returns - returns.mean()
loss = -(chosen * advantage).mean()  # HERE
loss.backward()
optimizer.step()
""",
    ("broadcast_mismatch", "classes with an axis of their own, looked up in all distributions"): """
import torch
from torch import nn
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for step in range(3):
    chosen, gain = torch.randint(3, (8, 1)), torch.randn(8)
    given = torch.distributions.Categorical(logits=policy(torch.randn(8, 4)))
    loss = -(given.log_prob(chosen) * gain).mean()  # HERE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ("broadcast_mismatch", "images with and without an axis for channels"): """
import torch
from torch import nn
model = nn.Conv2d(3, 1, 1)
images, masks = torch.rand(5, 3, 4, 4), torch.rand(5, 4, 4)
loss = nn.functional.l1_loss(model(images), masks)  # HERE
loss.backward()
""",
    ("broadcast_mismatch", "a Huber loss whose halves are chosen by where"): """
import torch
from torch import nn
q = nn.Linear(4, 3)
states, actions, target = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randn(16)
error = q(states).gather(1, actions.unsqueeze(1)) - target  # HERE
torch.where(error.abs() < 1, error ** 2, 2 * error.abs() - 1).mean().backward()
""",
    ("missing_zero_grad", "a closure that LBFGS runs many times"): """
import torch
w = torch.zeros(3, requires_grad=True)
x = torch.randn(20, 3)
optimizer = torch.optim.LBFGS([w], max_iter=5)
def closure():
    loss = (x @ w - x.sum(1) - 1).square().mean()
    loss.backward()  # HERE
    return loss
optimizer.step(closure)
""",
    ("broadcast_mismatch", "codes against centres with an axis between"): """
import torch
from torch import nn
encoder, centres = nn.Linear(5, 3), nn.Embedding(4, 3)
x, labels = torch.randn(8, 5), torch.randint(0, 4, (8, 1))
distance = (encoder(x) - centres(labels)).square()  # HERE
distance.sum(-1).mean().backward()
""",
    ("exploding_chain", "steps of a descent that are too large"): """
import torch
start = torch.nn.Parameter(torch.randn(4))
curvature, theta = torch.diag(torch.tensor([1.0, 2.0, 4.0, 9.0])), start
for _ in range(15):
    theta = theta - 0.5 * (curvature @ theta)  # HERE
theta.abs().mean().backward()
""",
    ("hook_alters_grad", "a hook that clears what the optimizer needs"): """
import torch
model = torch.nn.Linear(4, 2)
def save_memory(parameter):
    parameter.grad.zero_()  # HERE
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(save_memory)
model(torch.randn(8, 4)).square().mean().backward()
""",
    ("custom_function_wrong_backward", "rows that come up twice are overwritten"): """
import torch
class Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table[index]

    @staticmethod
    def backward(ctx, gradient):
        result = torch.zeros(ctx.shape, dtype=gradient.dtype)
        result[ctx.saved_tensors[0]] = gradient  # HERE
        return result, None
table = torch.nn.Parameter(torch.randn(5, 3))
Lookup.apply(table, torch.tensor([0, 3, 3, 1])).square().sum().backward()
""",
    ("broken_weight_tie", "a transposed copy"): """
import torch
from torch import nn
encoder, decoder = nn.Linear(6, 3), nn.Linear(3, 6)
decoder.weight = nn.Parameter(encoder.weight.t().clone())  # HERE
decoder(encoder(torch.randn(4, 6))).square().mean().backward()
""",
    ("exploding_chain", "a recurrence that overflows in its second step"): """
import torch
from torch import nn
W = nn.Parameter(nn.init.orthogonal_(torch.empty(6, 6)) * 2)  # HERE
optimizer = torch.optim.SGD([W], 1e-3)
for _ in range(2):
    h = torch.randn(4, 6)
    for _ in range(30):
        h = h @ W + 0.1
    optimizer.zero_grad()
    h.square().mean().backward()
    optimizer.step()
""",
    ("grad_argument", "the loss itself as gradient"): """
import torch
w = torch.nn.Parameter(torch.randn(4))
optimizer = torch.optim.SGD([w], 0.01)
loss = (torch.randn(20, 4) @ w - 1).square().mean()
loss.backward(gradient=loss.detach())  # HERE
optimizer.step()
""",
    ("grad_argument", "ones for the loss of each sample"): """
import torch
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
losses = model(torch.randn(6, 4)).square()
torch.autograd.backward([losses], [torch.ones(6, 3)])  # HERE
optimizer.step()
""",
    ("grad_argument", "grad of many elements"): """
import torch
x = torch.randn(6, 4, requires_grad=True)
torch.autograd.grad(torch.nn.Linear(4, 3)(x), x, create_graph=True)  # HERE
""",
    ("hook_alters_grad", "a hook object that works in place"): """
import torch
from torch import nn
class Probe:
    def __call__(self, grad):
        seen.append(grad.abs_().mean().item())  # HERE
seen = []
h = nn.Linear(5, 8)(torch.randn(9, 5))
h.register_hook(Probe())
h.square().mean().backward()
""",
    ("hook_alters_grad", "one more copy of a hook in every step"): """
import torch
model = torch.nn.Linear(5, 1)
for _ in range(3):
    model.weight.register_hook(lambda grad: grad * 0.5)  # HERE
    model.zero_grad()
    model(torch.randn(9, 5)).square().mean().backward()
""",
    ("hook_alters_grad", "a hook of a module"): """
import torch
from torch import nn
def look(module, grad_input, grad_output):
    sizes = tuple(grad.abs() for grad in grad_input)
    return sizes  # HERE
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
model[1].register_full_backward_hook(look)
model(torch.randn(9, 5)).square().mean().backward()
""",
    ("hook_alters_grad", "a number given back"): """
import torch
model, norms = torch.nn.Linear(5, 1), {}
for name, parameter in model.named_parameters():
    parameter.register_hook(lambda grad, name=name: norms.setdefault(name, grad.norm().item()))  # HERE
model(torch.randn(9, 5)).square().mean().backward()
""",
    ("double_backward_unsupported", "the second derivative is left out without a word"): """
import torch
from torch.autograd.function import once_differentiable
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3
    @staticmethod
    @once_differentiable  # HERE
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad
layer, x = torch.nn.Linear(3, 3), torch.randn(5, 3, requires_grad=True)
(force,) = torch.autograd.grad(Cube.apply(layer(x)).sum(), x, create_graph=True)
(force - 1).square().mean().backward()
""",
    ("double_backward_unsupported", "an operation of torch without one"): """
import torch
layer, x = torch.nn.Linear(3, 3), torch.randn(5, 3, requires_grad=True)
energy = torch.nn.functional.multi_margin_loss(layer(x), torch.tensor([0, 1, 2, 0, 1]), p=2)  # HERE
(force,) = torch.autograd.grad(energy, x, create_graph=True)
force.norm().backward()
""",
    ("custom_function_bad_return", "gradients in the wrong order"): """
import torch
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, factor, x):
        ctx.factor = factor
        return factor * x
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None  # HERE
Scale.apply(2.0, torch.nn.Linear(3, 3)(torch.randn(4, 3))).sum().backward()
""",
    ("custom_function_bad_return", "a gradient of the wrong shape"): """
import torch
class Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        to_weight = grad.t() @ x
        return grad @ weight.t(), to_weight  # HERE
weight = torch.nn.Parameter(torch.randn(3, 2))
Project.apply(torch.randn(4, 3), weight).sum().backward()
""",
    ("custom_function_bad_return", "a gradient is computed on the condition of another one"): """
import torch
class Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scale, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.scale = scale
        return scale * x @ weight
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        to_x = to_weight = None
        if ctx.needs_input_grad[1]:  # HERE
            to_x = ctx.scale * grad @ weight.t()
            to_weight = ctx.scale * x.t() @ grad
        return None, to_x, to_weight
weight = torch.nn.Parameter(torch.randn(3, 2))
Affine.apply(2.0, torch.randn(4, 3), weight).sum().backward()
""",
    ("custom_function_wrong_backward", "one formula of three"): """
import torch
class Affine(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, bias):
        return x @ weight.t() + bias
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        to_weight = grad.t() @ x / x.shape[0]  # HERE
        return grad @ weight, to_weight, grad.sum(0)
weight, bias = torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.zeros(3))
Affine.apply(torch.randn(7, 4), weight, bias).square().mean().backward()
""",
    ("custom_function_wrong_backward", "the incoming gradient is not used"): """
import torch
class SumOfSquares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().sum()
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x  # HERE
(0.1 * SumOfSquares.apply(torch.nn.Linear(3, 3)(torch.randn(4, 3)))).backward()
""",
    ("custom_function_wrong_backward", "the threshold of a soft threshold without the sign"): """
import torch
class Shrink(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, threshold):
        kept = x.abs() > threshold
        ctx.save_for_backward(kept)
        return torch.where(kept, x - threshold * torch.sign(x), torch.zeros_like(x))
    @staticmethod
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        passed = grad * kept
        return passed, -passed.sum(0)  # HERE
threshold = torch.nn.Parameter(torch.full((3,), 0.1))
Shrink.apply(torch.nn.Linear(4, 3)(torch.randn(9, 4)), threshold).square().mean().backward()
""",
    ("custom_function_wrong_backward", "a table that is interpolated between rounded places"): """
import torch
class Look(torch.autograd.Function):
    @staticmethod
    def forward(places, table):
        low = places.floor().long()
        part = places - low
        return table[low] * (1 - part) + table[low + 1] * part
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
    @staticmethod
    def backward(ctx, grad):
        places, table = ctx.saved_tensors
        low = places.floor().long()
        to_table = torch.zeros_like(table)
        to_table.index_add_(0, low, grad * (1 - places + low))
        to_table.index_add_(0, low + 1, grad)  # HERE
        return grad * (table[low + 1] - table[low]), to_table
places = torch.nn.Linear(4, 1)(torch.randn(30, 4)).sigmoid().squeeze(1) * 6
Look.apply(places, torch.nn.Parameter(torch.randn(8))).square().mean().backward()
""",
    ("gradient_into_target", "the copy follows the trained model by lerp_()"): """
import copy
import torch
online = torch.nn.Linear(4, 2)
target = copy.deepcopy(online)
optimizer = torch.optim.Adam(online.parameters())
for _ in range(4):
    best = target(torch.randn(8, 4)).max(1).values  # HERE
    loss = (online(torch.randn(8, 4)).max(1).values - best).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow.lerp_(fast, 0.1)
""",
    ("missing_zero_grad", "steps by hand under no_grad"): """
import torch
model = torch.nn.Linear(4, 1)
for _ in range(4):
    model(torch.randn(8, 4)).square().mean().backward()  # HERE
    with torch.no_grad():
        for parameter in model.parameters():
            change = 0.1 * parameter.grad
            parameter -= change
""",
    ("reentrant_checkpoint", "the features are in a dict"): """
import torch
from torch.utils.checkpoint import checkpoint
stem, block, head = (torch.nn.Linear(4, 4) for _ in range(3))
features = {"h": stem(torch.randn(6, 4))}
out = checkpoint(lambda parts: block(parts["h"]), features, use_reentrant=True)  # HERE
head(out).sum().backward()
""",
    ("reentrant_checkpoint", "segments one after the other"): """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
loss = checkpoint_sequential(model, 3, torch.randn(6, 4), use_reentrant=True).sum()  # HERE
loss.backward()
""",
}
"""By cause and shape; ``HERE`` is on the line to blame."""

HEALTHY: dict[str, str] = {
    "a recurrent module of torch over many steps, of which the last counts": """
import torch
cell, head = torch.nn.GRUCell(4, 8), torch.nn.Linear(8, 2)
h = torch.zeros(5, 8)
for _ in range(60):
    h = cell(torch.randn(5, 4), h)
head(h).square().mean().backward()
""",
    "a copy whose gradients another model steps along, and gradients of samples that are put into .grad": """
import copy
import torch
from torch.func import functional_call, grad, vmap
shared = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(shared.parameters(), 0.1)
def loss_of(parameters, x):
    return functional_call(shared, parameters, (x,)).square().mean()
for _ in range(2):
    local = copy.deepcopy(shared)
    local(torch.randn(8, 4)).square().mean().backward()
    for own, other in zip(shared.parameters(), local.parameters()):
        own.grad = other.grad
    optimizer.step()
private = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(private.parameters(), 0.1)
for _ in range(2):
    held = {name: parameter.detach() for name, parameter in private.named_parameters()}
    for name, each in vmap(grad(loss_of), in_dims=(None, 0))(held, torch.randn(8, 4)).items():
        private.get_parameter(name).grad = each.mean(0)
    optimizer.step()
    optimizer.zero_grad()
""",
    "optimizers that step in the midst of backward": """
import torch
model = torch.nn.Linear(4, 2)
optimizers = {each: torch.optim.SGD([each], 0.1) for each in model.parameters()}
def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad(set_to_none=False)
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step)
for _ in range(3):
    model(torch.randn(8, 4)).square().mean().backward()
""",
    "closures that clear and then add up, of optimizers that run them once and many times": """
import torch
w = torch.zeros(3, requires_grad=True)
batches = [torch.randn(20, 3) for _ in range(2)]
for optimizer in (torch.optim.LBFGS([w], max_iter=4), torch.optim.SGD([w], 0.1)):
    def closure():
        optimizer.zero_grad()
        for x in batches:
            loss = (x @ w - x.sum(1) - 1).square().mean() / 2
            loss.backward()
        return loss
    for _ in range(3):
        optimizer.step(closure)
""",
    "a reentrant checkpoint that only measures what is trained beside it": """
import torch
from torch.utils.checkpoint import checkpoint
layer = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(4, 3)
    print(checkpoint(layer, x, use_reentrant=True).mean())
    layer(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "kernels and ranks of all pairs": """
import torch
from torch import nn

torch.manual_seed(0)
g = nn.Linear(4, 6)
opt = torch.optim.Adam(g.parameters(), 1e-3)

def k(a, b):
    d = a.pow(2).sum(1, keepdim=True) + b.pow(2).sum(1) - 2 * a @ b.T
    return torch.exp(-d / 6).mean()

u = nn.Linear(4, 1)
opt.add_param_group({"params": list(u.parameters())})
for _ in range(3):
    x = torch.randn(32, 6)
    y = g(torch.randn(32, 4))
    loss = k(y, y) - 2 * k(y, x)
    s = u(torch.randn(32, 4)).squeeze(1)
    rank = torch.relu(1 - (s[:, None] - s)).mean()
    t = torch.arange(32.0)
    pe = torch.sin(t[:, None] * s).mean()
    w = nn.functional.softmax(u(torch.randn(32, 4)), 0)
    tot = loss + rank + pe + (w.squeeze() * t).sum()
    opt.zero_grad()
    tot.backward()
    opt.step()
""",
    "gradients handed on by hand": """
import torch
from torch import nn

m = nn.Linear(4, 1)
b = nn.Linear(1, 1)
o = torch.optim.SGD([*m.parameters(), *b.parameters()], 0.01)
for _ in range(3):
    o.zero_grad()
    x = torch.randn(6, 4, requires_grad=True)
    u = m(x).tanh()
    (du,) = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), create_graph=True)
    h = u.detach().requires_grad_()
    l = (b(h) ** 2).mean()
    l.backward()
    u.backward(h.grad, retain_graph=True)
    (du.square().mean()).backward(torch.tensor(0.5))
    l2 = torch.stack([(m(x) ** 2).mean(), (m(x).abs()).mean()])
    l2.backward(torch.ones(2))
    o.step()
""",
    "a weight that gets another name after it was used": """
import torch
layer = torch.nn.utils.spectral_norm(torch.nn.Linear(3, 3))
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
layer(torch.randn(4, 3)).square().mean().backward()
optimizer.step()
""",
    "hooks that mask, clip and log": """
import torch
from torch import nn

net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
o = torch.optim.SGD(net.parameters(), 0.1)
norms = []
mask = torch.ones(8, 5)
mask[:3] = 0
net[0].weight.register_hook(lambda g: g * mask)
net[2].weight.register_hook(lambda g: g.clamp(-0.01, 0.01))
for _ in range(3):
    h = net[:2](torch.randn(9, 5))
    h.register_hook(lambda g: norms.append(g.norm().item()))
    h.register_hook(lambda g: g / (g.norm() + 1e-6) if g.norm() > 1e-3 else g)
    l = net[2](h).square().mean()
    o.zero_grad()
    l.backward()
    o.step()
""",
    "first derivatives only of a function that has no second": """
import torch
from torch import nn
from torch.autograd.function import once_differentiable

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g

lin = nn.Linear(3, 3)
head = nn.Linear(3, 1)
opt = torch.optim.SGD([*lin.parameters(), *head.parameters()], 1e-3)
for _ in range(3):
    x = torch.randn(5, 3, requires_grad=True)
    (f,) = torch.autograd.grad(torch.tanh(head(lin(x))).sum(), x, create_graph=True)
    loss = (f - 1).square().mean() + Cube.apply(lin(x)).square().mean()
    g = torch.autograd.grad(Cube.apply(lin(x)).sum(), x)[0]
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(g.norm())
""",
    "binary weights that are estimated, and a soft threshold": """
import torch
from torch import nn
from torch.autograd import Function
class Binary(Function):
    @staticmethod
    def forward(ctx, x, weight):
        binary = weight.sign() * weight.abs().mean(1, keepdim=True)
        ctx.save_for_backward(x, weight, binary)
        return x @ binary.t()
    @staticmethod
    def backward(ctx, grad):
        x, weight, binary = ctx.saved_tensors
        return grad @ binary, (grad.t() @ x) * (weight.abs() <= 1)
class Shrink(Function):
    @staticmethod
    def forward(x, threshold):
        return x.sign() * (x.abs() - threshold).clamp(min=0)
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
    @staticmethod
    def backward(ctx, grad):
        x, threshold = ctx.saved_tensors
        passed = grad * (x.abs() > threshold)
        return passed, -(passed * x.sign()).sum(0)
class Scaled(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return scale * x.sign() + 0.1 * scale * x.abs()
    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * scale * (x.abs() < 1), (grad * x.clamp(-1, 1)).sum(0)
layer = nn.Linear(6, 4)
weight, threshold = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.full((4,), 0.1))
scale = nn.Parameter(torch.full((4,), 0.3))
optimizer = torch.optim.SGD([*layer.parameters(), weight, threshold, scale], lr=0.05)
for step in range(4):
    h = Shrink.apply(layer(torch.randn(16, 6)), threshold)
    loss = (Binary.apply(h, weight) + Scaled.apply(h, scale) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "straight-through, spikes, reversal, dropout and changes in place": """
import torch
from torch import nn, random
from torch.autograd import Function

class Round(Function):
    @staticmethod
    def forward(ctx, x, bits):
        return torch.round(x * bits) / bits

    @staticmethod
    def backward(ctx, g):
        return g, None

class LSQ(Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x, s)
        return torch.round((x / s).clamp(-4, 3)) * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        q = x / s
        m = ((q > -4) & (q < 3)).float()
        return g * m, (g * (m * (q.round() - q) + (1 - m) * q.clamp(-4, 3))).sum().reshape(s.shape) * 0.1

class Spike(Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).float()

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g / (1 + 10 * v.abs()) ** 2

class Rev(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -g * 0.3

class ClampSTE(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(-0.5, 0.5)

    @staticmethod
    def backward(ctx, g):
        return g.clone()

class Drop(Function):
    @staticmethod
    def forward(ctx, x, p):
        ctx.m = (torch.rand_like(x) > p) / (1 - p)
        print("dropping")
        return x * ctx.m

    @staticmethod
    def backward(ctx, g):
        return g * ctx.m, None

class Softplus(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log1p(torch.exp(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.sigmoid(x)

class InPlaceRelu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.clamp_(min=0)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (y > 0)

class Split(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable(i := x.argmax(1))
        ctx.save_for_backward(i)
        ctx.s = x.shape
        return x.max(1).values, i

    @staticmethod
    def backward(ctx, g, _):
        (i,) = ctx.saved_tensors
        return torch.zeros(ctx.s, dtype=g.dtype).scatter(1, i[:, None], g[:, None])

torch.manual_seed(0)
a = nn.Linear(6, 6)
s = nn.Parameter(torch.tensor([0.2]))
o = torch.optim.SGD([*a.parameters(), s], 0.01)
for _ in range(3):
    h = a(torch.randn(8, 6))
    v, _i = Split.apply(Drop.apply(h, 0.3))
    l = (
        sum(
            (f(h) ** 2).mean()
            for f in (
                lambda h: Round.apply(h, 8),
                lambda h: LSQ.apply(h, s),
                Spike.apply,
                Rev.apply,
                ClampSTE.apply,
                Softplus.apply,
                lambda h: InPlaceRelu.apply(h * 1),
            )
        )
        + v.mean()
    )
    o.zero_grad()
    l.backward()
    o.step()
""",
}


def recorded(script: str, folder: Path) -> Capture:
    path = folder / "train.py"
    path.write_text(f"import torch as _torch\n\n_torch.manual_seed(0)\n{script}")
    return run(find_script(str(path)), (), RecordingPlan(backward=None, calls=True, for_pictures=False)).capture


def alarms(capture: Capture) -> list[Finding]:
    return [finding for finding in check_case(Case(capture), RULES).findings if finding.is_alarm]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("cause", "shape"), WRONG)
def test_the_cause_and_its_line_come_first(cause: str, shape: str, tmp_path: Path) -> None:
    found = alarms(recorded(WRONG[cause, shape], tmp_path))
    lines = (tmp_path / "train.py").read_text().splitlines()
    location = found[0].location
    assert found[0].cause == cause
    assert location is not None
    assert "HERE" in lines[location.line - 1]


def test_ones_like_the_losses_are_ones_and_not_the_values_of_the_losses(tmp_path: Path) -> None:
    script = WRONG["grad_argument", "ones for the loss of each sample"]
    (finding,) = alarms(recorded(script.replace("torch.ones(6, 3)", "torch.ones_like(losses)"), tmp_path))
    assert finding.message.startswith("ones as the gradient of losses add up its 18 elements")


def test_a_hook_is_reported_in_a_capture_with_graphs_only(tmp_path: Path) -> None:
    capture = recorded(WRONG["hook_alters_grad", "a hook of a module"], tmp_path)
    assert [finding.cause for finding in alarms(replace(capture, calls=None))] == ["hook_alters_grad"]


def test_a_hook_that_masks_is_noted_by_its_own_name_and_may_stay(tmp_path: Path) -> None:
    capture = recorded(
        """
import torch
from torch import nn

def prune(layer, keep):
    def kept_only(grad):
        return grad * keep

    layer.weight.register_hook(kept_only)

layer = nn.Linear(5, 8)
prune(layer, torch.arange(8).ge(3).float().unsqueeze(1))
layer(torch.randn(9, 5)).square().mean().backward()
""",
        tmp_path,
    )
    (noted,) = [one for one in check_case(Case(capture), RULES).findings if one.cause == "hook_alters_grad"]
    assert noted.severity == "note"
    assert noted.message.startswith("the hook kept_only masks the gradient: 15 of its 40 elements become zero")
    assert noted.fix.startswith("leave it")


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("look", HEALTHY)
def test_similar_but_correct_programs_raise_no_alarm(look: str, tmp_path: Path) -> None:
    capture = recorded(HEALTHY[look], tmp_path)
    assert capture.error is None
    assert alarms(capture) == []


DEEP = """
h = torch.randn(100, 64)
layers = [torch.nn.Linear(64, 64) for _ in range(10)]
for layer in layers:
    h = torch.relu(layer(h))  # HERE
h.sum().backward()
"""


def test_a_limit_on_saved_memory_names_the_line_that_keeps_most(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"import torch\n{DEEP}")
    capture = run(find_script(str(path)), (), RecordingPlan(for_pictures=False)).capture
    (finding,) = check_case(Case(capture), [saved_memory_above(100_000)]).findings
    assert finding.evidence["saved_bytes"] == 11 * 100 * 64 * 4
    assert finding.location is not None
    assert "HERE" in path.read_text().splitlines()[finding.location.line - 1]
    assert check_case(Case(capture), [saved_memory_above(2**20)]).findings == ()


def test_output_of_a_function_that_is_called_again_is_not_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = WRONG["custom_function_wrong_backward", "the incoming gradient is not used"]
    path = tmp_path / "train.py"
    noisy = script.replace("return x.square()", "print('forward', torch.rand(1)); return x.square()")
    path.write_text(f"import torch\n{noisy}")
    run(find_script(str(path)), (), RecordingPlan(backward=None, calls=True, for_pictures=False))
    assert capfd.readouterr().out.count("forward") == 1


def test_a_function_that_cannot_be_called_again_is_disclosed(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("""
import torch
class Once(torch.autograd.Function):
    calls = []
    @staticmethod
    def forward(ctx, x):
        Once.calls.append(1)
        if len(Once.calls) > 1:
            raise RuntimeError("once is enough")
        return 2 * x
    @staticmethod
    def backward(ctx, grad):
        return 2 * grad
Once.apply(torch.nn.Linear(3, 3)(torch.randn(4, 3))).sum().backward()
""")
    capture = run(find_script(str(path)), (), RecordingPlan(backward=None, calls=True, for_pictures=False)).capture
    assert capture.error is None
    assert any("the backward of Once was not compared" in sentence for sentence in capture.disclosures)


def test_a_function_that_remembers_its_calls_is_disclosed_and_not_blamed(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("""
import torch
class Running(torch.autograd.Function):
    scale = 1.0
    @staticmethod
    def forward(ctx, x):
        Running.scale *= 1.1
        ctx.scale = Running.scale
        return x * ctx.scale
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale
Running.apply(torch.nn.Linear(3, 3)(torch.randn(4, 3))).sum().backward()
""")
    capture = run(find_script(str(path)), (), RecordingPlan(backward=None, calls=True, for_pictures=False)).capture
    assert [finding for finding in check_case(Case(capture), RULES).findings if finding.is_alarm] == []
    assert any("something else each time" in sentence for sentence in capture.disclosures)


BLUR = """
import torch
torch.manual_seed(0)
class Blur(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, spectrum):
        ctx.save_for_backward(spectrum)
        return torch.fft.ifft(torch.fft.fft(x) * spectrum).real
    @staticmethod
    def backward(ctx, grad):
        (spectrum,) = ctx.saved_tensors
        return torch.fft.ifft(torch.fft.fft(grad) * spectrum).real, None  # HERE
spectrum = torch.fft.fft(torch.tensor([0.5, 0.3, 0.2, 0, 0, 0, 0, 0]))
net = torch.nn.Linear(4, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = (Blur.apply(net(torch.randn(6, 4)), spectrum) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_function_with_a_constant_of_complex_numbers_is_compared_too(tmp_path: Path) -> None:
    checked_scripts.assert_first_alarm(BLUR, "custom_function_wrong_backward", tmp_path)
    assert not checked_scripts.alarms(BLUR.replace("fft(grad) * spectrum", "fft(grad) * spectrum.conj()"), tmp_path)
