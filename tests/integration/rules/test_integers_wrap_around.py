"""Arithmetic with numbers of one or two bytes, whose results fit or do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
frames = torch.randint(90, 110, (32, 2, 16), dtype=torch.uint8)
pictures = torch.randint(0, 256, (32, 2, 16), dtype=torch.uint8)
net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    {made}
    loss = F.cross_entropy(net(x), torch.randint(0, 2, (len(x),)))
"""
    + TRAIN
)
WRAPPED = {
    "two frames": "x = frames[:, 1] - frames[:, 0]  # HERE\n    x = x.float() / 255",
    "two frames of all brightnesses": "x = torch.sub(pictures[:, 1], pictures[:, 0]).float() / 255  # HERE",
    "rolled": "x = (pictures - pictures.roll(1, 1)).float().mean(1) / 255  # HERE",
    "a middle": "x = (pictures[:, 0] - 128) / 128  # HERE",
    "brighter": "x = pictures[:, 0].clone()\n    x += 50  # HERE\n    x = x / 255",
    "twice as bright": "x = 2 * pictures[:, 0]  # HERE\n    x = x / 255",
    "a sum": "x = (frames[:, 0] + frames[:, 1] + frames[:, 0]) / 765  # HERE",
    "negatives": "x = (pictures[:, 0].float() - 128).to(torch.uint8)  # HERE\n    x = x / 255",
    "larger numbers": "x = torch.randint(0, 300, (32, 16)).byte()  # HERE\n    x = x / 300",
    "beside a condition": ("x = frames[:, 1] - frames[:, 0]  # HERE\n    x = ((x > 3) & (x < 200)).float() + x / 255"),
    "a mask": "x = frames[:, 0] / 255 + 0.001 * ((pictures[:, 0] > 9).byte() - 1)  # HERE",
}
FITTING = {
    "converted before": "x = (frames[:, 1].float() - frames[:, 0].float()) / 255",
    "more bits": "x = (pictures[:, 0].short() - 128) / 128",
    "a float beside": "x = (pictures[:, 0] - 127.5) / 128",
    "the complement": "x = (255 - pictures[:, 0]) / 255",
    "the least is taken away": "x = pictures[:, 0] - pictures[:, 0].min()\n    x = x / 255",
    "an edge": "x = torch.maximum(pictures[:, 0], pictures[:, 1]) - pictures[:, 0]\n    x = x / 255",
    "what a mask leaves": "x = pictures[:, 0] - pictures[:, 0] * (pictures[:, 1] > 9)\n    x = x / 255",
    "clamped": "x = (pictures[:, 0] + 50.0).clamp(0, 255).to(torch.uint8) / 255",
    "rounded within": "x = (pictures[:, 0] / 255 * 255.4).byte() / 255",
    "a mask turned round": "x = frames[:, 0] / 255 + (1 - (pictures[:, 0] > 9).byte()) * 0.01",
    "made whole again": (
        "packed = torch.randint(0, 60_000, (32, 16)).to(torch.int16)\n    x = (packed.long() & 0xFFFF) / 60_000"
    ),
    "a row for each byte": (
        "key = torch.randint(0, 5000, (32,)).mul(31).to(torch.uint8)\n"
        "    x = F.embedding(key.long(), torch.randn(256, 16, requires_grad=True))"
    ),
    "no network gets it": "x = frames[:, 0] / 255\n    print((frames[:, 0] - frames[:, 1]).max())",
}


@pytest.mark.parametrize("name", WRAPPED)
def test_results_that_do_not_fit_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(SCRIPT.format(made=WRAPPED[name]), "integers_wrap_around", tmp_path)


@pytest.mark.parametrize("name", FITTING)
def test_results_that_fit_are_left_alone(name: str, tmp_path: Path) -> None:
    assert "integers_wrap_around" not in {each.cause for each in alarms(SCRIPT.format(made=FITTING[name]), tmp_path)}
