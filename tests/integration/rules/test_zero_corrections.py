"""Optimizers by hand that divide by a bias correction of 0."""

from __future__ import annotations

from pathlib import Path

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
class Adam:
    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.m = [torch.zeros_like(p) for p in self.parameters]
        self.v = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self, number):
        c1, c2 = 1 - 0.9**number, 1 - 0.999**number  # HERE
        for p, m, v in zip(self.parameters, self.m, self.v):
            m.lerp_(p.grad, 0.1)
            v.lerp_(p.grad.square(), 0.001)
            p -= 0.01 * (m / c1) / ((v / c2).sqrt() + 1e-8)

model = nn.Linear(3, 1)
optimizer = Adam(model.parameters())
for number in range(5):
    x = torch.randn(8, 3)
    loss = F.mse_loss(model(x), x[:, :1])
    model.zero_grad()
    loss.backward()
    optimizer.step(NUMBER)
"""
)


def test_the_correction_of_a_step_that_has_the_number_0_is_told(tmp_path: Path) -> None:
    assert_first_alarm(SCRIPT.replace("NUMBER", "number"), "nan_from_op", tmp_path)
    (told, *_) = alarms(SCRIPT.replace("NUMBER", "number"), tmp_path)
    assert "give the first step the number 1" in (told.fix or "")


def test_the_advice_cures(tmp_path: Path) -> None:
    assert not alarms(SCRIPT.replace("NUMBER", "number + 1"), tmp_path)
