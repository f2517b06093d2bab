"""Averages of hand-written optimizers that nothing keeps, and pruned weights that training brings back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

BY_HAND = """
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.randn(16, 4)
ps = list(model.parameters())
ms, vs = [torch.zeros_like(p) for p in ps], [torch.zeros(p.shape) for p in ps]
for step in range(5):
    loss = (model(x) - x[:, :1]).square().mean()
    gs = torch.autograd.grad(loss, ps)
    with torch.no_grad():
        for i, (p, g, m, v) in enumerate(zip(ps, gs, ms, vs)):
"""
LOST = (
    "m = 0.9 * m + 0.1 * g  # HERE\np -= 0.1 * m",
    "new = torch.lerp(m, g, 0.1)  # HERE\np.sub_(new, alpha=0.1)",
    "m = m.mul(0.9).add(g + 0.01 * p, alpha=0.1)  # HERE\np.add_(m, alpha=-0.1)",
    "v = v + g * g  # HERE\np -= 0.1 * g / (v.sqrt() + 1e-3)",
    "v = torch.add(g, v, alpha=0.9)  # HERE\np -= 0.1 * v",
)
KEPT = (
    "m.mul_(0.9).add_(g, alpha=0.1)\np -= 0.1 * m",
    "ms[i] = 0.9 * m + 0.1 * g\np -= 0.1 * ms[i]",
    "m[:] = 0.9 * m + 0.1 * g\np -= 0.1 * m",
    "new = 0.9 * m + 0.1 * g\nm.copy_(new)\np -= 0.1 * m",
    "p -= 0.1 * (g + m)",
    "total = torch.zeros_like(p)\ntotal = 0.5 * total + g\np -= 0.1 * total",
)


@pytest.mark.parametrize("update", LOST)
def test_an_average_that_every_step_computes_from_zeros_is_told(update: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + BY_HAND + _indented(update, 12), "state_stays_zero", tmp_path)


def test_an_average_of_gradients_in_a_class_that_does_not_keep_it_is_told(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
class Momentum:
    def __init__(self, params):
        self.params = list(params)
        self.state = {p: p.new_zeros(p.shape) for p in self.params}
    @torch.no_grad()
    def step(self):
        for p in self.params:
            buffer = self.state[p]
            buffer = buffer * 0.9 + p.grad  # HERE
            p.add_(buffer, alpha=-0.1)
model = nn.Linear(4, 1)
optimizer = Momentum(model.parameters())
for step in range(5):
    model.zero_grad()
    (model(torch.randn(8, 4)) - 1).square().mean().backward()
    optimizer.step()
"""
    )
    assert_first_alarm(script, "state_stays_zero", tmp_path)


OPTIMIZER = """
class Mean(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["mean"] = torch.zeros_like(p)
            mean = state["mean"]
            UPDATE
            p.sub_(mean, alpha=0.1)
model = nn.Linear(4, 1)
optimizer = Mean(model.parameters())
for step in range(5):
    loss = (model(torch.randn(8, 4)) - 1).square().mean()
"""


def test_an_average_of_an_optimizer_that_its_state_does_not_get_is_told(tmp_path: Path) -> None:
    kept = OPTIMIZER.replace("UPDATE", "mean.mul_(0.9).add_(p.grad, alpha=0.1)")
    assert not alarms(HEAD + kept + TRAIN, tmp_path)
    lost = OPTIMIZER.replace("UPDATE", "mean = mean.mul(0.9).add(p.grad, alpha=0.1)  # HERE")
    assert_first_alarm(HEAD + lost + TRAIN, "state_stays_zero", tmp_path)


@pytest.mark.parametrize("update", KEPT)
def test_averages_that_are_kept_and_zeros_that_are_none_are_right(update: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + BY_HAND + _indented(update, 12), tmp_path)


PRUNED = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
x = torch.randn(16, 4)
w = model[0].weight
for step in range(6):
    if step == 2:
        small = w.detach().abs() < 0.25
        keep = (~small).float()
"""
STEP = """
    loss = (model(x) - x[:, :1]).square().mean()
"""
ONCE = (
    "with torch.no_grad():\n    w.mul_(keep)  # HERE",
    "w.data *= keep  # HERE",
    "w.data = w.data * keep  # HERE",
    "strong = w.detach().norm(dim=1, keepdim=True) > 0.4\nw.data.mul_(strong)  # HERE",
    "with torch.no_grad():\n    w[small] = 0.0  # HERE",
    "w.data.masked_fill_(small, 0)  # HERE\nprint(keep.mean(), small.sum())",
    "with torch.no_grad():\n    w.copy_(torch.where(small, torch.zeros(()), w))  # HERE",
)
NOT_FOR_GOOD = (
    ("w.data *= keep", "if step >= 2:\n    w.data *= keep"),
    ("w.data *= keep", "if step == 4:\n    w.data *= keep"),
    ("w.data *= keep", "if step >= 2:\n    w.data = w.data * keep"),
    ("w.data *= keep\nw.register_hook(lambda grad: grad * keep)", ""),
    ("before = w.detach().clone()\nw.data *= keep\nprint(model(x).mean().item())\nw.data.copy_(before)", ""),
    ("with torch.no_grad():\n    w[torch.tensor([1, 3, 5])] = 0", ""),
    ("with torch.no_grad():\n    w.mul_((torch.rand_like(w) > 0.5).float())", ""),
    ("with torch.no_grad():\n    w.mul_(0.5)", ""),
)


@pytest.mark.parametrize("prune", ONCE)
def test_pruned_weights_that_are_trained_again_are_told(prune: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PRUNED + _indented(prune, 8) + STEP + TRAIN, "pruned_grows_back", tmp_path)


@pytest.mark.parametrize(("prune", "after"), NOT_FOR_GOOD)
def test_weights_that_are_masked_again_restored_or_reset_are_right(prune: str, after: str, tmp_path: Path) -> None:
    found = alarms(HEAD + PRUNED + _indented(prune, 8) + STEP + TRAIN + _indented(after, 4), tmp_path)
    assert "pruned_grows_back" not in [each.cause for each in found]


def test_a_mask_before_the_first_step_is_right(tmp_path: Path) -> None:
    script = HEAD + PRUNED.replace("step == 2", "step == 0") + _indented("w.data *= keep", 8) + STEP + TRAIN
    assert not alarms(script, tmp_path)


def _indented(lines: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in lines.splitlines())
