"""Schedules of learning rates in other spellings: counted by hand, handed over, of two factors; and an average of a
model that gets its weights from one vector."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

_WAVE = """
import math
class Trainer:
    def __init__(self, batches, every):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.every, self.updates, self.clock = every, batches // every, 0
    def rate(self):
        return 0.0005 + 0.05 * (1 + math.cos(math.pi * self.clock / self.updates))
    def batch(self):
        (self.model(torch.randn(8, 4)).square().mean() / self.every).backward()
        {batch}
    def update(self):
        self.optimizer.param_groups[0]["lr"] = self.rate()
        self.optimizer.step()
        self.optimizer.zero_grad()
        {update}
trainer = Trainer(120, 4)
for index in range(120):
    trainer.batch()
    if index % 4 == 3:
        trainer.update()
"""

_HANDED = """
import math
class Cosine:
    def __init__(self, optimizer, length):
        self.optimizer, self.length, self.tick = optimizer, length, 0
        self.apply()
    def apply(self):
        for group in self.optimizer.param_groups:
            group["lr"] = 0.05 * (1 + math.cos(math.pi * min(self.tick / self.length, 1)))
    def advance(self):
        self.tick += {count}
        self.apply()
class Loop:
    def __init__(self):
        self.calls = {{"batch": [], "epoch": []}}
    def on(self, when, call):
        self.calls[when].append(call)
    def run(self, batches, epochs):
        for epoch in range(epochs):
            for x in batches:
                loss = model(x).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for call in self.calls["batch"]:
                    call()
            for call in self.calls["epoch"]:
                call()
batches, epochs = torch.randn(48, 4).split(8), 4
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = Cosine(optimizer, {length})
loop = Loop()
loop.on({when}, schedule.advance){mark}
loop.run(batches, epochs)
"""

_LINEAR = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr={rate})
warm = torch.optim.lr_scheduler.LinearLR(optimizer, {factors}, total_iters=4)
{made}
for step in range(8):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {schedule}.step()
"""
_SEQUENCE = (
    "both = torch.optim.lr_scheduler.SequentialLR(optimizer, "
    "[warm, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)], [4])"
)

_AVERAGE = """
from torch.nn.utils import parameters_to_vector, vector_to_parameters
model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
average = copy.deepcopy(model).eval().requires_grad_(False)
flat = parameters_to_vector(average.parameters()).clone()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(16, 4) + 3
    loss = (model(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        flat.lerp_(parameters_to_vector(model.parameters()), 0.1)
        {follow}
        print(average(x).mean().item())
"""
_BY_DATA = (
    "for mine, own in zip(average.parameters(), model.parameters()): mine.data = 0.9 * mine.data + 0.1 * own.data"
)
_BUFFERS = "\n        for mine, own in zip(average.buffers(), model.buffers()): mine.copy_(own)"

_NOAM = """
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr={rate})
def factor(step):
    step = max(step, 1)
    return {width}**-0.5 * min(step**-0.5, step * 4**-1.5)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, {function})
for step in range(12):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
"""

_HELD = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = {total}
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: {factor})
for epoch in range(6):
    for x in torch.randn(40, 4).split(8):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    schedule.step(){mark}
"""

FAULTS = {
    "a function that holds the number of all steps": (
        "schedule_counts_batches",
        _HELD.format(total=30, factor="1 - n / total", mark="  # HERE"),
    ),
    "a formula for the rate itself": (
        "rate_multiplied_twice",
        _NOAM.format(rate=1e-3, width=512, function="factor").replace("factor)\nfor", "factor)  # HERE\nfor"),
    ),
    "a clock of batches over a number of updates": (
        "schedule_repeats",
        _WAVE.format(batch="self.clock += 1  # HERE", update="pass"),
    ),
    "a schedule of batches that is handed over for epochs": (
        "schedule_counts_batches",
        _HANDED.format(count="1", length="epochs * len(batches)", when='"epoch"', mark="  # HERE"),
    ),
    "a warm-up from rate to rate": (
        "rate_multiplied_twice",
        _LINEAR.format(rate=0.05, factors="0.005, 0.05", made="", schedule="warm").replace("s=4)", "s=4)  # HERE"),
    ),
    "a warm-up from rate to rate, before a cosine": (
        "rate_multiplied_twice",
        _LINEAR.format(
            rate=0.05, factors="start_factor=0.001, end_factor=0.05", made=_SEQUENCE, schedule="both"
        ).replace("s=4)", "s=4)  # HERE"),
    ),
    "an average whose weights come from one vector": (
        "statistics_never_updated",
        _AVERAGE.format(follow="vector_to_parameters(flat, average.parameters())  # HERE"),
    ),
    "an average whose weights are new data": (
        "statistics_never_updated",
        _AVERAGE.format(follow=_BY_DATA + "  # HERE"),
    ),
}

_POPULATION = """
class Member:
    def __init__(self, lr):
        self.net, self.lr, self.score = nn.Linear(4, 1), lr, 1e9
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr)
    def train(self, steps=6):
        for _ in range(steps):
            x = torch.randn(16, 4)
            loss = F.mse_loss(self.net(x), x[:, :1])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.score = loss.item()
    def exploit(self, other):
        self.net.load_state_dict(other.net.state_dict())
        self.optimizer.load_state_dict(copy.deepcopy(other.optimizer.state_dict()))
        self.lr = other.lr * 0.8
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr
members = [Member(lr) for lr in (1e-4, 1e-3, 1e-2)]
for generation in range(4):
    for member in members:
        member.train()
    members.sort(key=lambda member: member.score)
    members[-1].exploit(members[0])
"""
HEALTHY = {
    "a function that holds the number of epochs": _HELD.format(total=6, factor="1 - n / total", mark=""),
    "a function for a longer training": _HELD.format(total=300, factor="1 - n / total", mark=""),
    "a function whose half-life is as long as the training": _HELD.format(
        total=30, factor="0.5 ** (n / total)", mark=""
    ),
    "rates that members of a population take from each other": _POPULATION,
    "a formula for the rate, of an optimizer that has 1": _NOAM.format(rate=1.0, width=512, function="factor"),
    "a formula divided by its highest value": _NOAM.format(
        rate=1e-3, width=512, function="lambda step: factor(step) / factor(4)"
    ),
    "a warm-up that has not ended": _NOAM.format(rate=1e-3, width=512, function="lambda step: step / 1000"),
    "a clock of updates": _WAVE.format(batch="pass", update="self.clock += 1"),
    "a schedule of batches that is handed over for batches": _HANDED.format(
        count="1", length="epochs * len(batches)", when='"batch"', mark=""
    ),
    "a schedule of epochs that is handed over for epochs": _HANDED.format(
        count="1", length="epochs", when='"epoch"', mark=""
    ),
    "a schedule that counts all batches of an epoch": _HANDED.format(
        count="len(batches)", length="epochs * len(batches)", when='"epoch"', mark=""
    ),
    "a warm-up of factors": _LINEAR.format(rate=0.05, factors="0.1, 1.0", made=_SEQUENCE, schedule="both"),
    "a warm-up whose first factor is the rate": _LINEAR.format(rate=0.1, factors="0.1", made="", schedule="warm"),
    "a decay to a tenth": _LINEAR.format(rate=0.1, factors="1.0, 0.1", made="", schedule="warm"),
    "an average that gets the statistics, too": _AVERAGE.format(
        follow="vector_to_parameters(flat, average.parameters())" + _BUFFERS
    ),
}


@pytest.mark.parametrize(("cause", "script"), FAULTS.values(), ids=FAULTS)
def test_fault(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_healthy(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []
