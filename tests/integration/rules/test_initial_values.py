"""Initializations that set a row of padding, or the gains of normalizations, and those that leave them as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

WORDS = (
    HEAD
    + """
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 8, padding_idx={pad})
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(8, 3)
        {init}
    def forward(self, ids, lengths):
        h = {pooled}
        return self.head(h)

net = Words()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    lengths = torch.randint(2, 12, (16, 1))
    ids = torch.randint(1, 39, (16, 12)).masked_fill(torch.arange(12) >= lengths, {pad})
    loss = F.cross_entropy(net(ids, lengths), ids[:, 0] % 3)
"""
    + TRAIN
)
DRAWN = {
    "a sum": ("0", "nn.init.normal_(self.table.weight, std=0.02)  # HERE", "self.table(ids).sum(1)"),
    "a sum over the lengths": (
        "39",
        "self.table.weight.data.uniform_(-0.1, 0.1)  # HERE",
        "self.drop(self.table(ids)).sum(dim=1) / lengths",
    ),
    "the largest": (
        "0",
        "for p in self.parameters():\n            nn.init.uniform_(p, -0.1, 0.1)  # HERE",
        "self.table(ids).max(dim=1).values",
    ),
    "in a function for all modules": (
        "0",
        "self.apply(self.start)\n    def start(self, module):\n        if isinstance(module, nn.Embedding):\n"
        "            nn.init.xavier_uniform_(module.weight)  # HERE",
        "self.table(ids).relu().sum(-2)",
    ),
}
LEFT_ZERO = {
    "zero again": (
        "0",
        "nn.init.normal_(self.table.weight)\n        self.table.weight.data[0].zero_()",
        "self.table(ids).sum(1)",
    ),
    "zero in a function of torch": (
        "0",
        "nn.init.normal_(self.table.weight)\n        self.table._fill_padding_idx_with_zero()",
        "self.table(ids).sum(1)",
    ),
    "nothing drawn": ("0", "pass", "self.table(ids).sum(1)"),
    "a mask": ("0", "nn.init.normal_(self.table.weight)", "(self.table(ids) * (ids != 0)[..., None]).sum(1)"),
    "subtracted again": (
        "0",
        "nn.init.normal_(self.table.weight)",
        "self.table(ids).sum(1) - (ids == 0).sum(1, keepdim=True) * self.table.weight[0]",
    ),
    "the first word": ("0", "nn.init.normal_(self.table.weight)", "self.table(ids)[:, 0]"),
    "other rows": ("0", "nn.init.normal_(self.table.weight[1:])", "self.table(ids).sum(1)"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_row_of_padding_that_is_drawn_anew_is_told(name: str, tmp_path: Path) -> None:
    pad, init, pooled = DRAWN[name]
    assert_first_alarm(WORDS.format(pad=pad, init=init, pooled=pooled), "padding_row_drawn", tmp_path)


@pytest.mark.parametrize("name", LEFT_ZERO)
def test_a_row_that_is_zero_or_left_out_is_no_alarm(name: str, tmp_path: Path) -> None:
    pad, init, pooled = LEFT_ZERO[name]
    found = alarms(WORDS.format(pad=pad, init=init, pooled=pooled), tmp_path)
    assert "padding_row_drawn" not in {each.cause for each in found}


NETS = (
    HEAD
    + """
class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return self.gain * (x / (x.std(-1, keepdim=True) + 1e-5)) + self.bias

class Root(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))

class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.first, self.one, self.two, self.last = norm(8), nn.Linear(8, 16), nn.Linear(16, 8), norm(8)
    def forward(self, x):
        {forward}

net = nn.Sequential(nn.Linear(5, 8), Block({norm}), Block({norm}), nn.Linear(8, 2))
{init}
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 5)
    loss = F.mse_loss(net(x), x[:, :2].sin())
"""
    + TRAIN
)
BEFORE = "return x + self.last(self.two(self.one(self.first(x)).relu()))"
DEEP = "return self.last(self.two(self.one(self.first(x).relu()).relu()))"
ALL = """
for p in net.parameters():
    if p.ndim > 1:
        nn.init.xavier_uniform_(p)
    else:
        nn.init.zeros_(p)  # HERE
"""
ZEROED = {
    "of torch": (BEFORE, "nn.LayerNorm", ALL),
    "of batches": (
        DEEP,
        "nn.BatchNorm1d",
        """
def start(module):
    if hasattr(module, "weight"):
        module.weight.data.normal_(0, 0.1)
    if isinstance(module, nn.BatchNorm1d):
        nn.init.constant_(module.weight, 0)  # HERE
net.apply(start)
""",
    ),
    "by hand": (BEFORE, "Scale", ALL),
    "of roots": (DEEP, "Root", ALL),
}
NOT_ZEROED = {
    "only biases": (BEFORE, "nn.LayerNorm", ALL.replace("else:", "elif p.abs().sum() == 0:")),
    "branches that start at zero": (
        "return x + self.last(self.two(self.first(self.one(x)[:, :8]).relu().repeat(1, 2)))",
        "nn.BatchNorm1d",
        "for block in net[1:3]:\n    nn.init.zeros_(block.last.weight)",
    ),
    "only branches": (
        "return x + self.last(self.two(self.one(x).relu()))",
        "nn.LayerNorm",
        "for block in net[1:3]:\n    nn.init.zeros_(block.last.weight)",
    ),
    "a branch that starts at zero before its last layer": (
        "return x + self.two(self.last(self.one(x)[:, :8]).repeat(1, 2))",
        "nn.LayerNorm",
        "for block in net[1:3]:\n    nn.init.zeros_(block.last.weight)",
    ),
    "gains beside one": (
        "return x + F.layer_norm(self.two(self.one(F.layer_norm(x, (8,), 1 + self.first.weight))), (8,))",
        "nn.LayerNorm",
        ALL,
    ),
}


@pytest.mark.parametrize("name", ZEROED)
def test_gains_that_start_at_zero_are_told(name: str, tmp_path: Path) -> None:
    forward, norm, init = ZEROED[name]
    assert_first_alarm(NETS.format(forward=forward, norm=norm, init=init), "gains_start_at_zero", tmp_path)


@pytest.mark.parametrize("name", NOT_ZEROED)
def test_other_gains_are_left_alone(name: str, tmp_path: Path) -> None:
    forward, norm, init = NOT_ZEROED[name]
    found = alarms(NETS.format(forward=forward, norm=norm, init=init), tmp_path)
    assert "gains_start_at_zero" not in {each.cause for each in found}
