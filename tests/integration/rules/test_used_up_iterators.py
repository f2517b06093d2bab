"""Loops over iterators that something has gone over before."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.check.report import check_report
from gradviz.analysis.rules import RULES
from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, recorded

NET = """
import itertools
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
old = copy.deepcopy(net).requires_grad_(False)
def batch():
    return torch.randn(32, 8), torch.randint(3, (32,))
"""
START = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x, y = batch()
    loss = F.cross_entropy(net(x), y)
"""
OF_PARAMS = START.replace("net.parameters()", "params")
DECAY = "    loss = loss + 0.01 * sum(w.square().sum() for w in params)\n"
CHANGED = TRAIN.replace("optimizer.step()\n", "for p in params:\n        p.grad.clamp_(-1, 1)\n    optimizer.step()\n")
EPOCHS = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(TIMES):
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
"""
SPLIT = "xs, ys = batch()\nbatches = zip(xs.split(8), ys.split(8))"
PENALTY = """
def penalty():
    total = 0.0
    for w in params:
        total = total + w.abs().sum()
    return total
"""
IMPORTANCE = """
def penalty():
    return sum((f * (p - a) ** 2).sum() for p, a, f in terms)
terms = zip(net.parameters(), old.parameters(), map(torch.ones_like, old.parameters()))  # HERE
"""
EMA = """
class Ema:
    def __init__(self, params, decay):
        self.params, self.decay = params, decay  # HERE
        self.shadow = [p.detach().clone() for p in params]

    def update(self):
        for s, p in zip(self.shadow, self.params):
            s.mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)

ema = Ema(net.parameters(), 0.9)
"""
AVERAGE = "    with torch.no_grad():\n        for a, b in pairs:\n            a.lerp_(b, 0.1)\n"
FROZEN = """
params = net[0].parameters()  # HERE
print(sum(p.numel() for p in params))
for p in params:
    p.requires_grad = False
"""
GROUPS = """
named = net.named_parameters()  # HERE
decayed = [p for n, p in named if n.endswith('weight')]
params = decayed + [p for n, p in named if n.endswith('bias')]
"""
FIT = """
def fit(params):
    optimizer = torch.optim.SGD(params, lr=0.1)
    for step in range(4):
        x, y = batch()
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
fit(net.parameters())  # HERE
"""
YIELDED = """
def trainable():
    for p in net.parameters():
        if p.dim() > 1:
            yield p
params = trainable()  # HERE
"""
FAULTY = (
    # A penalty that is zero from the second step on.
    f"params = net.parameters()  # HERE\n{START}{DECAY}{TRAIN}",
    f"{PENALTY}\nparams = (p for p in net.parameters() if p.dim() > 1)  # HERE\n{START}    loss += penalty()\n{TRAIN}",
    f"{IMPORTANCE}{START}    loss = loss + penalty()\n{TRAIN}",
    # A moving average that stands still.
    f"pairs = zip(old.parameters(), net.parameters())  # HERE\n{START}{TRAIN}{AVERAGE}",
    f"{EMA}{START}{TRAIN}    ema.update()\n",
    # Layers that stay trainable, groups without parameters, gradients that nothing limits, later epochs.
    f"{FROZEN}{START}{TRAIN}",
    f"{GROUPS}{OF_PARAMS}{TRAIN}",
    f"params = filter(lambda p: p.requires_grad, net.parameters())  # HERE\n{OF_PARAMS}{CHANGED}",
    f"{SPLIT}  # HERE\n{EPOCHS.replace('TIMES', '3')}",
    # A function gives the iterator.
    f"{YIELDED}{START}{CHANGED}",
)
PLAIN = """
class Plain:
    def __init__(self):
        self.weights = [(0.1 * torch.randn(8, 3)).requires_grad_()]

    def parameters(self):
        return self.weights

    def __call__(self, x):
        return x @ self.weights[0]

net = Plain()
params = net.parameters()
"""
STREAM = """
def stream():
    for _ in range(99):
        yield batch()
data = stream()
"""
CYCLE = "xs, ys = batch()\ndata = zip(itertools.cycle(xs.split(8)), itertools.cycle(ys.split(8)))\n"
SOME = EPOCHS.replace("TIMES", "3").replace("x, y in batches", "_, (x, y) in zip(range(4), data)")
HEALTHY = (
    f"params = list(net.parameters())\n{START}{DECAY}{TRAIN}",
    # Made anew for each use.
    f"{START}    params = net.parameters()\n{DECAY}{TRAIN}",
    f"{SPLIT}\n{EPOCHS.replace('TIMES', '3')}    batches = zip(xs.split(8), ys.split(8))\n",
    # Used once: by the optimizer, in one epoch, in the first step.
    f"params = net.parameters()\n{OF_PARAMS}{TRAIN}",
    f"{SPLIT}\n{EPOCHS.replace('TIMES', '1')}",
    f"params = net.parameters()\n{START}    if step == 0:\n    {DECAY}{TRAIN}",
    # A stream that is read part by part, and one that never ends.
    f"{STREAM}{SOME}",
    f"{CYCLE}{SOME}",
    # A method that gives a list, and a count that is only printed.
    f"{PLAIN}{OF_PARAMS}{DECAY}{TRAIN}",
    f"params = net.parameters()\n{OF_PARAMS}{TRAIN}print(sum(p.numel() for p in params))\n",
)


@pytest.mark.parametrize("script", FAULTY)
def test_loop_over_nothing_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(f"{HEAD}{NET}{script}", "iterator_used_up", tmp_path)


@pytest.mark.filterwarnings("ignore:.*empty generator:UserWarning")
def test_clipping_of_an_argument_that_the_optimizer_has_used_up(tmp_path: Path) -> None:
    assert_first_alarm(f"{HEAD}{NET}{FIT}", "clip_misplaced", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_iterators_that_are_used_once_are_left_alone(script: str, tmp_path: Path) -> None:
    assert alarms(f"{HEAD}{NET}{script}", tmp_path) == []


TEXT = "\n".join(f"don't (read {number}" for number in range(2_000))
SHORT = "\n".join(f"don't (read {number}" for number in range(60))
SPACE = "\n" * 12
FAR_APART = f"{HEAD}start = torch.zeros(1)\n{SPACE}TEXT = '''\n%s\n'''\n{NET}{START}{TRAIN}"


def test_a_file_that_is_recorded_in_parts_is_said_not_to_be_read(tmp_path: Path) -> None:
    (unseen,) = check_report(recorded(FAR_APART % TEXT, tmp_path), RULES).disclosures
    assert unseen.startswith("the lines of train.py far from those that ran")
    assert not check_report(recorded(FAR_APART % SHORT, tmp_path), RULES).disclosures
