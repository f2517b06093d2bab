"""Lists of different lengths whose scores are compared with a distribution: where the padding is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
teacher = nn.Linear(5, 1).requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(5):
    docs, n = torch.randn(12, 9, 5), torch.randint(2, 9, (12, 1))
    n[0] = 9
    real = torch.arange(9) < n
    relevance = (docs[..., 0] * 2).round() * real
    scores = model(docs).squeeze(2)
    LOSS
"""
    + TRAIN
)
WANTED = "wanted = relevance.masked_fill(~real, -torch.inf).softmax(1)\n    "
FAULTY = {
    "filled with zeros": WANTED + "logs = F.log_softmax(scores, dim=1)  # HERE\n"
    "    loss = -(wanted * logs.masked_fill(~real, 0.0)).sum(1).mean()",
    "multiplied": WANTED + "logs = scores.log_softmax(1)  # HERE\n    loss = -(wanted * (logs * real)).sum(1).mean()",
    "not at all": WANTED + "loss = -(wanted * F.log_softmax(scores, dim=1)).sum(1).mean()  # HERE",
    "not at all, with weights": "beyond = torch.arange(9)[None, :].ge(n)\n"
    "    wanted = torch.where(beyond, -torch.inf, relevance).softmax(-1)\n"
    "    logs = torch.log(scores.softmax(-1) + 1e-9)  # HERE\n    loss = F.kl_div(logs, wanted, reduction='batchmean')",
    "where": "hidden = ~real\n    wanted = torch.where(hidden, -1e9, relevance).softmax(1)\n"
    "    logs = F.log_softmax(scores, dim=1)  # HERE\n"
    "    logs = torch.where(hidden, 0.0, logs)\n    loss = -(wanted * logs).sum(1).mean()",
}
HEALTHY = {
    "both": WANTED + "logs = F.log_softmax(scores.masked_fill(~real, -1e9), dim=1)\n"
    "    loss = -(wanted * logs.masked_fill(~real, 0.0)).sum(1).mean()",
    "moves that a game allows": "allowed = docs[..., 1] > -1\n    allowed[:, 0] = True\n"
    "    wanted = relevance.masked_fill(~allowed, -torch.inf).softmax(1)\n"
    "    loss = -(wanted * scores.log_softmax(1)).sum(1).mean()",
    "scores without padding": WANTED + "scores = scores + torch.zeros(12, 9).masked_fill(~real, -1e9)\n"
    "    loss = -(wanted * scores.log_softmax(1)).sum(1).mean()",
    "the best of a teacher": "given = teacher(docs).squeeze(2)\n    hidden = given < given.topk(4).values[:, -1:]\n"
    "    wanted = given.masked_fill(hidden, -torch.inf).softmax(1)\n    logs = F.log_softmax(scores, dim=1)\n"
    "    loss = -(wanted * logs.masked_fill(hidden, 0.0)).sum(1).mean()",
    "positives among all": "logs = F.log_softmax(scores, dim=1)\n    good = relevance > 0\n"
    "    loss = -(logs * good).sum(1).mean()",
}


@pytest.mark.parametrize("name", FAULTY)
def test_scores_of_padding_that_only_the_targets_leave_out_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(SCRIPT.replace("LOSS", FAULTY[name]), "mask_without_effect", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_masks_behind_a_softmax_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(SCRIPT.replace("LOSS", HEALTHY[name]), tmp_path)
