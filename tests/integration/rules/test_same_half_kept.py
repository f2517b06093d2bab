"""Coupling layers of a flow: which part of the dimensions they keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
class Coupling(nn.Module):
    def __init__(self, turned=False):
        super().__init__()
        self.turned = turned
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 6))
    def forward(self, x):
{forward}
class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Coupling({turned}) for i in range(4))
        self.scale = nn.Parameter(torch.ones(6))
    def forward(self, x):
        volume = self.scale.abs().log().sum()
        for layer in self.layers:
            x, more = layer({given}){here}
            volume = volume + more
        return x, volume
flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=0.003)
mix = torch.randn(6, 6)
for step in range(4):
    z, volume = flow(torch.sinh(torch.randn(32, 6) @ mix * 0.3))
    loss = -(-0.5 * z.square().sum(-1) + volume).mean()
"""
    + TRAIN
)
CHUNKS = """
        a, b = x.chunk(2, -1)
        if self.turned:
            a, b = b, a
        s, t = self.net(a).chunk(2, -1)
        b = b * s.tanh().exp() + t
        if self.turned:
            a, b = b, a
        return torch.cat([a, b], -1), s.tanh().sum(-1)
"""
SLICES = """
        a, b = x[:, :3], x[:, 3:]
        out = self.net(b)
        s, t = out[:, :3], out[:, 3:]
        return torch.cat((torch.exp(s) * a + t, b), dim=1), s.sum(dim=1)
"""
EXCHANGED = """
        a, b = x.split(3, dim=1)
        s, t = self.net(a).split(3, dim=1)
        return torch.cat((b * s.exp() + t, a), dim=1), s.sum(dim=1)
"""
HERE = "  # HERE"
FAULTY = {
    "chunks": {"forward": CHUNKS, "turned": "", "given": "x"},
    "slices": {"forward": SLICES, "turned": "", "given": "x"},
    "a scale between": {"forward": CHUNKS, "turned": "", "given": "x * self.scale"},
    "all turned": {"forward": CHUNKS, "turned": "turned=True", "given": "x"},
}
HEALTHY = {
    "taking turns": {"forward": CHUNKS, "turned": "turned=i % 2 == 1", "given": "x"},
    "flipped between": {"forward": SLICES, "turned": "", "given": "x.flip(1)"},
    "permuted between": {"forward": SLICES, "turned": "", "given": "x[:, [2, 3, 4, 5, 0, 1]]"},
    "mixed between": {"forward": CHUNKS, "turned": "", "given": "x @ torch.linalg.qr(mix)[0]"},
    "parts that exchange their places": {"forward": EXCHANGED, "turned": "", "given": "x"},
}


@pytest.mark.parametrize("name", FAULTY)
def test_layers_that_keep_the_same_part_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(here=HERE, **FAULTY[name]), "same_half_kept", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_layers_that_take_turns_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM.format(here="", **HEALTHY[name]), tmp_path)


MASKED = (
    HEAD
    + """
class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4), nn.Tanh())
        self.t = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))
    def forward(self, x):
        kept = x * self.mask
        s, t = self.s(kept) * (1 - self.mask), self.t(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (x * torch.exp(s) + t), s.sum(1)
mask = torch.tensor([1.0, 0.0, 1.0, 0.0])
flow = nn.ModuleList(Coupling({masks}) for i in range(4))
optimizer = torch.optim.Adam(flow.parameters(), lr=0.003)
mix = torch.randn(4, 4)
for step in range(4):
    z, volume = torch.sinh(torch.randn(32, 4) @ mix * 0.3), 0
    for layer in flow:
        z, more = layer(z)  # HERE
        volume = volume + more
    loss = (0.5 * z.square().sum(1) - volume).mean()
"""
    + TRAIN
)


def test_layers_with_one_mask_are_told_and_those_with_two_are_not(tmp_path: Path) -> None:
    assert_first_alarm(MASKED.format(masks="mask"), "same_half_kept", tmp_path)
    assert not alarms(MASKED.format(masks="mask if i % 2 else 1 - mask"), tmp_path)


def test_gates_of_a_part_are_left_alone(tmp_path: Path) -> None:
    script = f"""{HEAD}
nets, head = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*nets.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    x = torch.randn(16, 8)
    y = (x[:, 0] > 0).long()
    for net in nets:
        a, b = x.chunk(2, 1)
        x = torch.cat([a, b + net(a).relu()], 1)
    loss = F.cross_entropy(head(x), y)
{TRAIN}"""
    assert not alarms(script, tmp_path)


def test_what_conditions_the_rest_is_left_alone(tmp_path: Path) -> None:
    script = PROGRAM.format(forward=CHUNKS, turned="", given="x", here="").replace(
        "loss = -(-0.5 * z.square()", "loss = -(-0.5 * z[:, 3:].square()"
    )
    assert "same_half_kept" not in {each.cause for each in alarms(script, tmp_path)}


def test_masks_that_are_rows_of_one_table_are_told_apart(tmp_path: Path) -> None:
    table = "mask = torch.tensor([1.0, 0.0, 1.0, 0.0])\ntable = torch.stack([mask, 1 - mask] * 2)"
    script = MASKED.replace("mask = torch.tensor([1.0, 0.0, 1.0, 0.0])", table)
    assert not alarms(script.format(masks="table[i]"), tmp_path)
    assert_first_alarm(script.format(masks="table[0]"), "same_half_kept", tmp_path)
