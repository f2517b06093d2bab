"""Answers to one question that stand side by side, or one after all of the other, and are then split into pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PAIRS = """
embed, rnn, head = nn.Embedding(12, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 1, bias=False)
optimizer = torch.optim.Adam(nn.ModuleList([embed, rnn, head]).parameters(), lr=0.01)
questions = [torch.randint(1, 12, (3,)) for _ in range(8)]
def answer(question, shift):
    return torch.cat([question, (question + shift) % 12])
for step in range(4):
{rows}
    scores = head(rnn(embed(ids))[0][:, -1]).squeeze(1)
    better, worse = {split}
    loss = -F.logsigmoid(better - worse).mean()
"""
IN_TURNS = """
    rows = []
    for question in questions:
        rows += [answer(question, 1), answer(question, int(torch.randint(2, 9, ())))]
    ids = {joined}(rows{given}){mark}
"""
ONE_AFTER_THE_OTHER = """
    chosen = [answer(question, 1) for question in questions]
    rejected = [answer(question, int(torch.randint(2, 9, ()))) for question in questions]
    ids = torch.stack(chosen + rejected){mark}
"""
PADDED = {"joined": "nn.utils.rnn.pad_sequence", "given": ", batch_first=True"}
STACKED = {"joined": "torch.stack", "given": ""}
FAULTS = {
    "in turns, split into halves": PAIRS.format(
        rows=IN_TURNS.format(mark="  # HERE", **STACKED), split="scores.chunk(2)"
    ),
    "padded in turns, split into halves": PAIRS.format(
        rows=IN_TURNS.format(mark="  # HERE", **PADDED), split="(scores[:8], scores[8:])"
    ),
    "one after the other, taken in turns": PAIRS.format(
        rows=ONE_AFTER_THE_OTHER.format(mark="  # HERE"), split="(scores[::2], scores[1::2])"
    ),
}
HEALTHY = {
    "in turns, taken in turns": PAIRS.format(
        rows=IN_TURNS.format(mark="", **STACKED), split="(scores[::2], scores[1::2])"
    ),
    "padded in turns, viewed as pairs": PAIRS.format(
        rows=IN_TURNS.format(mark="", **PADDED), split="scores.view(8, 2).unbind(1)"
    ),
    "one after the other, split into halves": PAIRS.format(
        rows=ONE_AFTER_THE_OTHER.format(mark=""), split="scores.split(8)"
    ),
    "one beginning for all": PAIRS.format(rows=IN_TURNS.format(mark="", **STACKED), split="scores.chunk(2)").replace(
        "for question in questions", "for question in [questions[0]] * 8"
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_line_is_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + FAULTS[case] + TRAIN, "rows_grouped_otherwise", tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_what_looks_alike_and_is_meant_is_quiet(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case] + TRAIN, tmp_path) == []
