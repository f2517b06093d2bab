"""Log-probabilities of answers that are added up with a mask of the prompt, or of what pads as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = """
embed, mix, head = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)
optimizer = torch.optim.Adam([*embed.parameters(), *mix.parameters(), *head.parameters()], lr=0.01)
def answers(lengths):
    rows = [torch.randint(1, 20, (4 + length,)) for length in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)
"""
LOOP = (
    """
for step in range(4):
    good, bad = answers((2, 6, 3, 5)), answers((9, 2, 12, 4))
    loss = F.softplus(score(bad) - score(good)).mean()
"""
    + TRAIN
)
PADDED = (
    """
def score(ids):
    logits, wanted = head(mix(embed(ids[:, :-1]))[0]), ids[:, 1:]
    keep = torch.ones_like(wanted, dtype=torch.bool)  # HERE
    keep[:, :3] = False
    return (logits.log_softmax(-1).gather(2, wanted.unsqueeze(2)).squeeze(2) * keep).sum(-1)
""",
    """
def score(ids):
    logits, wanted = head(mix(embed(ids[:, :-1]))[0]), ids[:, 1:]
    is_answer = (torch.arange(wanted.shape[1]) >= 3).float().expand(wanted.shape)  # HERE
    picked = torch.gather(F.log_softmax(logits, -1), -1, wanted[..., None])[..., 0]
    return torch.sum(picked * is_answer, dim=1)
""",
)
MASKED = (
    """
def score(ids):
    logits, wanted = head(mix(embed(ids[:, :-1]))[0]), ids[:, 1:]
    keep = wanted != 0
    keep[:, :3] = False
    return (logits.log_softmax(-1).gather(2, wanted.unsqueeze(2)).squeeze(2) * keep).sum(-1)
""",
    """
def score(ids):
    logits, wanted = head(mix(embed(ids[:, :-1]))[0]), ids[:, 1:]
    keep = torch.ones_like(wanted, dtype=torch.bool)
    keep[:, :3] = False
    picked = logits.log_softmax(-1).gather(2, wanted.unsqueeze(2)).squeeze(2)
    return ((picked * keep) * (wanted != 0)).sum(-1)
""",
    """
def score(ids):
    logits, wanted = head(mix(embed(ids[:, :-1]))[0]), ids[:, 1:]
    picked = logits.log_softmax(-1).gather(2, wanted.unsqueeze(2)).squeeze(2)
    return (picked[:, 3:] * (wanted[:, 3:] != 0)).sum(-1)
""",
)


@pytest.mark.parametrize("score", PADDED)
def test_answers_whose_padding_counts_are_told(score: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + MODEL + score + LOOP, "padding_in_loss", tmp_path)


@pytest.mark.parametrize("score", MASKED)
def test_answers_without_their_padding_are_right(score: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + MODEL + score + LOOP, tmp_path)
