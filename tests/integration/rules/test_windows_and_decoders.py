"""Forecasts whose target the model has read: columns of a series in windows, and decoders that read what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

WINDOWS = (
    HEAD
    + """
from torch.utils.data import DataLoader, Dataset
table = torch.randn(150, 3).cumsum(0) / 9

class Windows(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, i):
        ITEM

class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv, self.head = nn.Conv1d(n, 8, 3), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.conv(F.pad(x.transpose(1, 2), (2, 0))))
        return self.head(h[:, :, -1]).squeeze(1)

READ
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for x, y in DataLoader(Windows(), batch_size=16, shuffle=True):
    loss = F.l1_loss(net(x), y)
"""
    + TRAIN
)
NET = "net = Net(3)"


@pytest.mark.parametrize(
    "item",
    [
        "x = table[i:i + 12]\n        y = table[i + 11, 0]  # HERE\n        return x, y",
        "x = table[i:i + 12]\n        y = table[i + 12 - 1][2]  # HERE\n        return x, y",
    ],
    ids=["a number of the table", "a row, and a number of it"],
)
def test_a_column_at_the_end_of_the_window_is_told(item: str, tmp_path: Path) -> None:
    assert_first_alarm(WINDOWS.replace("ITEM", item).replace("READ", NET), "targets_are_inputs", tmp_path)


@pytest.mark.parametrize(
    ("item", "net"),
    [
        ("return table[i:i + 12], table[i + 12, 0]", NET),
        ("return table[i:i + 12, 1:], table[i + 11, 0]", "net = Net(2)"),
        ("return table[i:i + 12], table[i + 11, 0]", "inner = Net(2)\nnet = lambda x: inner(x[:, :, 1:])\n"
         "net.parameters = inner.parameters"),
    ],
    ids=["the next one", "of a column that is not read", "of a column that the model drops"],
)  # fmt: skip
def test_columns_that_the_model_has_not_read_are_right(item: str, net: str, tmp_path: Path) -> None:
    assert not alarms(WINDOWS.replace("ITEM", item).replace("READ", net), tmp_path)


HORIZON = (
    HEAD
    + """
series = torch.randn(300).cumsum(0) / 9
net = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, OUT))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(12):
    start = torch.randint(0, 270, (16,))
    BATCH
    loss = F.mse_loss(net(x), y)
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "batch",
    [
        "x = torch.stack([series[i:i + 16] for i in start.tolist()])\n"
        "    y = torch.stack([series[i + 15:i + 19] for i in start.tolist()])  # HERE",
        "rows = series.unfold(0, 20, 1)[start]\n    x, y = rows[:, :16], rows[:, 15:19]  # HERE",
        "x = series[start[:, None] + torch.arange(16)]\n    y = series[start[:, None] + torch.arange(15, 19)]  # HERE",
    ],
    ids=["stacked", "of a batch of windows", "looked up"],
)
def test_a_horizon_that_begins_with_the_last_value_read_is_told(batch: str, tmp_path: Path) -> None:
    script = HORIZON.replace("OUT", "4").replace("BATCH", batch)
    assert_first_alarm(script, "targets_are_inputs", tmp_path)


@pytest.mark.parametrize(
    ("batch", "out"),
    [
        ("x = torch.stack([series[i:i + 16] for i in start.tolist()])\n"
         "    y = torch.stack([series[i + 16:i + 20] for i in start.tolist()])", "4"),
        ("x = torch.stack([series[i:i + 16] for i in start.tolist()])\n"
         "    y = torch.stack([series[i + 10:i + 20] for i in start.tolist()])[:, -4:]", "4"),
        ("rows = series.unfold(0, 20, 1)[start]\n    x, y = rows[:, :16], rows[:, 1:17]", "16"),
    ],
    ids=["behind the inputs", "the end of a longer part", "each position is asked for the next one"],
)  # fmt: skip
def test_a_horizon_behind_the_inputs_is_right(batch: str, out: str, tmp_path: Path) -> None:
    assert not alarms(HORIZON.replace("OUT", out).replace("BATCH", batch), tmp_path)


DECODER = (
    HEAD
    + """
encoder, decoder = nn.LAYER(1, 8, batch_first=True), nn.LAYER(1, 8, batch_first=True)
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *head.parameters()], lr=0.01)
for step in range(5):
    wave = torch.sin(torch.arange(20) / 3 + torch.rand(16, 1) * 6).unsqueeze(-1)
    past, future = wave[:, :14], wave[:, 14:]
    state = encoder(past)[1]
    READ
"""
    + TRAIN
)


@pytest.mark.parametrize("layer", ["GRU", "LSTM"])
@pytest.mark.parametrize(
    "read",
    [
        "out, _ = decoder(future, state)  # HERE\n    loss = F.mse_loss(head(out), future)",
        "out, _ = decoder(future, state)  # HERE\n    loss = F.l1_loss(head(out).squeeze(-1), future.squeeze(-1))",
    ],
)
def test_a_decoder_that_reads_its_target_is_told(read: str, layer: str, tmp_path: Path) -> None:
    assert_first_alarm(DECODER.replace("READ", read).replace("LAYER", layer), "targets_are_inputs", tmp_path)


@pytest.mark.parametrize(
    "read",
    [
        "given = torch.cat([past[:, -1:], future[:, :-1]], dim=1)\n"
        "    loss = F.mse_loss(head(decoder(given, state)[0]), future)",
        "out, _ = decoder(future, state)\n    loss = F.mse_loss(head(out)[:, :-1], future[:, 1:])",
        "out, _ = decoder(past, state)\n    loss = F.mse_loss(head(out[:, -6:]), future)",
        "state = tuple(s.detach() for s in state)\n    out, _ = decoder(past, state)\n"
        "    loss = F.mse_loss(head(out), past)",
    ],
    ids=["shifted inputs", "shifted results", "what is known", "an autoencoder that goes on"],
)
def test_other_inputs_of_decoders_are_right(read: str, tmp_path: Path) -> None:
    found = alarms(DECODER.replace("READ", read).replace("LAYER", "LSTM"), tmp_path)
    assert "targets_are_inputs" not in {each.cause for each in found}


def test_columns_of_a_table_around_the_target_are_no_window_of_it(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
table = torch.randn(80, 4)
x, y = table[:, [0, 1, 3]], table[:, 2]
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = F.mse_loss(model(x).squeeze(1), y)
"""
        + TRAIN
    )
    assert not findings(script, tmp_path)
