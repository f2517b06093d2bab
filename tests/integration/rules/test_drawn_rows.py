"""Rows of an embedding that are drawn from the range of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

RANKED = (
    HEAD
    + """
users, items = nn.Embedding(9, 4), nn.Embedding(40, 4)
optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.01)
seen = torch.rand(9, 40) < 0.3
pairs = seen.nonzero()
for step in range(4):
    user, liked = pairs[torch.randint(len(pairs), (32,))].unbind(1)
    {drawn}
    better = (users(user) * (items(liked) - items(other))).sum(1)
    loss = F.softplus(-better).mean()
"""
    + TRAIN
)
FAULTY = [
    "other = torch.randint(9, (32,))  # HERE",
    "other = torch.randint(0, users.num_embeddings, (32,))  # HERE",
    "other = torch.randint(low=0, high=9, size=(32,))  # HERE",
    """other = torch.randint(9, (32,))  # HERE
    other = torch.where(seen[user, other], torch.randint(9, (32,)), other)""",
]
HEALTHY = [
    "other = torch.randint(40, (32,))",
    "other = torch.randint(20, (32,))",  # among the most popular ones
    "other = torch.randperm(40)[torch.randint(9, (32,))]",
    "liked, other = liked.clamp(max=8), torch.randint(9, (32,))",  # nothing looks up the others
]


@pytest.mark.parametrize("drawn", FAULTY)
def test_rows_that_are_drawn_below_the_size_of_another_table_are_told(drawn: str, tmp_path: Path) -> None:
    assert_first_alarm(RANKED.format(drawn=drawn), "drawn_from_other_table", tmp_path)


@pytest.mark.parametrize("drawn", HEALTHY)
def test_rows_that_are_drawn_from_their_own_table_are_right(drawn: str, tmp_path: Path) -> None:
    assert not alarms(RANKED.format(drawn=drawn), tmp_path)
