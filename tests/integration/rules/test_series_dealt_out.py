"""Series that are cut into streams: the steps of a stream are neighbours in the series, or far apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FORECAST = (
    HEAD
    + """
series = torch.sin(torch.arange(400) / 7) + 0.1 * torch.randn(400)
{}
rnn, head = nn.LSTM(1, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=0.01)
for start in range(0, 36, 9):
    x, y = streams[start:start + 9], streams[start + 1:start + 10]
    hidden, _ = rnn(x.unsqueeze(-1))
    loss = F.mse_loss(head(hidden).squeeze(-1), y)
"""
    + TRAIN
)
TEXT = (
    HEAD
    + """
corpus = torch.randint(0, 30, (407,))
def batchify(data, size):
    data = data[:len(data) // size * size]
    {}
def get_batch(source, i, length=9):
    return source[i:i + length], source[i + 1:i + 1 + length].reshape(-1)
streams = batchify(corpus, 8)
embed, layer, head = nn.Embedding(30, 8), nn.TransformerEncoderLayer(8, 2, 16, 0.0), nn.Linear(8, 30)
optimizer = torch.optim.Adam([*embed.parameters(), *layer.parameters(), *head.parameters()], lr=0.01)
mask = nn.Transformer.generate_square_subsequent_mask(9)
for i in range(0, 36, 9):
    data, targets = get_batch(streams, i)
    loss = F.cross_entropy(head(layer(embed(data), src_mask=mask, is_causal=True)).view(-1, 30), targets)
"""
    + TRAIN
)
CHANNELS = (
    HEAD
    + """
series = torch.randn(400)
streams = series.view(-1, 8)
rnn, head = nn.LSTM(8, 8), nn.Linear(8, 8)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=0.01)
for start in range(0, 36, 9):
    x, y = streams[start:start + 9], streams[start + 1:start + 10]
    hidden, _ = rnn(x)
    loss = F.mse_loss(head(hidden), y)
"""
    + TRAIN
)
FAULTY = {
    "a forecast": FORECAST.format("streams = series.view(-1, 8)  # HERE"),
    "a text": TEXT.format("return data.view(-1, size).contiguous()  # HERE"),
    "a text, reshaped": TEXT.format("return data.reshape(len(data) // size, size)  # HERE"),
}
HEALTHY = {
    "stretches as columns": FORECAST.format("streams = series.view(8, -1).t()"),
    "a text in stretches": TEXT.format("return data.view(size, -1).t().contiguous()"),
    "a matrix that was flattened": FORECAST.format(
        "streams = series.view(8, -1).t()\nflat = (streams.reshape(-1) - streams.mean()) / streams.std()\n"
        "streams = flat.view(-1, 8)"
    ),
    "channels that take turns": CHANNELS,
}


@pytest.mark.parametrize("name", FAULTY)
def test_streams_that_skip_values_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "series_dealt_out", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_streams_of_neighbours_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
