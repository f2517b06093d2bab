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

BY_HAND = """
class Own:
    def __init__(self, parameters):
        self.parameters, self.count = list(parameters), 0
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.counts = [0 for _ in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        {before}
        for index, (p, mean) in enumerate(zip(self.parameters, self.means)):
            {count}
            mean.{average}
            {move}

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = Own(model.parameters())
for step in range(5):
    loss = model(torch.randn(8, 4)).square().mean()
"""
MUL, LERP = "mul_(0.9).add_(p.grad, alpha=0.1)", "lerp_(p.grad, 0.1)"
DIVIDED = "p.sub_(0.01 * (mean / (1 - 0.9 ** {count})))"
WRONG_BY_HAND = {
    "divided before it is subtracted": BY_HAND.format(
        before="", count="self.count += 1  # HERE", average=MUL, move=DIVIDED.format(count="self.count")
    ),
    "a number of its own": BY_HAND.format(
        before="", count="self.count = self.count + 1  # HERE", average=LERP,
        move="scale = 1 / (1 - 0.9 ** self.count)\n            p.copy_(p - mean.mul(scale) * 0.01)",
    ),
    "by the data of the parameter": BY_HAND.format(
        before="", count="self.count += 1  # HERE", average=MUL,
        move="corrected = mean.div(1 - 0.9 ** self.count)\n            p.data.add_(corrected, alpha=-0.01)",
    ),
}  # fmt: skip
RIGHT_BY_HAND = {
    "counted before the loop": BY_HAND.format(
        before="self.count += 1", count="", average=MUL, move=DIVIDED.format(count="self.count")
    ),
    "a counter for each parameter": BY_HAND.format(
        before="", count="self.counts[index] += 1", average=MUL, move=DIVIDED.format(count="self.counts[index]")
    ),
    "a rate for each layer": BY_HAND.format(before="", count="", average=LERP, move="p.sub_(0.01 * 0.9**index * mean)"),
}


@pytest.mark.parametrize("name", WRONG_BY_HAND)
def test_a_counter_of_steps_by_hand_that_rises_with_each_parameter_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WRONG_BY_HAND[name] + TRAIN, "counted_by_parameter", tmp_path)


@pytest.mark.parametrize("name", RIGHT_BY_HAND)
def test_counters_of_steps_by_hand_are_right(name: str, tmp_path: Path) -> None:
    assert alarms(HEAD + RIGHT_BY_HAND[name] + TRAIN, tmp_path) == []


@pytest.mark.parametrize("script", WRONG)
def test_a_counter_that_rises_with_each_parameter_is_told(script: str, tmp_path: Path) -> None:
    # The counter of each parameter in its state is another line that adds 1.
    script = script.replace('            state["steps"] += 1\n', "")
    assert_first_alarm(HEAD + script + TRAIN, "counted_by_parameter", tmp_path)


@pytest.mark.parametrize("script", RIGHT)
def test_counters_of_steps_and_rates_of_layers_are_right(script: str, tmp_path: Path) -> None:
    assert "counted_by_parameter" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}
