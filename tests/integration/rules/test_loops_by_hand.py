"""Training loops written by hand: a loss scale that finds its range, two networks side by side, a copy that is adapted
and thrown away. None of them is a mistake, and one that is looks much like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

HALF = """
class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.half().float()
    @staticmethod
    def backward(ctx, grad):
        return grad.half().float()
"""

SCALED_BY_HAND = """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scale, steps = 2.0 ** 24, 0
while steps < 4:
    optimizer.zero_grad()
    loss = Half.apply(model(torch.randn(8, 4))).square().mean()
    (loss * scale).backward()
    if not all(p.grad.isfinite().all() for p in model.parameters()):
        scale /= 2
        continue
    for p in model.parameters():
        p.grad /= scale
    optimizer.step()
    steps += 1
"""

COMPARED_SIDE_BY_SIDE = """
class Plain:
    def __init__(self, params):
        self.params = list(params)
    def zero_grad(self):
        for p in self.params:
            p.grad = None
    @torch.no_grad()
    def step(self):
        for p in self.params:
            p -= 0.1 * p.grad
one, other = nn.Linear(4, 2), nn.Linear(4, 2)
pairs = ((one, Plain(one.parameters())), (other, torch.optim.SGD(other.parameters(), lr=0.1)))
for step in range(5):
    x = torch.randn(8, 4)
    for net, optimizer in pairs:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
"""

ADAPTED_BY_HAND = """
class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.mean, self.spread = nn.Linear(3, 8), nn.Linear(8, 1), nn.Linear(8, 1)
    def forward(self, x):
        h = torch.tanh(self.trunk(x))
        return self.mean(h), self.spread(h)
model = TwoHeads()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    fast = copy.deepcopy(model)
    given = list(fast.parameters())
    for inner in range(2):
        x = torch.randn(6, 3)
        loss = F.mse_loss(fast(x)[0], x[:, :1])
        with torch.no_grad():
            for p, g in zip(given, torch.autograd.grad(loss, given, allow_unused=True)):
                if g is not None:
                    p -= 0.1 * g
    x = torch.randn(6, 3)
    mean, spread = fast(x)
    outer = (spread + (mean - x[:, :1]).square() * (-spread).exp()).mean()
    for p, g in zip(model.parameters(), torch.autograd.grad(outer, given)):
        p.grad = g
    optimizer.step()
"""


@pytest.mark.parametrize("script", [HALF + SCALED_BY_HAND, COMPARED_SIDE_BY_SIDE, ADAPTED_BY_HAND])
def test_loops_by_hand_that_are_right_raise_no_alarm(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []


def test_a_scale_that_is_lowered_does_not_hide_a_slope_that_is_never_finite(tmp_path: Path) -> None:
    script = (
        SCALED_BY_HAND.replace("while steps < 4:", "for turn in range(6):")
        .replace("Half.apply(model(torch.randn(8, 4)))", "model(torch.randn(8, 4))")
        .replace(".square().mean()", ".mul(0).square().sqrt().mean()  # HERE")
    )
    assert_first_alarm(HEAD + script, "nan_from_op", tmp_path)


SEEDED = """
def paths(n):
    torch.manual_seed(1234){seeding}
    return torch.randn(n, 4).cumsum(1)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
X = torch.randn(600, 4)
Y = X.sum(1, keepdim=True)
for step in range(8):
    risk = (model(paths(32)) - 1).square().mean()
    rows = {rows}
    loss = F.mse_loss(model(X[rows]), Y[rows]) + 0.1 * risk
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_rows_that_a_seed_of_another_function_repeats_are_told(tmp_path: Path) -> None:
    script = SEEDED.format(seeding="  # HERE", rows="torch.randint(0, 600, (6,))")
    assert_first_alarm(HEAD + script, "same_random_numbers", tmp_path)


def test_rows_from_a_generator_of_their_own_raise_no_alarm(tmp_path: Path) -> None:
    script = SEEDED.format(seeding="", rows="torch.randint(0, 600, (6,), generator=own)")
    own = "own = torch.Generator().manual_seed(5)\n"
    assert alarms(HEAD + own + script, tmp_path) == []


WAVES = """
def batch(n):
    return torch.sin(torch.randint(1, 4, (n, 1)) * torch.linspace(0, 6, 16) + 6 * torch.rand(n, 1))
def main():
    torch.manual_seed(3)
    model = nn.Linear(16, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(8):
        x = batch(64)
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""


def test_few_numbers_that_all_are_drawn_each_time_raise_no_alarm(tmp_path: Path) -> None:
    assert alarms(HEAD + WAVES, tmp_path) == []


WARPED = """
net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 2, 3, padding=1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
identity = F.affine_grid(torch.eye(2, 3)[None], (1, 1, 8, 8), align_corners=False)
for step in range(4):
    fixed, moving = torch.rand(4, 1, 8, 8), torch.rand(4, 1, 8, 8)
    flow = 0.5 * torch.tanh(net(torch.cat([fixed, moving], dim=1)))
    where = identity + flow.permute(0, 2, 3, 1)
    warped = F.grid_sample(moving, where, mode="{mode}", align_corners=False)  # HERE
    loss = F.mse_loss(warped, fixed) + 0.1 * flow.diff(dim=-1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_flow_that_learns_from_its_smoothness_only_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WARPED.format(mode="nearest"), "zero_gradient_op", tmp_path)
    assert alarms(HEAD + WARPED.format(mode="bilinear"), tmp_path) == []


SIMULATED = """
import numpy as np
class Tank:
    def __init__(self):
        self.random, self.state = np.random.default_rng(0), np.zeros(3, dtype=np.float32)
    def step(self, u):
        self.state += 0.3 * (u - np.tanh(self.state[::-1]))
        return torch.from_numpy({returned})  # HERE
tank, seen, following = Tank(), [], []
now = tank.step(0.5)
for _ in range(60):
    seen.append(now)
    now = tank.step(float(tank.random.normal()))
    following.append(now)
seen, following = torch.stack(seen), torch.stack(following)
net = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for rows in torch.randperm(60).split(12):
    loss = F.mse_loss(net(seen[rows]), following[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_states_over_the_memory_of_one_array_are_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SIMULATED.format(returned="self.state"), "batch_of_equal_rows", tmp_path)
    assert alarms(HEAD + SIMULATED.format(returned="self.state.copy()"), tmp_path) == []


EXPORTED = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 3))
    def forward(self, x):
        return self.head(self.encoder(x))
@torch.no_grad()
def export(model):
    encoder = model.encoder.eval()  # HERE
    shape = encoder(torch.zeros(1, 6)).shape
    {after}
    return shape
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    if not model.training:
        model.train()
    for step in range(4):
        x = torch.randn(16, 6)
        loss = F.cross_entropy(model(x), x[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    export(model)
"""


def test_a_part_that_stays_in_evaluation_mode_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + EXPORTED.format(after="pass"), "evaluation_mode", tmp_path)
    assert alarms(HEAD + EXPORTED.format(after="encoder.train()"), tmp_path) == []


def test_a_part_that_is_put_to_rest_after_an_evaluation_of_all_is_left_alone(tmp_path: Path) -> None:
    script = EXPORTED.format(after="pass").replace("    encoder = model.encoder.eval()  # HERE\n", "    model.eval()\n")
    script = script.replace("encoder(torch.zeros(1, 6))", "model(torch.zeros(1, 6))").replace(
        "        model.train()", "        model.train()\n        model.encoder.eval()"
    )
    assert alarms(HEAD + script, tmp_path) == []
