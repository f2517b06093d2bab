"""Layers that run along the samples, though a table of positions says which axis is time; and code that looks so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

_SCRIPT = (
    HEAD
    + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs, self.out = nn.Linear(3, 8), nn.Linear(8, 3)
        TABLE
        LAYERS

    def forward(self, x):
        h = self.inputs(x)
        FORWARD
        return self.out(h)

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(6, 5, 3)
    loss = F.mse_loss(model(x), x.cumsum(1))
"""
    + TRAIN
)
_ENCODER = """layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)  # HERE
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)"""
_ATTENTION = "self.attend = nn.MultiheadAttention(8, 2)  # HERE"
_SINES = """numbers = torch.arange(12)[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.03])
        self.register_buffer("table", torch.cat([numbers.sin(), numbers.cos()], 1))"""


def of(table: str, layers: str, *forward: str) -> str:
    lines = "\n        ".join(forward)
    return _SCRIPT.replace("TABLE", table).replace("LAYERS", layers).replace("FORWARD", lines)


@pytest.mark.parametrize(
    "script",
    [
        of(_SINES, _ENCODER, "h = self.encoder(h + self.table[: x.size(1)])"),
        of(
            "self.places = nn.Embedding(20, 8)",
            _ATTENTION,
            "h = h + self.places(torch.arange(x.size(1)))",
            "h = h + self.attend(h, h, h)[0]",
        ),
        of(
            "self.pos_emb = nn.Parameter(0.1 * torch.randn(1, 5, 8))",
            "self.gru = nn.GRU(8, 8)  # HERE",
            "h, _ = self.gru(h + self.pos_emb)",
        ),
        of(
            "self.rates = torch.tensor([1.0, 0.3, 0.1, 0.03])",
            _ATTENTION,
            "angles = torch.arange(x.size(1))[:, None] * self.rates",
            "h = h + torch.cat([angles.sin(), angles.cos()], 1)",
            "h = h + self.attend(h, h, h)[0]",
        ),
    ],
    ids=["a buffer of sines", "numbers looked up", "a parameter for a recurrent layer", "sines of this step"],
)
def test_positions_along_the_second_axis(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "sequence_over_batch", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        of(_SINES, _ENCODER, "h = h + self.table[: x.size(1)]", "h = self.encoder(h.transpose(0, 1)).transpose(0, 1)"),
        of(
            "self.pos = nn.Parameter(0.1 * torch.randn(1, 9, 8))",
            "self.over, self.along = nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)",
            "h = h + self.pos[:, : x.size(1)]",
            "h = h + self.over(h, h, h)[0]",
            "h = h + self.along(h, h, h)[0]",
        ),
        of(
            "self.stations = nn.Embedding(5, 8)",
            "self.gru = nn.GRU(8, 8)",
            "h, _ = self.gru(h + self.stations(torch.arange(x.size(1))))",
        ),
        of(
            "self.columns, self.times = nn.Embedding(9, 8), nn.Parameter(0.1 * torch.randn(20, 1, 8))",
            "self.attend = nn.MultiheadAttention(8, 2)",
            "h = h + self.columns(torch.arange(x.size(1))) + self.times[: x.size(0)]",
            "h = h + self.attend(h, h, h)[0]",
        ),
    ],
    ids=["time first in time", "attention along both", "stations, not positions", "tables of both axes"],
)
def test_tables_along_what_is_no_time(script: str, tmp_path: Path) -> None:
    assert alarms(script, tmp_path) == []
