"""Rotary positions: what is turned together, and the type in which positions are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = """
q_of, k_of = nn.Linear(16, 16), nn.Linear(16, 16)
optimizer = torch.optim.SGD([*q_of.parameters(), *k_of.parameters()], lr=0.01)
inv_freq = 100.0 ** -(torch.arange(0, 16, 2) / 16)
freqs = torch.outer(torch.arange(12.0), inv_freq)
{table}
{turn}
def apply(x):
    return x * cos + rotate(x) * sin
for step in range(3):
    x = torch.randn(4, 12, 16)
    scores = apply(q_of(x)) @ apply(k_of(x)).transpose(1, 2)
    loss = (scores.softmax(-1) @ x - x).square().mean()
"""
HALVES = (
    """
def rotate(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)
""",
    """
def rotate(x):
    return torch.cat([-x[..., 8:], x[..., : x.shape[-1] // 2]], -1)
""",
    """
def rotate(x):
    a, b = torch.split(x, 8, dim=-1)
    return torch.cat((-1 * b, a), dim=2)
""",
)
NEIGHBOURS = (
    """
def rotate(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)
""",
    """
def rotate(x):
    a, b = x.unflatten(-1, (8, 2)).unbind(-1)
    return torch.stack([-b, a], dim=-1).flatten(-2)
""",
    """
def rotate(x):
    pairs = x.view(4, 12, 8, 2)
    return torch.stack((-pairs[..., 1], pairs[..., 0]), dim=3).view_as(x)
""",
)
IN_A_ROW = (
    "emb = freqs.repeat_interleave(2, dim=-1){here}\ncos, sin = emb.cos(), emb.sin()",
    "cos, sin = (torch.repeat_interleave(each, 2, -1) for each in (freqs.cos(), freqs.sin())){here}",
    "emb = torch.stack((freqs, freqs), dim=-1).flatten(-2){here}\ncos, sin = emb.cos()[None], emb.sin()[None]",
)
ONE_AFTER_ANOTHER = (
    "emb = torch.cat((freqs, freqs), dim=-1){here}\ncos, sin = emb.cos(), emb.sin()",
    "emb = freqs.repeat(1, 2){here}\ncos, sin = emb.cos()[None, :12], emb.sin()[None, :12]",
)
MISMATCHED = [
    *((IN_A_ROW[i], HALVES[i]) for i in range(3)),
    *((ONE_AFTER_ANOTHER[i % 2], NEIGHBOURS[i]) for i in range(3)),
]
MATCHED = [
    *((IN_A_ROW[i], NEIGHBOURS[i]) for i in range(3)),
    *((ONE_AFTER_ANOTHER[i % 2], HALVES[i]) for i in range(3)),
]


@pytest.mark.parametrize(("table", "turn"), MISMATCHED)
def test_pairs_with_two_angles_are_told(table: str, turn: str, tmp_path: Path) -> None:
    script = MODEL.format(table=table.format(here="  # HERE"), turn=turn)
    assert_first_alarm(HEAD + script + TRAIN, "rotary_pairs", tmp_path)


@pytest.mark.parametrize(("table", "turn"), MATCHED)
def test_pairs_with_one_angle_are_right(table: str, turn: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + MODEL.format(table=table.format(here=""), turn=turn) + TRAIN, tmp_path)


POSITIONS = """
layer = nn.Linear(16, 16)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
inv_freq = 100.0 ** -(torch.arange(0, 16, 2) / 16)
{angles}
table = torch.cat((angles.cos(), angles.sin()), -1).float()
for step in range(3):
    loss = layer(torch.randn(2, 600, 16) + table[:600]).square().mean()
"""
ROUNDED = (
    "angles = torch.outer(torch.arange(600, dtype=torch.bfloat16), inv_freq.bfloat16())  # HERE",
    "position = torch.arange(600)\nangles = position.to(torch.bfloat16)[:, None] * inv_freq  # HERE",
    "position = torch.ones(600, dtype=torch.long).cumsum(0) - 1\n"
    "with torch.autocast('cpu', torch.bfloat16):\n"
    "    angles = position[:, None].float() @ inv_freq[None]  # HERE",
    "angles = torch.arange(3000).half()[:, None] * inv_freq.half()  # HERE",
)
EXACT = (
    "angles = torch.outer(torch.arange(600.0), inv_freq).bfloat16()",
    "angles = torch.outer(torch.arange(200, dtype=torch.bfloat16), inv_freq.bfloat16()).repeat(3, 1)",
    "angles = torch.arange(600).half()[:, None] * inv_freq.half()",
    "with torch.autocast('cpu', torch.bfloat16):\n    angles = torch.outer(torch.arange(600.0), inv_freq)",
    "inv_freq = 100.0 ** -(torch.arange(0, 16, 2, dtype=torch.bfloat16) / 16).float()\n"
    "angles = torch.outer(torch.arange(600.0), inv_freq)",
    "times = torch.randint(0, 1000, (600,)).bfloat16()\nangles = times[:, None] * inv_freq",
    "weights = torch.arange(600, dtype=torch.bfloat16) / 600\nprint(weights.float().mean())\n"
    "angles = torch.outer(torch.arange(600.0), inv_freq)",
)


@pytest.mark.parametrize("angles", ROUNDED)
def test_positions_that_become_the_same_are_told(angles: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + POSITIONS.format(angles=angles) + TRAIN, "positions_rounded", tmp_path)


@pytest.mark.parametrize("angles", EXACT)
def test_positions_that_a_type_can_hold_are_right(angles: str, tmp_path: Path) -> None:
    found = alarms(HEAD + POSITIONS.format(angles=angles) + TRAIN, tmp_path)
    assert "positions_rounded" not in {each.cause for each in found}
