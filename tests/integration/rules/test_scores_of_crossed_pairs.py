"""Scores of an evaluation that compare each prediction with the targets of all samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
x, held_out = torch.randn(40, 5), torch.randn(30, 5)
y, y_held_out = (x.sum(1) > 0).float(), (held_out.sum(1) > 0).float()
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    loss = F.binary_cross_entropy_with_logits(model(x), y[:, None])
"""
    + TRAIN
)
CLASSES = (
    HEAD
    + """
x, held_out = torch.randn(40, 5), torch.randn(30, 5)
y, y_held_out = x.argmax(1), held_out.argmax(1)
model = nn.Linear(5, 5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    loss = F.cross_entropy(model(x), y)
"""
    + TRAIN
)
FAULTY = {
    "rounded probabilities": START
    + """
    with torch.no_grad():
        found = model(held_out).sigmoid().round()
    print((found == y_held_out).float().mean().item())  # HERE
""",
    "the kept axis of argmax": CLASSES
    + """
    with torch.no_grad():
        found = model(held_out).argmax(dim=1, keepdim=True)
        right = found.eq(y_held_out).sum().item()  # HERE
    print(right / 30)
""",
    "an error": "import warnings\n"
    + START
    + """
    warnings.simplefilter("ignore")
    with torch.inference_mode():
        print(F.l1_loss(model(held_out), y_held_out).item())  # HERE
""",
    "an error by hand": START
    + """
    @torch.no_grad()
    def error():
        return ((model(held_out) - y_held_out) ** 2).mean().sqrt()  # HERE
    print(error().item())
""",
    "the accuracy of a training step": START
    + """
    answers = model(x)
    print(((answers > 0) == y.bool()).sum().item())  # HERE
""",
}
HEALTHY = {
    "squeezed": START
    + """
    with torch.no_grad():
        found = model(held_out).sigmoid().round().squeeze(1)
    print((found == y_held_out).float().mean().item())
""",
    "viewed as the other": CLASSES
    + """
    with torch.no_grad():
        found = model(held_out).argmax(dim=1, keepdim=True)
        right = found.eq(y_held_out.view_as(found)).sum().item()
    print(right / 30)
""",
    "each prediction with each class": CLASSES
    + """
    with torch.no_grad():
        found = model(held_out).argmax(dim=1)
    hits = found[:, None] == y_held_out
    print(hits.float().mean().item())
""",
    "pairs of one class": CLASSES
    + """
    with torch.no_grad():
        distance = torch.cdist(model(held_out), model(held_out))
    column = y_held_out.reshape(-1, 1)
    same = column == y_held_out
    print(distance[same].mean().item(), same.float().mean().item())
""",
    "a table of how often": CLASSES
    + """
    with torch.no_grad():
        found = model(held_out).argmax(dim=1, keepdim=True)
    agree = (found == y_held_out).float()
    print(agree.mean(0), agree.mean(1))
""",
    "the mean difference": START
    + """
    with torch.no_grad():
        print((model(held_out) - y_held_out).mean().item())
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_score_of_all_combinations_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "broadcast_mismatch", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_scores_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
