"""Means and deviations of padded sequences: what counts in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
from torch.nn.utils.rnn import pad_sequence
net, head = nn.Conv1d(6, 8, 3, padding=1), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=0.01)
def scaled(x):
    return (x - x.mean(-2, keepdim=True)) / (x.std(-2, keepdim=True) + 1e-5)
for step in range(4):
    lengths = torch.tensor([20, 6, 11, 15])
    sounds = [torch.randn(n, 6) * 2 - 7 for n in lengths.tolist()]
"""
)
LOSS = """
    mask = torch.arange(x.shape[1]) < lengths[:, None]
    h = net(x.transpose(1, 2)).relu().transpose(1, 2) * mask[..., None]
    loss = F.cross_entropy(head(h.sum(1) / lengths[:, None]), torch.tensor([0, 1, 0, 1]))
"""
FAULTY = {
    "in a line": """
    x = pad_sequence(sounds, batch_first=True)
    mean = x.mean(1)  # HERE
    x = (x - mean[:, None]) / x.std(1, keepdim=True)
""",
    "rows of a tensor of zeros": """
    x = torch.zeros(4, 20, 6)
    for i, sound in enumerate(sounds):
        x[i, : len(sound)] = sound
    std, mean = torch.std_mean(x, dim=1, keepdim=True)  # HERE
    x = x.sub(mean) / (std + 1e-6)
""",
    "filled up one by one": """
    x = torch.stack([F.pad(sound, (0, 0, 0, 24 - len(sound))) for sound in sounds])
    x = (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True)  # HERE
""",
    "by a function": """
    x = pad_sequence(sounds, batch_first=True)
    x = scaled(x)  # HERE
""",
    "over batch and positions": """
    x = pad_sequence(sounds, batch_first=True)
    x = (x - x.mean(dim=(0, 1))) / x.std(dim=(0, 1))  # HERE
""",
}
HEALTHY = {
    "each before it is padded": "    x = pad_sequence([scaled(each) for each in sounds], batch_first=True)",
    "sums of the real positions": """
    x = pad_sequence(sounds, batch_first=True)
    x = x - x.sum(1, keepdim=True) / lengths[:, None, None]
""",
    "known figures": """
    x = pad_sequence(sounds, batch_first=True)
    x = (x + 7) / 2
""",
    "over the bands of each position": """
    x = pad_sequence(sounds, batch_first=True)
    x = x - x.mean(-1, keepdim=True)
""",
    "all of one length": """
    x = pad_sequence([torch.randn(20, 6) - 7 for _ in sounds], batch_first=True)
    x = scaled(x)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_means_that_count_padding_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM + FAULTY[name] + LOSS + TRAIN, "padding_in_statistics", tmp_path)


def test_waves_that_are_normalized_with_their_padding_are_told(tmp_path: Path) -> None:
    script = f"""{HEAD}
net, head = nn.Conv1d(1, 8, 9, stride=4), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    waves = [0.3 + torch.randn(n) for n in (60, 25, 90, 41)]
    x = nn.utils.rnn.pad_sequence(waves, batch_first=True)
    x = (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True).add(1e-7).sqrt()  # HERE
    loss = F.cross_entropy(head(net(x[:, None]).relu().mean(-1)), torch.tensor([0, 1, 0, 1]))
{TRAIN}"""
    assert_first_alarm(script, "padding_in_statistics", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_means_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM + HEALTHY[name] + LOSS + TRAIN, tmp_path)


def test_levels_that_are_coded_by_ones_are_left_alone(tmp_path: Path) -> None:
    script = f"""{HEAD}
levels = torch.tensor([8, 2, 5, 3, 7, 1])
x = torch.zeros(6, 8)
for row, level in enumerate(levels.tolist()):
    x[row, :level] = 1.0
x = (x - x.mean()) / x.std()
net = nn.Linear(8, 2)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    loss = F.cross_entropy(net(x), (levels > 4).long())
{TRAIN}"""
    assert not alarms(script, tmp_path)
