"""Learning rates that differ from layer to layer: which layers have the largest ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)) for _ in range(4))
        self.head = nn.Linear(8, 3)
    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = h + layer(h).relu()
        return self.head(h.mean(1))
net = Net()
def depth_of(name):
    if name.startswith("embed"):
        return 0
    return int(name.split(".")[1]) + 1 if name.startswith("layers") else 5
"""
)
LOOP = (
    """
for step in range(4):
    ids = torch.randint(0, 9, (16, 6))
    loss = F.cross_entropy(net(ids), ids[:, 0] % 3)
"""
    + TRAIN
)
FAULTY = {
    "a group for each depth": """
groups = {}
for name, p in net.named_parameters():
    scale = 0.6 ** depth_of(name)  # HERE
    groups.setdefault(scale, {"params": [], "lr": 0.001 * scale})["params"].append(p)
optimizer = torch.optim.AdamW(list(groups.values()))
""",
    "the head with the full rate": """
rates = [0.01 * 0.5 ** (i + 1) for i in range(4)]
groups = [{"params": net.embed.parameters(), "lr": 0.01}, {"params": net.head.parameters(), "lr": 0.01}]
groups += [dict(params=layer.parameters(), lr=rate) for layer, rate in zip(net.layers, rates)]
optimizer = torch.optim.SGD(groups, momentum=0.9)  # HERE
""",
    "a rate that is divided again and again": """
groups, rate = [], 0.01
for part in (net.embed, *net.layers, net.head):
    groups.append({"params": part.parameters(), "lr": rate})
    rate /= 2
optimizer = torch.optim.Adam(groups)  # HERE
""",
}
HEALTHY = {
    "the power counted from the output": """
groups = {}
for name, p in net.named_parameters():
    scale = 0.6 ** (5 - depth_of(name))
    groups.setdefault(scale, {"params": [], "lr": 0.001 * scale})["params"].append(p)
optimizer = torch.optim.AdamW(list(groups.values()))
""",
    "rates of their own for each kind of layer": """
optimizer = torch.optim.Adam([
    {"params": net.embed.parameters(), "lr": 0.03},
    {"params": net.layers[:2].parameters(), "lr": 0.02},
    {"params": net.layers[2:].parameters(), "lr": 0.004},
    {"params": net.head.parameters(), "lr": 0.001},
])
""",
    "three rates": """
optimizer = torch.optim.Adam([
    {"params": net.embed.parameters(), "lr": 0.1},
    {"params": net.layers.parameters(), "lr": 0.01},
    {"params": net.head.parameters(), "lr": 0.001},
])
""",
    "layers in another order": """
rates = [0.01 * 0.5**i for i in (2, 0, 3, 1)]
groups = [{"params": [*net.embed.parameters(), *net.head.parameters()], "lr": 0.01}]
groups += [dict(params=layer.parameters(), lr=rate) for layer, rate in zip(net.layers, rates)]
optimizer = torch.optim.SGD(groups)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_rates_that_are_largest_at_the_input_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + LOOP, "rates_fall_with_depth", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_rates_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + LOOP, tmp_path)
