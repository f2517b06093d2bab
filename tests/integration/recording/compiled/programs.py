"""Models that are recorded as they are and compiled, and what is told of both: run in a process of its own."""

# Much of torch has no types: backward, Function.apply, compile.
# mypy: ignore-errors
from __future__ import annotations

import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

from gradviz.analysis.flow.gradient_flow import gradient_flow
from tests.integration.recording.helpers import record


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.act = nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()

    def forward(self, x):
        hidden = self.act(self.linear(x))
        hidden = self.act(hidden)
        return x + self.norm(hidden)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Breaking(Net):
    def forward(self, x):
        x = self.blocks[0](x)
        if x.sum().item() > -1e9:
            x = self.blocks[1](x)
        return self.head(x)


class Changing(Net):
    """Behind the graph break it changes what it gets, which requires grad and is no leaf."""

    def forward(self, x):
        x = self.blocks[0](x)
        torch._dynamo.graph_break()
        x[:, 1:].mul_(2)
        x.relu_()
        return self.head(x.sin())


class Listed(Net):
    """Finds its modules in a list and in a dictionary of its own."""

    def __init__(self):
        super().__init__()
        self.steps, self.ends = list(self.blocks), {"last": self.head}

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return self.ends["last"](x)


class Checkpointed(Net):
    def forward(self, x):
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        return self.head(x)


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()


class Custom(Net):
    def forward(self, x):
        return self.head(Sine.apply(self.blocks[0](x)))


SCALE = torch.tensor(3.0)


class Data(nn.Module):
    """Its operations take data that it gets, makes, copies, or is made with; and numbers."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(20, 8), nn.Embedding(16, 8)
        self.frozen, self.act = nn.Linear(8, 8).requires_grad_(False), nn.ReLU(inplace=True)
        self.register_buffer("mask", torch.ones(16).cumsum(0) > 3)
        self.plain = torch.full((8,), 0.5)

    def forward(self, ids, options):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        x = x.masked_fill(self.mask[: ids.shape[1], None], 0.0) * torch.full((8,), 2.0) + torch.zeros_like(x)
        x = self.act(self.frozen(x * SCALE) * self.plain) * torch.tensor([1.0, 2.0]).repeat(4)
        x = torch.cat([torch.ones(len(ids), 1, 8), x], dim=1) / 3
        wanted = F.pad(ids, (0, 1))[:, 1:].contiguous()
        return F.cross_entropy(x[:, 1:].flatten(0, 1), wanted.flatten() % 8) * options["weights"].reshape(-1)[:2] - 0.5


def data(_, backend):
    """The second step uses the code that was compiled for the first, with other sizes."""

    def program():
        torch.manual_seed(0)
        model = Data()
        net = model if backend is None else torch.compile(model, backend=backend, dynamic=True)
        for step in range(2):
            tokens, extra = torch.randint(0, 20, (3 + step, 5 + 2 * step)), {"weights": torch.rand(2, 2)}
            loss = net(tokens, extra).square().mean()
            loss.backward()
        return [each.grad for each in model.parameters() if each.grad is not None]

    return program


def whole(kind, backend, **options):
    def program():
        torch.manual_seed(0)
        model = kind()
        net = model if backend is None else torch.compile(model, backend=backend, **options)
        loss = net(torch.randn(4, 8)).square().mean()
        loss.backward()
        return [each.grad for each in model.parameters() if each.grad is not None]

    return program


def repeated_blocks(_, backend):
    def program():
        torch.manual_seed(0)
        model = Net()
        for block in model.blocks:
            if backend is not None:
                block.compile(backend=backend)
        model(torch.randn(4, 8)).square().mean().backward()
        return [each.grad for each in model.parameters() if each.grad is not None]

    return program


def under_autocast(kind, backend):
    inner = whole(kind, backend)

    def program():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return inner()

    return program


def sigmoids(_, backend):
    def program():
        torch.manual_seed(0)
        model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(16, 16), nn.Sigmoid())])
        net = model if backend is None else torch.compile(model, backend=backend)
        net(torch.randn(32, 16)).square().mean().backward()
        return [each.grad for each in model.parameters() if each.grad is not None]

    return program


PROGRAMS = {
    "whole": (whole, Net),
    "breaking": (whole, Breaking),
    "changing": (whole, Changing),
    "listed": (whole, Listed),
    "checkpointed": (whole, Checkpointed),
    "custom": (whole, Custom),
    "repeated_blocks": (repeated_blocks, None),
    "autocast": (under_autocast, Net),
    "sigmoids": (sigmoids, None),
    "data": (data, None),
}


def told(name, backend):
    """Operations, regions and figures of one program."""
    torch._dynamo.reset()
    make, kind = PROGRAMS[name]
    alone = make(kind, backend)()
    torch._dynamo.reset()
    recording = record(make(kind, backend))
    capture = recording.capture
    graph = capture.graphs[-1]
    flow = gradient_flow(capture, graph)
    return {
        "same_gradients": all(torch.equal(*pair) for pair in zip(alone, recording.value, strict=True)),
        "operations": sorted(operations(graph)),
        "parameters": sorted(name for node in graph.parameters for name in node.names),
        "modules_around_modules": sorted({path for node in graph.nodes for path in around(graph, node)}),
        "regions": [region.closed for region in graph.regions],
        "outside": sorted(node.name for node in graph.nodes if node.region is None and not node.is_leaf),
        "verdict": flow.trend.verdict if flow.trend is not None else None,
        "closed": flow.closed_regions,
        "lines_of_memory": sorted({graph.call_sites[node.call_site].line for node in graph.nodes if node.saved}),
        "unknown_saved": sum(saved.state == "unknown" for node in graph.nodes for saved in node.saved),
        "disclosures": list(capture.disclosures),
    }


def around(graph, node):
    """A module, or a function that was compiled, with all around it."""
    scope, path = node.scope, []
    while scope is not None:
        path.append(graph.scopes[scope].path)
        yield " < ".join(path)
        scope = graph.scopes[scope].parent


def operations(graph):
    for node in graph.nodes:
        if not node.is_leaf:
            scope = graph.scopes[node.scope].path if node.scope is not None else ""
            site = graph.call_sites[node.call_site] if node.call_site is not None else None
            constants = [graph.constants[each] for each in node.constants]
            yield [
                scope,
                site.line if site is not None else 0,
                node.name,
                node.kind,
                node.forward_call,
                str(node.number),
                [list(each.shape) for each in node.outputs if each],
                [[each.kind, each.names, each.detached_from, str(each.tensor)] for each in constants],
            ]
