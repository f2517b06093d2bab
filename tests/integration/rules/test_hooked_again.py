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


CALLBACKS = (
    HEAD
    + """
class Callback:
    def on_start(self, trainer): pass
    def on_end(self, trainer): pass
    def on_finish(self): pass
    def extra(self): return 0.0

class Sparsity(Callback):
    def __init__(self, places):
        self.places, self.handles, self.seen = places, [], []
    def keep(self, module, given, made):
        self.seen.append(made.abs().mean())
    def on_start(self, trainer):
        for place in self.places:
            self.handles.append(trainer.model[place].register_forward_hook(self.keep))  # REGISTERED
    def extra(self):
        total = 0.01 * sum(self.seen)
        self.seen.clear()
        return total
    def on_end(self, trainer):
        LEAVE
    def on_finish(self):
        FINISH
    def detach(self):
        for each in self.handles:
            each.remove()

class Report(Callback):
    def on_end(self, trainer):
        print("an epoch has ended")

class Trainer:
    def __init__(self, callbacks):
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.callbacks = callbacks
    def fit(self):
        for epoch in range(5):
            for each in self.callbacks:
                each.on_start(self)
            for _ in range(3):
                self.step(torch.randn(16, 4))
            for each in self.callbacks:
                each.on_end(self)
        for each in self.callbacks:
            each.on_finish()
    def step(self, x):
        loss = F.mse_loss(self.model(x), x) + sum(each.extra() for each in self.callbacks)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

Trainer([Sparsity([1, 3]), Report()]).fit()
"""
)


def callbacks(leave: str, finish: str = "pass", here: str = "  # HERE") -> str:
    script = CALLBACKS.replace("LEAVE", leave).replace("FINISH", finish)
    return script.replace("  # REGISTERED", "" if here in leave else here)


@pytest.mark.parametrize(
    "script",
    [
        callbacks("self.handles.clear()  # HERE"),
        callbacks("self.handles = []  # HERE", "self.detach()"),
        callbacks("del self.handles[:]  # HERE"),
        callbacks("pass"),
        callbacks("pass", "self.detach()"),
        callbacks("pass").replace("each.on_start(self)", "getattr(each, 'on_start')(self)"),
    ],
    ids=["cleared", "replaced", "deleted", "kept", "removed at the end of all", "called by name"],
)
def test_a_callback_that_hooks_in_each_epoch_is_told_once(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "hooked_again", tmp_path)
    assert len(alarms(script, tmp_path)) == 1


@pytest.mark.parametrize(
    "leave", ["self.detach(); self.handles.clear()", "[each.remove() for each in self.handles]; self.handles = []"]
)
def test_a_callback_that_removes_its_hooks_is_right(leave: str, tmp_path: Path) -> None:
    assert not alarms(callbacks(leave, here=""), tmp_path)


GROWING = """
class Samples:
    def __init__(self, model):
        self.model, self.handles, self.count = model, [], 0
    def start(self):
        self.count += 1
        self.handles.append(self.model[0].register_forward_hook(lambda m, given, made: made * 1.0))
    def end(self):
        self.drop()
        self.handles = []
    def drop(self):
        for each in self.handles:
            each.remove()

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
head = nn.Linear(8, 4)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
samples = Samples(model)
for epoch in range(5):
    samples.start()
    x = torch.randn(16, 4)
    h = model(x)
    loss = sum(F.mse_loss(head(F.dropout(h, 0.3)), x) for _ in range(samples.count)) / samples.count
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    samples.end()
"""


def test_more_samples_in_each_epoch_beside_a_hook_that_is_removed_are_right(tmp_path: Path) -> None:
    assert not [each for each in alarms(HEAD + GROWING, tmp_path) if each.cause == "hooked_again"]


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
