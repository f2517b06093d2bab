"""A state that is kept, and the model that is scored at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
import io
x, y = torch.randn(60, 5), torch.randint(0, 2, (60,))
def make():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
@torch.no_grad()
def score(net):
    return (net(x[40:]).argmax(1) == y[40:]).float().mean().item()
model = make()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
best, state, file = -1.0, None, io.BytesIO()
for epoch in range(4):
    loss = F.cross_entropy(model(x[:40]), y[:40])
"""
    + TRAIN
    + """
    if score(model) > best:
        best, state = score(model), copy.deepcopy(model.state_dict())
torch.save(state, file)
file.seek(0)
"""
)
FAULTY = {
    "of a file": """
best_model = make()
best_model.load_state_dict(torch.load(file))
print(score(model))  # HERE
""",
    "in a function": """
def report():
    loaded = make()
    loaded.load_state_dict(state)
    loaded.eval()
    print(best, score(model))  # HERE
report()
""",
}
HEALTHY = {
    "a file of the last state is read again": """
torch.save(model.state_dict(), last := io.BytesIO())
last.seek(0)
again = make()
again.load_state_dict(torch.load(last))
print(score(model))
""",
    "the loaded one is scored": """
best_model = make()
best_model.load_state_dict(torch.load(file))
print(score(best_model))
""",
    "both are scored": """
best_model = make()
best_model.load_state_dict(torch.load(file))
print(score(model), score(best_model))
""",
    "loaded into the model": """
model.load_state_dict(torch.load(file))
print(score(model))
""",
    "loaded at the end": """
print(score(model))
best_model = make()
best_model.load_state_dict(torch.load(file))
""",
    "a target that follows": """
target = make()
for step in range(3):
    target.load_state_dict(model.state_dict())
    with torch.no_grad():
        wanted = target(x[:40]).softmax(1)
    loss = F.cross_entropy(model(x[:40]), wanted)
"""
    + TRAIN
    + """
target.load_state_dict(model.state_dict())
print(score(model))
""",
    "compared with the one that was saved": """
again = make()
again.load_state_dict(torch.load(file))
print(all(torch.equal(p, q) for p, q in zip(again.parameters(), model.parameters())), score(model))
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_state_that_is_loaded_in_vain_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(START + FAULTY[name], "loaded_and_other_scored", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_scores_at_the_end_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(START + HEALTHY[name], tmp_path)
