"""Models that are recorded as they are and compiled, and what is told of both: run in a process of its own."""

# Much of torch has no types: backward, Function.apply, compile.
# mypy: ignore-errors
from __future__ import annotations

import torch
import torch.utils.checkpoint
from torch import nn

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
    "checkpointed": (whole, Checkpointed),
    "custom": (whole, Custom),
    "repeated_blocks": (repeated_blocks, None),
    "autocast": (under_autocast, Net),
    "sigmoids": (sigmoids, None),
}


def told(name, backend):
    """Operations, regions and figures of one program."""
    torch._dynamo.reset()
    make, kind = PROGRAMS[name]
    alone = make(kind, backend)()
    torch._dynamo.reset()
    recording = record(make(kind, backend))
    graph, capture = recording.graph, recording.capture
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
            yield [
                scope,
                site.line if site is not None else 0,
                node.name,
                [list(each.shape) for each in node.outputs if each],
            ]
