"""Decoders of values that are given steps of the target, one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = """
reads, head = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 1)
{made}
optimizer = torch.optim.Adam(nn.ModuleList([reads, head, cell]).parameters(), lr=0.01)
for step in range(5):
    series = torch.randn(8, 14, 1).cumsum(1)
    past, future = series[:, :8], series[:, 8:]
    {begin}
    outputs, value = [], past[:, -1]
    for t in range(6):
        {step}
    loss = F.smooth_l1_loss({result}, future)
"""
CELLS = {
    "a cell": (
        "cell = nn.GRUCell(1, 8)",
        "state = reads(past)[1][0]",
        """if t > 0:
            value = future[:, {at}]{here}
        state = cell(value, state)
        outputs.append(head(state))""",
        "torch.stack(outputs, 1)",
    ),
    "own results at some steps": (
        "cell = nn.LSTMCell(1, 8)",
        "state = (reads(past)[1][0], torch.zeros(8, 8))",
        """state = cell(value, state)
        outputs.append(head(state[0]))
        value = outputs[-1] if t == 3 else future[:, {later}] if t < 5 else None{here}""",
        "torch.stack(outputs, dim=1)",
    ),
    "a layer of one step": (
        "cell = nn.GRU(1, 8, batch_first=True)",
        "state = reads(past)[1]",
        """given = future[:, {at} : {at} + 1] if t else past[:, -1:]{here}
        made, state = cell(given, state)
        outputs.append(head(made))""",
        "torch.cat(outputs, 1)",
    ),
}


def _script(name: str, shift: str, here: str) -> str:
    made, begin, step, result = CELLS[name]
    step = step.format(at=f"t{shift}", later="t + 1" if not shift else "t", here=here)
    return HEAD + MODEL.format(made=made, begin=begin, step=step, result=result) + TRAIN


@pytest.mark.parametrize("name", CELLS)
def test_a_decoder_that_gets_the_step_that_it_is_asked_for_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(name, "", "  # HERE"), "targets_are_inputs", tmp_path)


@pytest.mark.parametrize("name", CELLS)
def test_a_decoder_that_gets_the_step_before_is_left_alone(name: str, tmp_path: Path) -> None:
    assert alarms(_script(name, " - 1", ""), tmp_path) == []


def test_a_filter_that_reads_each_step_of_other_data_is_left_alone(tmp_path: Path) -> None:
    script = """
cell, head = nn.GRUCell(1, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam(nn.ModuleList([cell, head]).parameters(), lr=0.01)
for step in range(5):
    clean = torch.randn(8, 6, 1).cumsum(1)
    noisy, state, outputs = clean + 0.3 * torch.randn(8, 6, 1), torch.zeros(8, 8), []
    for t in range(6):
        state = cell(noisy[:, t], state)
        outputs.append(head(state))
    loss = F.mse_loss(torch.stack(outputs, 1), clean)
"""
    assert alarms(HEAD + script + TRAIN, tmp_path) == []
