"""What a likelihood takes for a variance, though the line that made it calls it a standard deviation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread = nn.Linear(4, 1), nn.Linear(4, 1)
    def forward(self, x):
        NAME = F.softplus(self.spread(x)) + 1e-3
        return self.mean(x).squeeze(1), NAME.squeeze(1)
model, criterion = Model(), nn.GaussianNLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(16, 4)
    mean, spread = model(x)
    loss = criterion(mean, x.sum(1), GIVEN)  # HERE
"""


@pytest.mark.parametrize("name", ["sigma", "std"])
def test_a_deviation_by_the_name_of_its_line_is_told(name: str, tmp_path: Path) -> None:
    script = SCRIPT.replace("NAME", name).replace("GIVEN", "spread")
    assert_first_alarm(HEAD + script + TRAIN, "argument_out_of_range", tmp_path)


@pytest.mark.parametrize(("name", "given"), [("sigma", "spread.square()"), ("variance", "spread"), ("out", "spread")])
def test_a_variance_is_right(name: str, given: str, tmp_path: Path) -> None:
    script = SCRIPT.replace("NAME", name).replace("GIVEN", given)
    assert not alarms(HEAD + script + TRAIN, tmp_path)
