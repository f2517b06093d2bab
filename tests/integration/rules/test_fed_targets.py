"""Decoders that go on token by token: which token they get, and which one they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
embed, cell, head = nn.Embedding(12, 16), nn.GRUCell(16, 16), nn.Linear(16, 12)
reader = nn.GRU(16, 16, batch_first=True)
optimizer = torch.optim.Adam([*embed.parameters(), *cell.parameters(), *head.parameters(), *reader.parameters()])
def decode(token, state):
    state = cell(embed(token), state)
    return head(state), state
for step in range(4):
    source = torch.randint(1, 12, (8, 5))
    target = torch.cat([torch.zeros(8, 1, dtype=torch.long), source.flip(1)], dim=1)
    state, loss = reader(embed(source))[1][0], 0.0
"""
)
FAULTY = {
    "the target of the position": """
    for t in range(1, 6):
        scores, state = decode(target[:, t], state)  # HERE
        loss = loss + F.cross_entropy(scores, target[:, t])
""",
    "tokens that are rolled the other way": """
    states = reader(embed(source[:, 1:5]))[0]
    late = torch.roll(source, 1, dims=1)[:, 1:5]  # HERE
    loss = F.cross_entropy(decode(target[:, 0], state)[0], target[:, 1])
    loss = loss + F.cross_entropy(head(states).reshape(-1, 12), late.reshape(-1))
""",
    "one token for both": """
    for token in target[:, 1:].unbind(1):  # HERE
        scores, state = decode(token, state)
        loss = loss + F.cross_entropy(scores, token)
""",
    "scores that are kept": """
    kept = []
    for t in range(5):
        scores, state = decode(target[:, t + 1], state)  # HERE
        kept.append(scores)
    loss = sum(F.cross_entropy(each, target[:, t + 1]) for t, each in enumerate(kept))
""",
}
HEALTHY = {
    "the token before": """
    for t in range(1, 6):
        scores, state = decode(target[:, t - 1], state)
        loss = loss + F.cross_entropy(scores, target[:, t])
""",
    "its own best token": """
    token = target[:, 0]
    for t in range(1, 6):
        scores, state = decode(token, state)
        loss = loss + F.cross_entropy(scores, target[:, t])
        token = scores.argmax(1)
""",
    "what came three tokens ago": """
    states = reader(embed(source[:, 1:5]))[0]
    late = torch.roll(source, 3, dims=1)[:, 1:5]
    loss = F.cross_entropy(decode(target[:, 0], state)[0], target[:, 1])
    loss = loss + F.cross_entropy(head(states).reshape(-1, 12), late.reshape(-1))
""",
    "a copy of what was read": """
    state = torch.zeros(8, 16)
    for t in range(5):
        state = cell(embed(source[:, t]), state)
    for t in range(5):
        state = cell(torch.zeros(8, 16), state)
        loss = loss + F.cross_entropy(head(state), source[:, t])
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_decoders_that_get_their_targets_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + TRAIN, "targets_are_inputs", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_decoders_that_get_what_came_before_are_left_alone(name: str, tmp_path: Path) -> None:
    script = MODEL.replace(", *reader.parameters()", "") if "state = torch.zeros" in HEALTHY[name] else MODEL
    assert not alarms(script + HEALTHY[name] + TRAIN, tmp_path)
