"""Compiled programs whose regions are run a second time, or must not be: run in a process of its own."""

# Much of torch has no types: backward, compile, custom_op.
# mypy: ignore-errors
from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from gradviz.recording.run.recording_plan import RecordingPlan
from tests.integration.recording.compiled.programs import PROGRAMS
from tests.integration.recording.helpers import record

PLAN = RecordingPlan(keep_going=True, values_up_to=10_000)
INSIDE = replace(PLAN, inside=True)


def gradients(name, backend):
    """Each operation of a program with every number of every gradient, in the order of the lines."""
    make, kind = PROGRAMS[name]
    torch._dynamo.reset()
    recording = record(make(kind, backend), INSIDE)
    found = [
        (node.name, graph_lines(recording.graph, node), [numbers(each) for each in (*node.gradients, *node.arrived)])
        for node in recording.graph.nodes
        if not node.is_leaf
    ]
    return found, recording


def graph_lines(graph, node):
    return graph.call_sites[node.call_site].line if node.call_site is not None else 0


def numbers(figures):
    if figures is None or figures.is_undefined:
        return None
    return figures.unmeasured or [*figures.values]


def distance(one, other):
    """The largest distance of two gradients of the same operations, relative to the norm; None if they differ."""
    if len(one) != len(other):
        return None
    worst = 0.0
    for (name, line, mine), (its_name, its_line, theirs) in zip(one, other, strict=True):
        if (name, line, len(mine)) != (its_name, its_line, len(theirs)):
            return None
        for left, right in zip(mine, theirs, strict=True):
            if (left is None) != (right is None) or isinstance(left, str) or isinstance(right, str):
                return None
            if left is not None:
                left, right = torch.tensor(left), torch.tensor(right)
                worst = max(worst, ((left - right).norm() / left.norm().clamp(min=1e-30)).item())
    return worst


def compared(name, backend):
    """How far the gradients inside compiled code are from those of uncompiled code, and what is told."""
    plain, _ = gradients(name, None)
    found, recording = gradients(name, backend)
    return {
        "distance": distance(plain, found),
        "measured": all(region.is_measured for region in recording.graph.regions),
        "disclosures": list(recording.capture.disclosures),
    }


# -- What a second run must not change, and where there must be none ---------------------------------------------------


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.drop = nn.Linear(6, 6), nn.Dropout(0.5)

    def forward(self, x):
        return self.linear(self.drop(self.linear(x).relu()))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)

    def forward(self, x):
        return self.linear(self.norm(self.linear(x)).relu())


class ChangingViews(nn.Module):
    """Uses a view of a view of what it changes: uncompiled code has one node for both, and compiled code two."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        hidden = self.linear(x)
        turned = hidden.view(2, 4, 6).transpose(0, 1)
        hidden[:, 1:].mul_(2)
        return turned.sin()


class Changing(nn.Module):
    """Changes a buffer that it computes with: torch 2.13 computes again in backward, with the changed buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("count", torch.ones(6))

    def forward(self, x):
        self.count.add_(1)
        return (self.linear(x) + self.count).sin()


class ChangingLate(Changing):
    """Changes it after that."""

    def forward(self, x):
        x = self.linear(x) + self.count
        self.count.add_(1)
        return x.sin()


@torch.library.custom_op("gradviz_test::noted", mutates_args=())
def noted(x: torch.Tensor) -> torch.Tensor:
    TIMES.append(1)
    return x.sin()


TIMES = []
noted.register_fake(torch.empty_like)
noted.register_autograd(
    lambda ctx, gradient: gradient * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class WithForeignOperator(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return noted(self.linear(x)).cos()


def trained(kind, backend, *, between=None):
    """Two steps; returns everything that a second run could have changed."""

    def program():
        torch.manual_seed(0)
        model = kind()
        net = model if backend is None else torch.compile(model, backend=backend)
        found = []
        for _ in range(2):
            first = torch.randn(8, 6, requires_grad=True)
            hidden = first * 1
            out = net(hidden)
            if between is not None:
                between(model, hidden)
            out.square().sum().backward()
            found += [
                first.grad,
                *(each.grad.clone() for each in model.parameters() if each.grad is not None),
                out.detach(),
                torch.rand(2),
            ]
        return [*found, *(each.clone() for each in model.buffers()), torch.tensor(len(TIMES))]

    return program


def change_input(model, hidden):
    with torch.no_grad():
        hidden.add_(1)


class KeepsInput(nn.Module):
    """Needs nothing of its input for backward, so that torch lets it be changed before."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return x * 2 + self.linear.bias


DANGERS = {
    "random": (Dropping, None),
    "statistics": (Normed, None),
    "views": (ChangingViews, None),
    "changed by itself": (Changing, None),
    "changed by itself, late": (ChangingLate, None),
    "changed by the program": (KeepsInput, change_input),
    "operators of others": (WithForeignOperator, None),
}


def endangered(name, backend):
    """Whether anything of the program differs with a second run, and what is told of it."""
    kind, between = DANGERS[name]
    program = trained(kind, backend, between=between)
    results = []
    for plan in (None, INSIDE):
        torch._dynamo.reset()
        TIMES.clear()
        recording = record(program, plan) if plan is not None else None
        results.append(program() if recording is None else recording.value)
    return {
        "same": all(torch.equal(*pair) for pair in zip(*results, strict=True)),
        "measured": [region.is_measured for region in recording.graph.regions],
        "is_wrong": not all(
            torch.allclose(*pair, atol=1e-4)
            for pair in zip(trained(kind, None, between=between)(), results[0], strict=True)
        ),
        "disclosures": list(recording.capture.disclosures),
    }
