"""Steps by hand that go up the gradient, and learning rates that are set where no step reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, findings

BY_HAND = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
momentum = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
for step in range(4):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    loss = {loss}
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for name, p in model.named_parameters():
            {step}
"""
ON_LISTS = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
weights = list(model.parameters())
first, second = ([torch.zeros_like(p) for p in weights] for _ in range(2))
for step in range(4):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        gradients = [p.grad for p in weights]
        torch._foreach_lerp_(first, gradients, 0.1)
        torch._foreach_mul_(second, 0.99)
        torch._foreach_addcmul_(second, gradients, gradients, 0.01)
        torch._foreach_addcdiv_(weights, first, torch._foreach_add(torch._foreach_sqrt(second), 1e-8), {number})  # HERE
"""
ERROR = "F.cross_entropy(model(x), y)"
MODEL = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD({groups}, lr=0.1)
for step in range(6):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    {rate}
    loss = F.cross_entropy(model(x), y)"""
OPTIONS = """
import types
class Trainer:
    def __init__(self, options):
        self.model = nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=options.lr)
    def fit(self):
        for step in range(4):
            loss = self.model(torch.randn(8, 4)).square().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
def main():
    opt = ARGUMENTS
    opt.lr = 0.01
    Trainer(opt).fit()
def read():
"""
ALL, TWO = "model.parameters()", "[dict(params=model[0].parameters()), dict(params=model[2].parameters())]"
SLOW_AND_FAST = "[dict(params=model[0].parameters(), lr=0.001), dict(params=model[2].parameters())]"


def with_schedule(schedule: str) -> str:
    made = with_rate("pass", SLOW_AND_FAST).replace(
        "for step", f"schedule = torch.optim.lr_scheduler.{schedule}\nfor step"
    )
    return made + "    schedule.step()\n"


def by_hand(step: str, loss: str = ERROR) -> str:
    return HEAD + BY_HAND.replace("{loss}", loss).replace("{step}", step)


def with_rate(rate: str, groups: str = ALL) -> str:
    return HEAD + MODEL.format(groups=groups, rate=rate) + TRAIN


FAULTS = {
    ("steps_up_gradient", "a gradient is added"): by_hand("p.add_(0.1 * p.grad)  # HERE"),
    ("steps_up_gradient", "a momentum is added through data"): by_hand(
        "momentum[name] = 0.9 * momentum[name] + p.grad; p.data += 0.1 * momentum[name]  # HERE"
    ),
    ("steps_up_gradient", "Adam on lists, with a number"): HEAD + ON_LISTS.format(number="0.01"),
    ("steps_up_gradient", "Adam on lists, with a list"): HEAD + ON_LISTS.format(number="[0.01] * 4"),
    ("rate_set_elsewhere", "an attribute"): with_rate("optimizer.lr = 0.1 * 0.5**step  # HERE"),
    ("rate_set_elsewhere", "the defaults"): with_rate('optimizer.defaults["lr"] *= 0.5  # HERE'),
    ("rate_set_elsewhere", "the first of two groups"): with_rate(
        'optimizer.param_groups[0]["lr"] = 0.1 * 0.5**step  # HERE', TWO
    ),
    ("rate_set_elsewhere", "the groups of a state"): with_rate(
        'for group in optimizer.state_dict()["param_groups"]: group["lr"] *= 0.5  # HERE'
    ),
    ("rate_set_elsewhere", "copies of the groups"): with_rate(
        'groups = [dict(group) for group in optimizer.param_groups]; groups[0]["lr"] = 0.1 * 0.5**step  # HERE'
    ),
    ("rate_set_elsewhere", "an update of a deep copy"): with_rate(
        "for group in copy.deepcopy(optimizer.param_groups): group.update(lr=0.1 * 0.5**step)  # HERE"
    ),
    ("rate_set_elsewhere", "another key"): with_rate(
        'for group in optimizer.param_groups: group["learning_rate"] = 0.1 * 0.5**step  # HERE'
    ),
    ("rates_made_equal", "one cycle"): with_schedule("OneCycleLR(optimizer, 0.1, total_steps=6)  # HERE"),
    ("rates_made_equal", "a cycle"): with_schedule("CyclicLR(optimizer, 0.01, 0.1, step_size_up=3)  # HERE"),
    ("rates_made_equal", "by hand"): with_rate(
        'for group in optimizer.param_groups: group["lr"] = 0.1 * 0.5**step  # HERE', SLOW_AND_FAST
    ),
    ("rates_made_equal", "one by one"): with_rate(
        'optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = 0.1 * 0.5**step  # HERE', SLOW_AND_FAST
    ),
    ("rates_made_equal", "a group that is added later"): with_rate(
        'for group in optimizer.param_groups: group["lr"] = 0.1 * 0.5**step  # HERE', "model[0].parameters()"
    ).replace("for step", "optimizer.add_param_group(dict(params=model[2].parameters(), lr=1.0))\nfor step"),
}

HEALTHY = {
    "Adam on lists, with a number": HEAD + ON_LISTS.format(number="-0.01"),
    "Adam on lists, with a list": HEAD + ON_LISTS.format(number="[-0.01] * 4"),
    "a gradient is subtracted": by_hand("p.sub_(0.1 * p.grad)"),
    "a negative multiple is added": by_hand("p.add_(p.grad, alpha=-0.1)"),
    "a reward is made larger": by_hand("p.add_(0.1 * p.grad)", "torch.sigmoid(model(x)).mean()"),
    "a score is made larger": by_hand("p.add_(0.1 * p.grad)", "-F.cross_entropy(model(x), y)"),
    "a state that is loaded again": with_rate(
        'state = optimizer.state_dict(); state["param_groups"][0]["lr"] *= 0.5; optimizer.load_state_dict(state)'
    ),
    "a state that is saved": with_rate(
        'import io; state = optimizer.state_dict(); state["param_groups"][0]["lr"] = 1; torch.save(state, io.BytesIO())'
    ),
    "a copy of the list of groups": with_rate(
        'for group in list(optimizer.param_groups): group["lr"] = 0.1 * 0.5**step'
    ),
    "a number of the program's own in the groups": with_rate(
        'optimizer.param_groups[0]["learning_rate"] = 1; print(optimizer.param_groups[0]["learning_rate"])'
    ),
    "the only group": with_rate('optimizer.param_groups[0]["lr"] = 0.1 * 0.5**step'),
    "one cycle with a rate for each group": with_schedule("OneCycleLR(optimizer, [0.001, 0.1], total_steps=6)"),
    "factors of the rate of each group": with_schedule("LambdaLR(optimizer, lambda step: 0.5**step)"),
    "rates that both end at zero": with_schedule("LambdaLR(optimizer, lambda step: max(0, 1 - step / 4))"),
    "a group that begins with zero and joins": with_rate(
        'optimizer.param_groups[0]["lr"] = 0.1 * (step > 0)', SLOW_AND_FAST.replace("0.001", "0.0")
    ),
    "every group": with_rate('for group in optimizer.param_groups: group["lr"] = 0.1 * 0.5**step', TWO),
    "each of two groups by its own line": with_rate(
        'optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = 0.1 / (step + 1), 0.2 / (step + 1)', TWO
    ),
    "an attribute that the program itself reads": with_rate(
        'optimizer.lr = 0.1 * 0.9**step; optimizer.param_groups[0]["lr"] = optimizer.lr'
    ),
    "options with the name of the optimizer of a trainer": HEAD
    + OPTIONS.replace("ARGUMENTS", "types.SimpleNamespace(lr=0.1)")
    + "    pass\nmain()\n",
    "the same from a parser in a function": HEAD
    + OPTIONS.replace("ARGUMENTS", "read()")
    + "    import argparse\n    parser = argparse.ArgumentParser()\n    parser.add_argument('--lr', default=0.1)\n"
    "    return parser.parse_args([])\nmain()\n",
    "a note of the rate that the groups get": with_rate(
        'rate = 0.1 if step < 9 else 0.01\n    for group in optimizer.param_groups: group["lr"] = rate\n'
        "    optimizer.learning_rate = rate"
    ),
}


@pytest.mark.parametrize(("cause", "name"), FAULTS)
def test_a_fault_is_told_at_its_line(cause: str, name: str, tmp_path: Path) -> None:
    script = FAULTS[cause, name]
    wanted = next(number for number, line in enumerate(script.splitlines(), 1) if line.endswith("# HERE"))
    assert [each.location.line for each in alarms(script, tmp_path) if each.cause == cause and each.location] == [
        wanted
    ]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_program_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert [each.message for each in alarms(HEALTHY[name], tmp_path)] == []


ENDS_AT_ZERO = """
critic = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam([{{"params": critic[0].parameters()}}, {{"params": critic[2].parameters()}}], lr=0.01)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda step: {rate}, lambda step: 1 - step / 8])
for step in range(8):
    loss = critic(torch.randn(16, 12)).mean() - critic(1 + torch.randn(16, 12)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
"""


def test_a_schedule_that_ends_at_zero_is_no_reason_for_what_never_changed(tmp_path: Path) -> None:
    found = findings(HEAD + ENDS_AT_ZERO.format(rate="1 - step / 8"), tmp_path)
    assert not [each.cause for each in found if each.severity != "note"]
    assert not [each.message for each in found if "the learning rate of their group is 0" in each.message]


def test_a_schedule_that_is_zero_from_the_start_is_one(tmp_path: Path) -> None:
    found = findings(HEAD + ENDS_AT_ZERO.format(rate="step // 100"), tmp_path)
    assert [each.cause for each in found if "the learning rate of their group is 0" in each.message] == [
        "step_without_effect"
    ]
