"""Log-determinants that are lost or outweigh, velocities with several samplers, norms of slopes over the samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FLOW = (
    HEAD
    + """
class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8))
    def forward(self, x):
        s, t = self.net(x * self.mask).chunk(2, dim=1)
        s, t = torch.tanh(s) * (1 - self.mask), t * (1 - self.mask)
        return x * s.exp() + t, s.sum(1)

masks = [torch.tensor([1.0, 0, 1, 0]), torch.tensor([0, 1.0, 0, 1])] * 2
layers = nn.ModuleList(Coupling(mask) for mask in masks)
optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)

def run(z):
    total, parts = 0, []
    for layer in layers:
        z, log_det = layer(z)
        SUM
    return z, total

for step in range(4):
    z, log_det = run(torch.randn(32, 4))
    LOSS
"""
    + TRAIN
)
PLAIN = "loss = -(-0.5 * (z ** 2).sum(1) + log_det).mean()"
ADDED = "total = total + log_det"


def of_flow(total: str = ADDED, loss: str = PLAIN) -> str:
    return FLOW.replace("SUM", total).replace("LOSS", loss)


FAULTY_FLOWS = {
    "overwritten": of_flow("total = log_det  # HERE"),
    "the mean of squares": of_flow(loss="loss = -(-0.5 * (z ** 2).mean(1) + log_det).mean()  # HERE"),
    "the mean of a log-probability": of_flow(
        loss="prior = torch.distributions.Normal(0.0, 1.0).log_prob(z).mean(dim=-1)  # HERE\n"
        "    loss = -(prior + log_det).mean()"
    ),
    "the mean of everything": of_flow(loss="loss = 0.5 * z.square().mean() - log_det.mean()  # HERE"),
}
RIGHT_FLOWS = {
    "added": of_flow(),
    "added in place": of_flow("total += log_det"),
    "stacked": of_flow("parts.append(log_det)\n        total = torch.stack(parts).sum(0)"),
    "a log-probability": of_flow(
        loss="loss = -(torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1) + log_det).mean()"
    ),
    "each by the number of variables": of_flow(loss="loss = 0.5 * z.square().mean() - (log_det / 4).mean()"),
    "times the number of variables": of_flow(loss="loss = 0.5 * 4 * z.square().mean() - log_det.mean()"),
    "a second pass": of_flow(
        loss=f"{PLAIN}\n    other, _ = run(torch.randn(32, 4))\n    loss = loss + (other - z).square().mean()"
    ),
    "a penalty": of_flow(loss=f"{PLAIN}\n    loss = loss + 0.1 * z.square().mean()"),
    "two means": of_flow(loss="loss = 0.5 * z.square().sum(1).mean() - log_det.mean()"),
}


@pytest.mark.parametrize("script", FAULTY_FLOWS.values(), ids=FAULTY_FLOWS)
def test_log_determinants_that_are_lost_or_outweigh_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "log_determinant_lost", tmp_path)


@pytest.mark.parametrize("script", RIGHT_FLOWS.values(), ids=RIGHT_FLOWS)
def test_log_determinants_that_all_count_are_right(script: str, tmp_path: Path) -> None:
    assert "log_determinant_lost" not in {each.cause for each in alarms(script, tmp_path)}


VELOCITIES = (
    HEAD
    + """
field = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(field.parameters(), lr=0.01)

def sample(n):
    x = torch.randn(n, 2)
    with torch.no_grad():
        for k in range(5):
            x = x + field(torch.cat([x, torch.full((n, 1), k / 5)], 1)) / 5
    return x

for step in range(6):
    data = torch.cat([torch.ones(16, 2), -torch.ones(16, 2)]) + 0.2 * torch.randn(32, 2)
    noise, t = torch.randn_like(data), torch.rand(32, 1)
    x = (1 - t) * noise + t * data
    target = TARGET
    loss = (field(torch.cat([x, t], 1)) - target).square().mean()
"""
    + TRAIN
)
SAMPLED = "    if step % 2:\n        print(sample(8).std())\n"


@pytest.mark.parametrize("end", ["", SAMPLED], ids=["never sampled", "sampled several times"])
def test_a_reversed_velocity_is_told_for_data_with_noise_of_their_own(end: str, tmp_path: Path) -> None:
    script = VELOCITIES.replace("TARGET", "noise - data  # HERE") + end
    assert_first_alarm(script, "velocity_reversed", tmp_path)


@pytest.mark.parametrize("end", ["", SAMPLED], ids=["never sampled", "sampled several times"])
def test_a_velocity_towards_the_data_is_right(end: str, tmp_path: Path) -> None:
    assert not alarms(VELOCITIES.replace("TARGET", "data - noise") + end, tmp_path)


def test_a_sampler_that_subtracts_the_answers_goes_with_the_reversed_velocity(tmp_path: Path) -> None:
    backwards = VELOCITIES.replace("x = x + field", "x = x - field").replace("TARGET", "noise - data") + SAMPLED
    assert not alarms(backwards, tmp_path)


PENALTY = (
    HEAD
    + """
critic = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(4):
    real, fake = torch.randn(ROWS, 6), 1 + torch.randn(ROWS, 6)
    middle = (0.5 * real + 0.5 * fake).requires_grad_()
    (slopes,) = torch.autograd.grad(critic(middle).sum(), middle, create_graph=True)
    NORM
    loss = critic(fake).mean() - critic(real).mean() + 10 * ((norm - 1) ** 2).mean()
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "norm",
    [
        "norm = slopes.norm(2, dim=0)  # HERE",
        "norm = torch.linalg.vector_norm(slopes, dim=0)  # HERE",
        "norm = slopes.flatten(1).norm(dim=0)  # HERE",
        "norm = torch.norm(slopes, 2, 0)  # HERE",
    ],
)
def test_norms_of_slopes_over_the_samples_are_told(norm: str, tmp_path: Path) -> None:
    assert_first_alarm(PENALTY.replace("ROWS", "24").replace("NORM", norm), "one_norm_for_all_samples", tmp_path)


@pytest.mark.parametrize("rows", ["24", "6"])
@pytest.mark.parametrize("norm", ["norm = slopes.norm(2, dim=1)", "norm = torch.linalg.vector_norm(slopes, dim=-1)"])
def test_norms_of_slopes_over_the_variables_are_right(norm: str, rows: str, tmp_path: Path) -> None:
    assert not alarms(PENALTY.replace("ROWS", rows).replace("NORM", norm), tmp_path)


SCORES = (
    HEAD
    + """
net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
levels = torch.tensor([0.1, 0.3, 1.0])
for step in range(4):
    x, z = torch.randn(24, 2), torch.randn(24, 2)
    sigma = levels[torch.randint(0, 3, (24,))].unsqueeze(1)
    noisy = x + sigma * z
    score = net(torch.cat([noisy, sigma], 1))
    TARGET
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "target",
    [
        "target = -z / sigma ** 2  # HERE\n    loss = (sigma ** 2 * (score - target) ** 2).mean()",
        "target = -z / sigma / sigma  # HERE\n    loss = F.mse_loss(score, target)",
        "near = z / sigma.square()  # HERE\n    loss = (score + near).square().mean()",
        "target = -z * sigma.pow(-2)  # HERE\n    loss = F.mse_loss(score, target)",
    ],
)
def test_a_score_of_noise_divided_by_the_variance_is_told(target: str, tmp_path: Path) -> None:
    assert_first_alarm(SCORES.replace("TARGET", target), "divided_by_variance", tmp_path)


@pytest.mark.parametrize(
    "target",
    [
        "loss = (sigma ** 2 * (score + z / sigma) ** 2).mean()",
        "loss = F.mse_loss(score, -(sigma * z) / sigma ** 2)",
        "loss = F.mse_loss(score, (x - noisy) / sigma ** 2)",
        "loss = (sigma * score + z).square().mean()",
        "loss = (score / sigma + z / sigma ** 2).square().mean()",
        "loss = F.mse_loss(score, z)",
    ],
)
def test_scores_and_noise_with_any_weight_are_right(target: str, tmp_path: Path) -> None:
    assert not alarms(SCORES.replace("TARGET", target), tmp_path)


EQUATION = (
    HEAD
    + """
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

def grad(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]

def residual():
    x, t = torch.rand(24, 1, requires_grad=True), torch.rand(24, 1, requires_grad=True)
    u = net(torch.cat([x, t], 1))
    DERIVATIVES

for step in range(4):
    loss = residual().square().mean() + (net(torch.zeros(8, 2)) - 1).square().mean()
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "lines",
    [
        "u_x = grad(u, x)\n    u_xx = grad(u_x, t)  # HERE\n    return grad(u, t) + u * u_x - 0.1 * u_xx",
        "du_dx = grad(u, x)\n    d2u_dx2 = grad(du_dx, t)  # HERE\n    return grad(u, t) - 0.1 * d2u_dx2 + du_dx",
    ],
    ids=["letters", "fractions"],
)
def test_a_second_derivative_by_another_input_than_its_name_says_is_told(lines: str, tmp_path: Path) -> None:
    assert_first_alarm(EQUATION.replace("DERIVATIVES", lines), "same_derivative_twice", tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "u_t, u_x = grad(u, t), grad(u, x)\n    u_xx = grad(u_x, x)\n    return u_t + u * u_x - 0.1 * u_xx",
        "u_t, u_x = grad(u, t), grad(u, x)\n    u_xt = grad(u_x, t)\n    return u_t + u_x - 0.1 * u_xt",
        "u_x = grad(u, x)\n    u_xx, u_xt = grad(u_x, x), grad(u_x, t)\n    return u_xx - 0.1 * u_xt + u_x",
    ],
    ids=["pure", "mixed", "both"],
)
def test_second_derivatives_by_the_inputs_of_their_names_are_right(lines: str, tmp_path: Path) -> None:
    assert not alarms(EQUATION.replace("DERIVATIVES", lines), tmp_path)
