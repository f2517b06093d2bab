"""Weights that a softmax by its formula, or an ``einsum``, normalizes over one axis and uses along another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

READS = """
query, key, value = (nn.Linear(6, 6) for _ in range(3))
optimizer = torch.optim.SGD([*query.parameters(), *key.parameters(), *value.parameters()], lr=0.01)
for step in range(2):
    x, slots = torch.randn(4, 5, 6), torch.randn(4, 3, 6)
    q, k, v = query(slots), key(x), value(x)
    {read}
    loss = (read - slots).square().mean()
"""
WRONG = (
    "weight = torch.einsum('bsd,bmd->bsm', q, k).softmax(1)  # HERE\n"
    "    read = torch.einsum('bsm,bmd->bsd', weight, v)",
    "score = (q @ k.mT).exp()\n    weight = score / score.sum(1, keepdim=True)  # HERE\n    read = weight @ v",
    "score = torch.exp(q @ k.mT)\n"
    "    weight = score * score.sum(1).reciprocal().unsqueeze(1)  # HERE\n    read = weight @ v",
)
RIGHT = (
    "score = torch.einsum('bmd,bsd->bms', k, q) / 2.4\n"
    "    weight = (score - score.logsumexp(dim=1, keepdim=True)).exp()\n"
    "    read = torch.einsum('bms,bmd->bsd', weight, v)",
    "weight = torch.einsum('bsd,bmd->bsm', q, k).softmax(2)\n    read = torch.einsum('bsm,bmd->bsd', weight, v)",
    # slots compete for the inputs, and each takes a mean of what it got
    "weight = (k @ q.mT / 2.4).softmax(-1)\n    read = (weight / weight.sum(1, keepdim=True)).mT @ v",
    "weight = (k @ q.mT / 2.4).softmax(-1)\n    read = weight.mT @ v / weight.sum(1).unsqueeze(-1)",
    # Sinkhorn
    "score = q @ k.mT\n    score = score - score.logsumexp(2, keepdim=True)\n"
    "    score = score - score.logsumexp(1, keepdim=True)\n    read = score.exp() @ v",
    # all pairs share one sum
    "weight = torch.einsum('bmd,bsd->bms', k, q).flatten(1).softmax(1).view(4, 5, 3)\n"
    "    read = torch.einsum('bms,bmd->bsd', weight, v)",
)


@pytest.mark.parametrize("read", WRONG)
def test_weights_of_the_other_positions_are_told(read: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + READS.format(read=read) + TRAIN, "wrong_axis", tmp_path)


@pytest.mark.parametrize("read", RIGHT)
def test_weights_that_add_up_to_one_are_right(read: str, tmp_path: Path) -> None:
    assert "wrong_axis" not in {each.cause for each in alarms(HEAD + READS.format(read=read) + TRAIN, tmp_path)}
