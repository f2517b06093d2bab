"""torch.jit: scripted and traced modules and functions, trained and saved, and their graphs."""

import io
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore", DeprecationWarning)
torch.manual_seed(0)


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
        self.register_buffer("scale", torch.ones(3))

    def forward(self, features, hidden_ones):
        scores = self.layers(features).masked_fill(hidden_ones, 0)
        return nn.functional.softmax(scores * self.scale * scores.shape[0], dim=1)


def force(positions):
    positions = positions.detach().requires_grad_()
    energy = (positions**3).sum()
    return torch.autograd.grad(energy, positions, create_graph=True)[0]


model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
scripted = torch.jit.script(model)
traced = torch.jit.trace(model, torch.randn(2, 3))
for each in (scripted, traced, model):
    for _ in range(3):
        each(torch.randn(2, 3)).sum().backward()
scorer = torch.jit.trace(Scorer(), (torch.randn(2, 3), torch.zeros(2, 3, dtype=torch.bool)))
scorer(torch.randn(4, 3), torch.zeros(4, 3, dtype=torch.bool)).square().sum().backward()
forces = torch.jit.trace(force, torch.ones(3))
graphs = [each.inlined_graph for each in (scripted, traced, scorer)] + [forces.graph]
# Values are numbered: a recorder may change what torch names them after.
graphs = [str(torch._C._jit_pass_canonicalize(graph, False)) for graph in graphs]
buffer = io.BytesIO()
torch.jit.save(traced, buffer)
buffer.seek(0)
again = torch.jit.load(buffer)
again(torch.randn(2, 3)).sum().backward()


@torch.jit.script
def scaled(x, n: int):
    for _ in range(n):
        x = x * 0.5 + x.sin()
    return x


x = torch.randn(3, requires_grad=True)
scaled(x, 3).sum().backward()
del scripted, traced, again, each, buffer, scorer, forces
