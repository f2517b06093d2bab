"""Ids of tokens that are stored in two bytes each, and vocabularies that do not fit into them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
import numpy as np
import os, tempfile
vocabulary = {vocabulary}
tokens = np.random.default_rng(0).integers(0, vocabulary, 2000)
path = os.path.join(tempfile.mkdtemp(), "train.bin")
{stored}
embed, head = nn.Embedding(vocabulary, 2), nn.Linear(2, 5)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    rows = [data[i : i + 17].astype(np.int64) for i in torch.randint(0, 1900, (20,)).tolist()]
    ids = torch.stack([torch.from_numpy(row) for row in rows])
    loss = F.cross_entropy(head(embed(ids[:, :-1])).flatten(0, 1), ids[:, 1:].flatten() % 5)
"""
)
FILE = "tokens.astype(np.{0}).tofile(path){1}\ndata = np.memmap(path, dtype=np.{0}, mode='r')"
FAULTY = {
    "a file": FILE.format("uint16", "  # HERE"),
    "an array": "data = np.array(tokens.astype('uint16'))  # HERE",
    "converted as it is made": "data = np.asarray(tokens).astype(dtype=np.uint16)  # HERE",
}
HEALTHY = {
    "four bytes": (90_000, FILE.format("uint32", "")),
    "a vocabulary that fits": (65_000, FILE.format("uint16", "")),
    "rounded up": (66_048, "data = (tokens % 65_500).astype(np.uint16)"),
    "room for more, and two bytes for something else": (
        90_000, "data, image = tokens % 42_000, (4000 * np.ones((4, 4))).astype(np.uint16)",
    ),
    "two bytes for something else": (90_000, "data, image = tokens, np.zeros((4, 4)).astype(np.uint16)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_ids_that_do_not_fit_are_told(name: str, tmp_path: Path) -> None:
    script = PROGRAM.format(vocabulary=90_000, stored=FAULTY[name]) + TRAIN
    assert_first_alarm(script, "ids_in_two_bytes", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_ids_that_fit_are_left_alone(name: str, tmp_path: Path) -> None:
    vocabulary, stored = HEALTHY[name]
    assert not alarms(PROGRAM.format(vocabulary=vocabulary, stored=stored) + TRAIN, tmp_path)
