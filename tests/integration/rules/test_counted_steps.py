"""Optimizers of the program's own that count their steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

OWN = """
class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {{"lr": 0.01}})
        self.count = 0

    @torch.no_grad()
    def step(self):
        {before}
        for index, p in enumerate(self.param_groups[0]["params"]):
            {count}
            state = self.state[p]
            if not state:
                state["mean"], state["square"], state["steps"] = torch.zeros_like(p), torch.zeros_like(p), 0
            state["steps"] += 1
            state["mean"].mul_(0.9).add_(p.grad, alpha=0.1)
            state["square"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
            {move}

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = Own(model.parameters())
for step in range(5):
    loss = model(torch.randn(8, 4)).square().mean()
"""
CORRECTED = "mean = state['mean'] / (1 - 0.9 ** self.count)\n            p.add_(mean, alpha=-0.01)"
IN_ONE = "p.addcdiv_(state['mean'], state['square'].sqrt() + 1e-8, value=-0.01 / (1 - 0.9 ** {count}))"
WRONG = (
    OWN.format(before="", count="self.count += 1  # HERE", move=CORRECTED),
    OWN.format(before="", count="self.count = self.count + 1  # HERE", move=IN_ONE.format(count="self.count")),
)
RIGHT = (
    OWN.format(before="self.count += 1", count="", move=CORRECTED),
    OWN.format(before="", count="", move=IN_ONE.format(count="state['steps']")),
    OWN.format(before="", count="", move="p.add_(state['mean'], alpha=-0.01 * 0.9**index)"),
)


@pytest.mark.parametrize("script", WRONG)
def test_a_counter_that_rises_with_each_parameter_is_told(script: str, tmp_path: Path) -> None:
    # The counter of each parameter in its state is another line that adds 1.
    script = script.replace('            state["steps"] += 1\n', "")
    assert_first_alarm(HEAD + script + TRAIN, "counted_by_parameter", tmp_path)


@pytest.mark.parametrize("script", RIGHT)
def test_counters_of_steps_and_rates_of_layers_are_right(script: str, tmp_path: Path) -> None:
    assert "counted_by_parameter" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}
