"""Greedy decoding for CTC: what is merged before, and what after the blanks are taken out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm

SCRIPT = """
import torch
from itertools import groupby
from torch import nn
torch.manual_seed(0)
BLANK = 0
def decode(path):
DECODE
model = nn.Linear(6, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
labels, lengths = torch.tensor([[1, 2, 2], [3, 1, 1]]), torch.tensor([12, 12])
x = torch.randn(12, 2, 6)
for step in range(6):
    scores = model(x).log_softmax(2)
    loss = nn.functional.ctc_loss(scores, labels, lengths, torch.tensor([3, 3]), blank=BLANK)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([decode(scores[:, n].argmax(1)) for n in range(2)])
"""

WRONG = {
    "a comprehension over its neighbours": """
    path = [p for p in path.tolist() if p != BLANK]  # HERE
    return [p for i, p in enumerate(path) if i == 0 or p != path[i - 1]]
""",
    "unique_consecutive": """
    path = path[path != BLANK]  # HERE
    return torch.unique_consecutive(path).tolist()
""",
    "one line": """
    path = path.tolist()
    return [p for p, _ in groupby([p for p in path if p != BLANK])]  # HERE
""",
    "the last one that was kept": """
    kept = []
    for p in path.tolist():  # HERE
        if p != BLANK and (not kept or p != kept[-1]):
            kept.append(p)
    return kept
""",
    "a last one that blanks do not change": """
    kept, last = [], None
    for p in path.tolist():  # HERE
        if p != BLANK and p != last:
            kept.append(p)
            last = p
    return kept
""",
}

HEALTHY = {
    "merged first": """
    return [p for p, _ in groupby(path.tolist()) if p != BLANK]
""",
    "merged tensors first": """
    path = torch.unique_consecutive(path)
    path = path[path != BLANK]
    return path.tolist()
""",
    "the last one of the path": """
    kept, last = [], None
    for p in path.tolist():
        if p != BLANK and p != last:
            kept.append(p)
        last = p
    return kept
""",
    "neighbours of the path": """
    path = path.tolist()
    merged = [p for i, p in enumerate(path) if i == 0 or p != path[i - 1]]
    merged = [p for p in merged if p != BLANK]
    return merged
""",
}


def _script(decode: str) -> str:
    return SCRIPT.replace("DECODE", decode.strip("\n"))


@pytest.mark.parametrize("shape", list(WRONG))
def test_repeats_that_are_merged_without_blanks_are_told(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(WRONG[shape]), "blanks_removed_first", tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_repeats_of_the_whole_path_raise_no_alarm(look: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(_script(HEALTHY[look]), tmp_path)] == []
