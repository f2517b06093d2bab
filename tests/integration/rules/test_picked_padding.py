"""Log-probabilities of sequences that were filled up to one length: which positions count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
PAD, PROMPT = 0, 3
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(30, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 30)
    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])
policy = Policy()
reference = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.001)
def answers(low, high):
    lengths = torch.randint(low, high, (16, 1))
    return torch.randint(1, 30, (16, 14)).masked_fill(torch.arange(14) >= lengths, PAD)
def score(model, ids):
{score}
for step in range(4):
    good, bad = answers(6, 12), answers(5, 15)
    with torch.no_grad():
        old = score(reference, good) - score(reference, bad)
    loss = -F.logsigmoid(0.1 * (score(policy, good) - score(policy, bad) - old)).mean()
"""
    + TRAIN
)
PICKED = """
    labels = ids[:, 1:]
    picked = model(ids[:, :-1]).log_softmax(-1).gather(-1, labels[..., None])[..., 0]
"""
FAULTY = {
    "all positions": "    logp = model(ids).log_softmax(-1)[:, :-1]\n"
    "    return logp.gather(2, ids[:, 1:].unsqueeze(-1)).squeeze(-1).sum(-1)  # HERE",
    "a mask of the prompt": PICKED + "    answer = torch.arange(13) >= PROMPT - 1  # HERE\n"
    "    return (picked * answer).sum(-1)",
    "a mask of the prompt with an axis of its own": PICKED
    + "    answer = (torch.arange(13) > 1).float()[None]  # HERE\n"
    "    return (picked * answer).sum(dim=1)",
}
HEALTHY = {
    "a mask of the padding": PICKED + "    return (picked * (labels != PAD)).sum(-1)",
    "both masks": PICKED + "    mask = (torch.arange(13) > 1) & (labels != PAD)\n    return (picked * mask).sum(-1)",
    "one mask and then the other": PICKED + "    answer = picked * (torch.arange(13) > 1)\n"
    "    return (answer * (labels != PAD)).sum(-1)",
    "filled with zeros": PICKED + "    return picked.masked_fill(labels == PAD, 0.0).sum(-1)",
    "labels that are ignored": "    labels = ids[:, 1:].clone()\n    mask = labels != PAD\n    labels[~mask] = 1\n"
    "    logp = model(ids[:, :-1]).log_softmax(-1)\n"
    "    return (logp.gather(-1, labels[..., None])[..., 0] * mask).sum(-1)",
    "a part that all have": PICKED + "    return picked[:, :4].sum(-1)",
}


@pytest.mark.parametrize("name", FAULTY)
def test_padding_in_the_sum_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(score=FAULTY[name]), "padding_in_loss", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_sums_without_padding_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM.format(score=HEALTHY[name]), tmp_path)
