"""Low-rank updates that are merged into frozen weights, and taken out again or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
class LowRank(nn.Module):
    def __init__(self, given, taken, rank=2, alpha=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(taken, given) / given**0.5, requires_grad=False)
        self.down = nn.Parameter(torch.randn(rank, given))
        self.up = nn.Parameter(torch.zeros(taken, rank))
        self.scale = alpha / rank
    def forward(self, x):
        out = x @ self.weight.T
        return out + self.scale * (x @ self.down.T) @ self.up.T if self.training else out
x = torch.randn(96, 8)
y = (x @ torch.randn(8, 3)).argmax(1)
net = nn.Sequential(LowRank(8, 16), nn.ReLU(), LowRank(16, 3))
layers = [net[0], net[2]]
optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.01)
def train():
    net.train()
    for rows in torch.randperm(64).split(16):
        loss = F.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
@torch.no_grad()
def score(net):
    net.eval()
    return (net(x[64:]).argmax(1) == y[64:]).float().mean().item()
"""
)
FAULTY = {
    "weights changed in place": """
for epoch in range(4):
    train()
    with torch.no_grad():
        for layer in layers:
            layer.weight.add_(layer.up @ layer.down, alpha=layer.scale)  # HERE
    print(score(net))
""",
    "through .data": """
for epoch in range(4):
    train()
    for layer in layers:
        layer.weight.data += (layer.scale * layer.up @ layer.down).data  # HERE
    print(score(net))
""",
    "new .data each time": """
for epoch in range(4):
    train()
    for layer in layers:
        layer.weight.data = layer.weight.data + layer.scale * layer.up.data @ layer.down.data  # HERE
    print(score(net))
""",
    "transposed": """
def merge(layer):
    with torch.no_grad():
        delta = (layer.down.t() @ layer.up.t()).t() * layer.scale
        layer.weight += delta  # HERE
for epoch in range(4):
    train()
    for layer in layers:
        merge(layer)
    print(score(net))
""",
}
HEALTHY = {
    "taken out again": """
for epoch in range(4):
    train()
    with torch.no_grad():
        for layer in layers:
            layer.weight += layer.scale * layer.up @ layer.down
        print(score(net))
        for layer in layers:
            layer.weight -= layer.scale * layer.up @ layer.down
""",
    "taken out with a sign": """
@torch.no_grad()
def merge(layer, sign):
    layer.weight += sign * layer.scale * (layer.up @ layer.down)
for epoch in range(4):
    train()
    for layer in layers:
        merge(layer, 1.0)
    print(score(net))
    for layer in layers:
        merge(layer, -1.0)
""",
    "put back": """
for epoch in range(4):
    train()
    kept = [layer.weight.clone() for layer in layers]
    with torch.no_grad():
        for layer in layers:
            layer.weight += layer.scale * layer.up @ layer.down
        print(score(net))
        for layer, weight in zip(layers, kept):
            layer.weight.copy_(weight)
""",
    "a copy is scored": """
for epoch in range(4):
    train()
    scored = copy.deepcopy(net)
    with torch.no_grad():
        for layer in (scored[0], scored[2]):
            layer.weight += layer.scale * layer.up @ layer.down
    print(score(scored))
""",
    "a new update after each merge": """
for epoch in range(4):
    train()
    with torch.no_grad():
        for layer in layers:
            layer.weight += layer.scale * layer.up @ layer.down
            nn.init.normal_(layer.down)
            layer.up.zero_()
    print(score(net))
""",
    "another .data, and the old one again": """
for epoch in range(4):
    train()
    kept = [layer.weight.data for layer in layers]
    for layer in layers:
        layer.weight.data = layer.weight.data + layer.scale * layer.up.data @ layer.down.data
    print(score(net))
    for layer, weight in zip(layers, kept):
        layer.weight.data = weight
""",
    "merged once, at the end": """
for epoch in range(4):
    train()
with torch.no_grad():
    for layer in layers:
        layer.weight += layer.scale * layer.up @ layer.down
print(score(net))
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_updates_that_pile_up_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name], "merged_each_time", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_merges_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name], tmp_path)
