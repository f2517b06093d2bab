"""Weights that are drawn at every step, and what their divergence from the prior is added to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

BY_HAND = """
class Drawn(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.mu = nn.Parameter(torch.randn(n_out, n_in) * 0.3)
        self.logvar = nn.Parameter(torch.full((n_out, n_in), -6.0))
    def forward(self, x):
        weight = self.mu + torch.exp(0.5 * self.logvar) * torch.randn_like(self.mu)
        return F.linear(x, weight)
    def kl(self):
        return 0.5 * torch.sum(self.mu ** 2 + self.logvar.exp() - self.logvar - 1)
net = nn.Sequential(Drawn(8, 16), nn.Tanh(), Drawn(16, 1))
"""
BY_DISTRIBUTIONS = """
class Drawn(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.mu = nn.Parameter(torch.randn(n_out, n_in) * 0.3)
        self.rho = nn.Parameter(torch.full((n_out, n_in), -3.0))
        self.prior = torch.distributions.Normal(torch.zeros(n_out, n_in), torch.ones(n_out, n_in))
    def posterior(self):
        return torch.distributions.Normal(self.mu, F.softplus(self.rho))
    def forward(self, x):
        self.weight = self.posterior().rsample()
        return x @ self.weight.T
    def kl(self):
        {kl}
net = nn.Sequential(Drawn(8, 16), nn.Tanh(), Drawn(16, 1))
"""
EXACT = BY_DISTRIBUTIONS.format(kl="return torch.distributions.kl_divergence(self.posterior(), self.prior).sum()")
SAMPLED = BY_DISTRIBUTIONS.format(
    kl="return self.posterior().log_prob(self.weight).sum() - self.prior.log_prob(self.weight).sum()"
)
LOOP = """
data, targets = torch.randn(300, 8), torch.randn(300, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    i = torch.randint(0, 300, (20,))
    error = {error}
    kl = sum(layer.kl() for layer in net if hasattr(layer, "kl"))
    loss = {loss}
"""
MEAN = "F.mse_loss(net(data[i]), targets[i])"
DRAWS = "torch.stack([{} for _ in range(3)]).mean()"
SUMS, MEANS = DRAWS.format("((net(data[i]) - targets[i]) ** 2).sum()"), DRAWS.format(MEAN)
FAULTY = (
    EXACT + LOOP.format(error=MEANS, loss="error + kl  # HERE"),
    BY_HAND + LOOP.format(error=MEAN, loss="error + kl  # HERE"),
    EXACT + LOOP.format(error="((net(data[i]) - targets[i]) ** 2).mean()", loss="0.5 * error + kl  # HERE"),
    SAMPLED + LOOP.format(error=MEAN, loss="error - (-kl)  # HERE"),
)
PER_SAMPLE = """
mu, logvar = nn.Embedding(300, 4), nn.Embedding(300, 4)
net = nn.Linear(4, 8)
optimizer = torch.optim.Adam([*net.parameters(), *mu.parameters(), *logvar.parameters()], lr=0.01)
data = torch.randn(300, 8)
for step in range(4):
    i = torch.randint(0, 300, (20,))
    z = mu(i) + (0.5 * logvar(i)).exp() * torch.randn(20, 4)
    kl = 0.5 * torch.sum(mu(i) ** 2 + logvar(i).exp() - logvar(i) - 1, dim=1)
    loss = ((net(z) - data[i]) ** 2).sum(1).mean() + kl.mean()
"""
NOISY = """
weight, scale = nn.Parameter(torch.randn(1, 8) * 0.1), nn.Parameter(torch.full((1, 8), 0.1))
data, targets = torch.randn(300, 8), torch.randn(300, 1)
optimizer = torch.optim.Adam([weight, scale], lr=0.01)
for step in range(4):
    i = torch.randint(0, 300, (20,))
    noisy = weight + scale * torch.randn_like(scale)
    loss = F.mse_loss(F.linear(data[i], noisy), targets[i]) + weight.abs().sum()
"""
AT_ONCE = """
mu, log_std = nn.Parameter(torch.randn(8, 1)), nn.Parameter(torch.full((8, 1), -2.0))
data, targets = torch.randn(300, 8), torch.randn(300, 1)
optimizer = torch.optim.Adam([mu, log_std], lr=0.01)
for step in range(4):
    weights = mu + torch.randn(5, 8, 1) * log_std.exp()
    error = ((data @ weights - targets) ** 2).{error}
    kl = 0.5 * (mu**2 + (2 * log_std).exp() - 2 * log_std).sum()
    loss = {loss}
"""
HEALTHY = (
    AT_ONCE.format(error="sum((1, 2)).mean()", loss="(error + kl) / len(data)"),
    BY_HAND + LOOP.format(error=MEAN, loss="error + kl / len(data)"),
    BY_HAND + LOOP.format(error=MEAN, loss="error + 0.001 * kl"),
    EXACT + LOOP.format(error=MEAN, loss="len(data) * error + kl"),
    SAMPLED + LOOP.format(error=MEAN.replace("targets[i])", "targets[i], reduction='sum')"), loss="error * 15 + kl"),
    EXACT + LOOP.format(error=MEAN, loss="error + kl.div(torch.tensor(300.0))"),
    EXACT + LOOP.format(error=SUMS.replace("[i]", ""), loss="(error + kl) / len(data)"),
    PER_SAMPLE,
    NOISY,
)


@pytest.mark.parametrize("script", (*FAULTY, AT_ONCE.format(error="mean()", loss="error + kl  # HERE")))
def test_a_divergence_of_weights_beside_a_mean_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "divergence_of_weights_whole", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_a_divergence_that_is_weighed_is_right(script: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + script + TRAIN, tmp_path)
