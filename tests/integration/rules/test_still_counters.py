"""Counters of steps that keep their first value, and numbers that only look like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

TRAINING = """
net = nn.Linear(4, 2)
{before}
for batch in range(5):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    {first}
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {last}
"""
SGD = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)"
RATE = "for group in optimizer.param_groups:\n        group['lr'] = 0.1 * min(1, (step + 1) / 50)"
OWN = """
class Own(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {{"lr": 0.01}})
        {at_first}

    @torch.no_grad()
    def step(self):
        {at_step}
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["t"], state["mean"] = 0, torch.zeros_like(p)
                {for_each}
            state["mean"].mul_(0.9).add_(p.grad, alpha=0.1)
            {count}
            p.sub_(0.01 * {corrected})

optimizer = Own(net.parameters())
"""
PLAIN = {"at_first": "pass", "at_step": "pass", "for_each": "pass", "count": "pass"}
BY_ATTRIBUTE = PLAIN | {"corrected": "state['mean'] / (1 - 0.9 ** (self.t + 1))"}
BY_STATE = PLAIN | {"corrected": "state['mean'] / (1 - 0.9 ** state['n'])"}
TENSOR = {"for_each": "state['n'] = torch.ones(())"}
LERP = "mul_(0.9).add_(p.grad, alpha=0.1)", "lerp_(p.grad, 0.1)"


def script(before: str = SGD, first: str = "pass", last: str = "pass") -> str:
    return HEAD + TRAINING.format(before=before, first=first, last=last)


FAULTY = (
    script(before=f"{SGD}\nglobal_step = 0  # HERE", first="if global_step % 2 == 0: net.weight.data.mul_(0.99)"),
    script(before=f"{SGD}\nstep = 0  # HERE", first=RATE),
    script(before=OWN.format(**BY_STATE | {"for_each": "state['n'] = 1  # HERE"})),
    script(before=OWN.format(**BY_ATTRIBUTE | {"at_first": "self.count = 0  # HERE"}).replace("self.t", "self.count")),
    # Counters that are tensors, and averages in other words.
    script(before=OWN.format(**BY_STATE | TENSOR | {"count": "state['n'].add(1)  # HERE"})),
    script(before=OWN.format(**BY_STATE | TENSOR | {"count": "torch._foreach_add([state['n']], 1)  # HERE"})),
    script(before=OWN.format(**BY_STATE | {"for_each": "state['n'] = torch.ones(())  # HERE"}).replace(*LERP)),
    script(before=f"{SGD}\nsteps = torch.ones(())", first=RATE.replace("step + 1", "steps"), last="steps + 1  # HERE"),
)
KEPT = """
import dataclasses
from typing import NamedTuple
class Progress(NamedTuple):
    step: int = 0
class Run:
    def __init__(self):
        self.progress, self.count = Progress(), 0
    def factor(self):
        return 0.1 * min(1.0, (self.progress.step + self.count + 1) / 50)
    def advance(self, net):
        size = net.weight.detach().norm()
        {count}
        return size
run = Run()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
SET = "for group in optimizer.param_groups:\n        group['lr'] = run.factor()"


def kept(count: str) -> str:
    return script(before=KEPT.format(count=count), first=SET, last="run.advance(net)")


LOST = (
    kept("self.progress._replace(step=self.progress.step + 1)  # HERE"),
    kept("self.count + 1  # HERE"),
    kept("count = self.count\n        count += 1  # HERE"),
    kept("dataclasses.replace(self.progress, step=self.progress.step + 1)  # HERE").replace(
        "class Progress(NamedTuple)", "@dataclasses.dataclass\nclass Progress"
    ),
    script(before=f"{SGD}\nstep = 0", first=RATE, last="step =+ 1  # HERE"),
)
STEPS_ON = (
    kept("self.progress = self.progress._replace(step=self.progress.step + 1)"),
    kept("self.count = self.count + 1"),
    kept("count = self.count\n        count += 1\n        self.count = count"),
    kept("first = +1\n        self.count += first"),
    kept("name = 'a'\n        name.replace('a', 'b')\n        self.count += 1"),
    script(before=f"{SGD}\nsign = -1", first="sign = +1"),
)


@pytest.mark.parametrize("text", LOST)
def test_a_count_that_is_not_kept_is_told_where_it_is_lost(text: str, tmp_path: Path) -> None:
    assert_first_alarm(text, "counter_never_advances", tmp_path)


@pytest.mark.parametrize("text", STEPS_ON)
def test_counts_that_are_kept_raise_no_alarm(text: str, tmp_path: Path) -> None:
    assert "counter_never_advances" not in {each.cause for each in alarms(text, tmp_path)}


HEALTHY = (
    script(before=f"{SGD}\nstep = 0", first=RATE, last="step += 1"),
    script(before=OWN.format(**BY_STATE | {"for_each": "state['n'] = 0", "count": "state['n'] += 1"})),
    script(before=OWN.format(**BY_ATTRIBUTE | {"at_first": "self.t = -1", "at_step": "self.t = self.t + 1"})),
    # No counter: a temperature, an offset, what is only shown, and what another object counts.
    script(before=f"{SGD}\nt, start = 1, 0", first="x = x / t + start"),
    script(before=f"{SGD}\nstep = 0", first="print(f'step {step}')"),
    script(before=OWN.format(**BY_ATTRIBUTE | {"at_first": "self.t = 0"}), last="optimizer.t += 1"),
    script(before=OWN.format(**BY_STATE | TENSOR | {"count": "state['n'].add_(1)"}).replace(*LERP)),
    script(before=OWN.format(**BY_STATE | TENSOR | {"count": "torch._foreach_add_([state['n']], 1)"})),
    script(before=f"{SGD}\nsteps = torch.ones(())", first=RATE.replace("step", "steps"), last="steps = steps + 1"),
    script(before=f"{SGD}\none = torch.ones(())", first="x = x * one", last="print(one + 1)"),
    # A momentum that is meant as a sum.
    script(before=OWN.format(**PLAIN | {"corrected": "state['mean'] / 0.2"})),
)


@pytest.mark.parametrize("text", FAULTY)
def test_a_counter_that_never_counts_is_told_where_it_begins(text: str, tmp_path: Path) -> None:
    assert_first_alarm(text, "counter_never_advances", tmp_path)


@pytest.mark.parametrize("text", HEALTHY)
def test_what_counts_and_what_is_no_counter_raise_no_alarm(text: str, tmp_path: Path) -> None:
    assert "counter_never_advances" not in {each.cause for each in alarms(text, tmp_path)}
