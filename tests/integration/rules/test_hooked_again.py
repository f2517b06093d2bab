"""Forward hooks that are registered in each round, and a penalty on what they keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CLASSES = (
    HEAD
    + """
class Keeper:
    def __init__(self):
        self.kept = []

    def attach(self, module):
        return module.register_forward_hook(lambda m, given, made: self.kept.append(made))

    def penalty(self):
        total = sum(each.abs().mean() for each in self.kept)
        self.kept.clear()
        return total

class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.keeper = Keeper()
        ONCE

    def epoch(self):
        EACH
        for _ in range(3):
            x = torch.randn(16, 4)
            loss = F.mse_loss(self.model(x), x) + 0.01 * self.keeper.penalty()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        END

trainer = Trainer()
for epoch in range(4):
    trainer.epoch()
"""
)
ATTACH = "self.keeper.attach(self.model[1])"


def of(once: str, each: str, end: str = "pass") -> str:
    return CLASSES.replace("ONCE", once).replace("EACH", each).replace("END", end)


PLAIN = (
    HEAD
    + """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    kept = {}
    for i, layer in enumerate(model):
        layer.register_forward_hook(lambda m, given, made, i=i: LAMBDA)  # HERE
    x = torch.randn(16, 4)
    made = model(x)
    loss = F.mse_loss(made, x) + 0.01 * sum(each.square().mean() for each in TERMS)
"""
    + TRAIN
)


def test_a_hook_of_each_epoch_is_told(tmp_path: Path) -> None:
    assert_first_alarm(of("pass", ATTACH + "  # HERE"), "hooked_again", tmp_path)


def test_hooks_on_all_layers_in_each_round_are_told(tmp_path: Path) -> None:
    script = PLAIN.replace("LAMBDA", "kept.setdefault(i, []).append(made)")
    assert_first_alarm(script.replace("TERMS", "sum(kept.values(), [])"), "hooked_again", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        of(ATTACH, "pass"),
        of("pass", f"handle = {ATTACH}", "handle.remove()"),
        PLAIN.replace("LAMBDA", "kept.update({i: made})").replace("TERMS", "kept.values()").replace("  # HERE", ""),
    ],
    ids=["once", "removed again", "kept once"],
)
def test_hooks_whose_results_count_once_are_right(script: str, tmp_path: Path) -> None:
    assert not alarms(script, tmp_path)
