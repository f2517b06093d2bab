"""Custom functions that compute with parameters of which autograd does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FAULTS = {
    "a weight outside": """
weight = nn.Parameter(torch.randn(6, 4))
encoder, head = nn.Linear(5, 4), nn.Linear(6, 2)

class Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.tanh(x @ weight.t())
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return (grad * (1 - out * out)) @ weight

optimizer = torch.optim.Adam([weight, *encoder.parameters(), *head.parameters()])
for step in range(3):
    h = Mix.apply(encoder(torch.randn(8, 5)))  # HERE
    loss = F.cross_entropy(head(h), torch.randint(0, 2, (8,)))""",
    "a list of weights, seen again in backward": """
encoder, body, head = nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 2)

class Block(torch.autograd.Function):
    @staticmethod
    def forward(x, weights):
        for weight in weights:
            x = torch.relu(F.linear(x, weight))
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.weights = inputs[1]
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            out = Block.forward(x, ctx.weights)
        return torch.autograd.grad(out, x, grad)[0], None

optimizer = torch.optim.SGD([*encoder.parameters(), body.weight, *head.parameters()], lr=0.1)
for step in range(3):
    h = Block.apply(encoder(torch.randn(8, 5)), [body.weight])  # HERE
    loss = F.cross_entropy(head(h), torch.randint(0, 2, (8,)))""",
    "scaled weights in a dict, and data": """
net = nn.Linear(5, 2)

class Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, params):
        return F.linear(x, params["w"], params["b"])

    @staticmethod
    def backward(ctx, grad):
        return None, None

optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    h = Run.apply(torch.randn(8, 5), {"w": 2 * net.weight, "b": net.bias})  # HERE
    loss = F.cross_entropy(h, torch.randint(0, 2, (8,)))""",
}

HEALTHY = {
    "a checkpoint": """
encoder, body, head = nn.Linear(5, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 2)

class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, module, x):
        ctx.module = module
        ctx.save_for_backward(x)
        return module(x)

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            out = ctx.module(x)
        torch.autograd.backward(out, grad)
        return None, x.grad

optimizer = torch.optim.SGD([*encoder.parameters(), *body.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    loss = head(Checkpoint.apply(body, encoder(torch.randn(8, 5)))).square().mean()""",
    "one more step of a fixed point outside": """
cell, inject, head = nn.Linear(4, 4), nn.Linear(5, 4), nn.Linear(4, 2)

class Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        z = torch.zeros_like(x)
        for _ in range(5):
            z = torch.tanh(0.5 * cell(z) + x)
        return z

    @staticmethod
    def backward(ctx, grad):
        return None

optimizer = torch.optim.SGD([*cell.parameters(), *inject.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    u = inject(torch.randn(8, 5))
    loss = head(torch.tanh(0.5 * cell(Solve.apply(u)) + u)).square().mean()""",
    "a layer that is not to train": """
encoder, body, head = nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 2)

class Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return body(x)

    @staticmethod
    def backward(ctx, grad):
        return grad @ body.weight

optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    loss = head(Run.apply(encoder(torch.randn(8, 5)))).square().mean()""",
    "backward assigns the gradient": """
weight = nn.Parameter(torch.randn(6, 4))
encoder, head = nn.Linear(5, 4), nn.Linear(6, 2)

class Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        weight.grad = grad.t() @ ctx.saved_tensors[0]
        return grad @ weight

optimizer = torch.optim.Adam([weight, *encoder.parameters(), *head.parameters()])
for step in range(3):
    loss = head(Mix.apply(encoder(torch.randn(8, 5)))).square().mean()""",
    "a codebook with a loss of its own": """
book = nn.Parameter(torch.randn(7, 4))
encoder, head = nn.Linear(5, 4), nn.Linear(4, 5)

class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        return F.embedding(torch.cdist(z, book).argmin(1), book)

    @staticmethod
    def backward(ctx, grad):
        return grad

optimizer = torch.optim.Adam([book, *encoder.parameters(), *head.parameters()])
for step in range(3):
    x = torch.randn(8, 5)
    z = encoder(x)
    near = book[torch.cdist(z, book).argmin(1)]
    loss = F.mse_loss(head(Quantize.apply(z)), x)
    loss = loss + F.mse_loss(near, z.detach()) + F.mse_loss(z, near.detach())""",
}


@pytest.mark.parametrize("script", FAULTS.values(), ids=FAULTS)
def test_the_line_that_calls_the_function_is_found(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "function_hides_parameter", tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_parameters_that_get_their_gradient_raise_no_alarm(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script + TRAIN, tmp_path) == []
