"""Rows that are drawn from the range of another table, or of another kind of rows in the same table."""

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


JOINED = (
    HEAD
    + """
N_USERS, N_ITEMS = 30, 20
table, mix = nn.Embedding(50, 4), torch.eye(50) * 0.9 + 0.002
optimizer = torch.optim.Adam(table.parameters(), lr=0.01)
pairs = (torch.rand(30, 20) < 0.3).nonzero() + torch.tensor([0, N_USERS])
for step in range(4):
    user, liked = pairs[torch.randint(len(pairs), (32,))].unbind(1)
    {}
    loss = F.softplus(-better).mean()
"""
    + TRAIN
)
GRAPH = """nodes = mix @ table.weight
    u = nodes[user]
    better = (u * nodes[liked]).sum(1) - (u * nodes[other]).sum(1)"""
LOOKED_UP = "better = (table(user) * (table(liked) - table(other))).sum(1)"
NOT_MOVED = [
    f"other = torch.randint(N_ITEMS, (32,))  # HERE\n    {GRAPH}",
    f"other = torch.randint(0, N_ITEMS, (32,))  # HERE\n    {LOOKED_UP}",
]
MOVED = [
    f"other = N_USERS + torch.randint(N_ITEMS, (32,))\n    {GRAPH}",
    f"other = torch.randint(N_USERS, 50, (32,))\n    {LOOKED_UP}",
    # The items first.
    f"user, liked = user + N_ITEMS, liked - N_USERS\n    other = torch.randint(N_ITEMS, (32,))\n    {LOOKED_UP}",
    # Users are drawn, as many as there are.
    f"user, other = torch.randint(N_USERS, (32,)), torch.randint(N_USERS, 50, (32,))\n    {LOOKED_UP}",
    # Neighbours that are alike, and what is drawn from all is not.
    f"other = torch.randint(50, (32,))\n    {GRAPH}",
]


@pytest.mark.parametrize("drawn", NOT_MOVED)
def test_rows_that_are_drawn_as_if_their_kind_began_the_table_are_told(drawn: str, tmp_path: Path) -> None:
    assert_first_alarm(JOINED.format(drawn), "drawn_before_offset", tmp_path)


@pytest.mark.parametrize("drawn", MOVED)
def test_rows_that_are_drawn_from_their_part_of_a_table_are_right(drawn: str, tmp_path: Path) -> None:
    assert not alarms(JOINED.format(drawn), tmp_path)
