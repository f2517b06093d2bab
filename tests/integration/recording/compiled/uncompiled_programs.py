"""Models of which a part runs uncompiled under `torch.compile`: run in a process of its own."""

# Much of torch has no types: backward, Function.apply, compile.
# mypy: ignore-errors
from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.integration.recording.helpers import record


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(9, 8), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        out, _ = self.lstm(self.embedding(x.long().abs().clamp(max=8)))
        return self.head(out[:, -1])


class Loop(nn.Module):
    """Dynamo gives up a frame that breaks in a loop."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x)) + 1.0
            torch._dynamo.graph_break()
            x = x.tanh()
        return x


class InPlace(Loop):
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).sin()
            torch._dynamo.graph_break()
            x *= 2.0
            x[0] = 1.0
        return x


class Operators(Loop):
    """Lines with several operators."""

    def forward(self, x):
        for layer in self.layers:
            torch._dynamo.graph_break()
            y = layer(x) * 2.0 + x / 3
            x = 1 - (y - 0.5 * x**2) @ layer.weight + 2 / (y % 7 + 10) - -y
            y += (x[0] * 1.5 - F.relu(y) / (2 - x)) * 0.1
            x, y = x - y, y * x
        return x + y


class Cutting(nn.Module):
    """Lines that cut off a layer each."""

    def __init__(self):
        super().__init__()
        for name in ("detached", "read", "off", "left", "printed", "head"):
            setattr(self, name, nn.Linear(8, 8))

    def forward(self, x):
        for _ in range(2):
            torch._dynamo.graph_break()
        x = x + self.detached(x).detach()  # cuts detached
        y = self.read(x)
        x = x + y.data  # cuts read
        with torch.no_grad():  # cuts off
            x = x + self.off(x)
        x = x * torch.tensor(self.left(x).sum().tolist())  # cuts left
        y = self.printed(x)
        str(y.sum().item())
        return self.head(x + y)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


class Custom(Loop):
    def forward(self, x):
        for layer in self.layers:
            torch._dynamo.graph_break()
            x = Cube.apply(layer(x))
        return x


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x):
        return x + self.norm(self.linear(x))


class Blocks(nn.Module):
    """Its blocks are compiled one by one; the second uses the code of the first."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            torch._dynamo.graph_break()
            x = block(x)
        return x


def _halved(x):
    return x / 2


_halved.__code__ = _halved.__code__.replace(co_consts=(*_halved.__code__.co_consts, {}))
"""Dynamo also makes code that cannot be hashed, because a constant of it cannot."""


class Unhashable(Loop):
    def forward(self, x):
        for layer in self.layers:
            torch._dynamo.graph_break()
            x = torch.compiler.disable(_halved)(layer(x))
        return x


PROGRAMS = {
    "recurrent": Recurrent,
    "loop": Loop,
    "in_place": InPlace,
    "custom": Custom,
    "operators": Operators,
    "cutting": Cutting,
    "blocks": Blocks,
    "unhashable": Unhashable,
}


def gradients(make, backend):
    """The gradients of one step."""
    return _step(make, backend)[1]


def _step(make, backend):
    torch.manual_seed(0)
    model = make()
    net = torch.compile(model, backend=backend) if backend else model
    loss = net(torch.randn(4, 8)).square().mean()
    loss.backward()
    return net, [parameter.grad for parameter in model.parameters()]


def told(make, backend):
    """Each operation's module, line, name, kind and call; the gradients; and lines that cut off gradients."""
    found = []
    capture = record(lambda: found.append(_step(make, backend))).capture
    graph = capture.graphs[0]
    operations = []
    for node in graph.nodes:
        if not node.is_leaf:
            path = graph.scopes[node.scope].path.partition(".")[2] if node.scope is not None else ""
            line = graph.call_sites[node.call_site].line
            operations.append([path, line, node.name, node.kind, node.forward_call])
    return operations, found[0][1], [[cut.line, cut.parameters] for cut in capture.uncompiled_cuts]
