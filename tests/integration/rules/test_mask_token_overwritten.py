"""Selected tokens that become a mask or random ones: from which tokens each part is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
MASK, T = 40, 12
embed, body, head = nn.Embedding(41, 16), nn.GRU(16, 16, batch_first=True, bidirectional=True), nn.Linear(32, 41)
optimizer = torch.optim.Adam([*embed.parameters(), *body.parameters(), *head.parameters()], lr=0.003)
def part(share):
    return torch.bernoulli(torch.full((16, T), share)).bool()
def corrupted(ids):
    selected = part(0.3)
    labels = ids.masked_fill(~selected, -100)
{body}
    return ids, labels
for step in range(4):
    ids, labels = corrupted(torch.randint(0, 40, (16, 1)) + torch.zeros(16, T, dtype=torch.long))
    loss = F.cross_entropy(head(body(embed(ids))[0]).flatten(0, 1), labels.flatten())
"""
    + TRAIN
)
FAULTY = {
    "assigned": """
    ids = ids.clone()
    masked = part(0.8) & selected
    ids[masked] = MASK
    random = part(0.5) & selected  # HERE
    ids[random] = torch.randint(0, 40, ids.shape)[random]
""",
    "filled and chosen": """
    ids = ids.masked_fill(selected & (torch.rand(ids.shape) < 0.8), MASK)
    noisy = selected & (torch.rand(ids.shape) < 0.5)  # HERE
    ids = torch.where(noisy, torch.randint_like(ids, 40), ids)
""",
}
HEALTHY = {
    "those that are left": """
    ids = ids.clone()
    masked = part(0.8) & selected
    ids[masked] = MASK
    random = part(0.5) & selected & ~masked
    ids[random] = torch.randint(0, 40, ids.shape)[random]
""",
    "one draw": """
    ids, u = ids.clone(), torch.rand(ids.shape)
    ids[selected & (u < 0.8)] = MASK
    random = selected & (u >= 0.8) & (u < 0.9)
    ids[random] = torch.randint(0, 40, ids.shape)[random]
""",
    "the masks behind the random ones": """
    ids = ids.clone()
    random = part(0.5) & selected
    ids[random] = torch.randint(0, 40, ids.shape)[random]
    ids[part(0.8) & selected] = MASK
""",
    "few random ones": """
    ids = ids.clone()
    ids[part(0.8) & selected] = MASK
    random = part(0.08) & selected
    ids[random] = torch.randint(0, 40, ids.shape)[random]
""",
    "noise of its own on all that is no padding": """
    real, ids = ids != 3, ids.clone()
    ids[part(0.2) & real & part(0.9)] = MASK
    random = part(0.1) & real
    ids[random] = torch.randint(0, 40, ids.shape)[random]
""",
    "noise of its own on all": """
    ids = ids.masked_fill(selected, MASK)
    ids = torch.where(part(0.3), torch.randint(0, 40, ids.shape), ids)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_random_tokens_over_masks_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(body=FAULTY[name]), "mask_token_overwritten", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_parts_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM.format(body=HEALTHY[name]), tmp_path)
