"""What a network gets of columns, lengths and components."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FIT = """
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    loss = F.mse_loss(net(x).squeeze(-1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
STACKED = (
    HEAD + "import math\n"
    "def encode(hours, wind):\n    angle = 2 * math.pi * {}  # HERE\n"
    "    return torch.stack([torch.sin(angle), torch.cos(angle), wind], dim=1)\n"
    "hours = torch.randint(0, 24, (96,)).float()\nx, y = encode(hours, torch.randn(96)), (hours - 12).abs() / 12\n"
    "net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))\n" + FIT
)
OF_BATCHES = (
    HEAD + "month = torch.randint(1, 13, (40, 1))\ny = (month[:, 0] > 6).float()\n"
    "class Net(nn.Module):\n"
    "    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(2, 1)\n"
    "    def forward(self, month):\n        turn = month.float(){}\n"
    "        return self.layer(torch.cat([(turn * 2 * torch.pi).cos(), (turn * 2 * torch.pi).sin()], 1))  # HERE\n"
    "net, x = Net(), month\n" + FIT
)
# A wave that is zero at both ends of an interval, where a network is asked for the zero.
AT_THE_ENDS = (
    HEAD + "ends = torch.randint(0, 2, (64, 1)).float()\ninside = torch.rand(64, 1)\n"
    "class Net(nn.Module):\n"
    "    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(4, 1)\n"
    "    def forward(self, x):\n        return self.layer(torch.cat([(math.pi * 8 * x).sin(), x, x * x, x ** 3], 1))\n"
    "import math\nnet = Net()\noptimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
    "for step in range(4):\n"
    "    loss = F.mse_loss(net(ends), torch.sin(8 * math.pi * ends))"
    " + F.mse_loss(net(inside), torch.sin(8 * math.pi * inside))\n"
    "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
)

# Clips of a few hundred samples, which a layer makes into frames.
CLIPS = (
    HEAD + "from torch.nn.utils.rnn import pad_sequence\n"
    "def batch():\n    clips = [torch.randn(int(n)) for n in torch.randint(60, 400, (8,))]\n"
    "    return pad_sequence(clips, batch_first=True), torch.tensor([len(c) for c in clips])\n"
    "class Net(nn.Module):\n"
    "    def __init__(self):\n        super().__init__()\n"
    "        self.conv, self.head = nn.Conv1d(1, 8, 16, stride=8, padding=8), nn.Linear(8, 2)\n"
    "    def forward(self, x, lengths):\n        h = self.conv(x[:, None]).transpose(1, 2)\n{}"
    "        return self.head(h.sum(1) / hidden.logical_not().sum(1))\n"
    "net = Net()\noptimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
    "for step in range(6):\n    x, lengths = batch()\n"
    "    loss = F.cross_entropy(net(x, lengths), torch.randint(0, 2, (8,)))" + TRAIN
)
OF_SAMPLES = """        hidden = (torch.arange(h.size(1))[None] >= lengths[:, None]).unsqueeze(-1)  # HERE
        h = h.masked_fill(hidden, 0.0)
"""
OF_FRAMES = OF_SAMPLES.replace(">= lengths[:, None]", ">= (lengths // 8 + 1).view(-1, 1)")
OF_FIRST_SAMPLES = OF_SAMPLES.replace("torch.arange(h.size(1))", "torch.arange(0, 8 * h.size(1), 8)")
# Texts of which only the first positions are read.
CUT_OFF = OF_SAMPLES.replace("        hidden", "        h = h[:, :6]\n        hidden")


@pytest.mark.parametrize(("script", "faulty", "mended"), [(STACKED, "hours", "hours / 24"), (OF_BATCHES, "", " / 12")])
def test_an_angle_of_whole_turns_is_told(tmp_path: Path, script: str, faulty: str, mended: str) -> None:
    assert_first_alarm(script.format(faulty), "periods_are_whole", tmp_path)
    assert not alarms(script.format(mended), tmp_path)


def test_a_wave_at_the_ends_of_an_interval_is_quiet(tmp_path: Path) -> None:
    assert not alarms(AT_THE_ENDS, tmp_path)


def test_a_mask_of_frames_from_lengths_in_samples_is_told(tmp_path: Path) -> None:
    assert_first_alarm(CLIPS.format(OF_SAMPLES), "lengths_in_other_units", tmp_path)


@pytest.mark.parametrize("lines", [OF_FRAMES, OF_FIRST_SAMPLES, CUT_OFF])
def test_positions_in_the_unit_of_the_lengths_are_quiet(tmp_path: Path, lines: str) -> None:
    assert not alarms(CLIPS.format(lines), tmp_path)
