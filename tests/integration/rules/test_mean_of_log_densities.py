"""Mixtures of normal distributions: the logarithm of a weighted sum, and weighted sums of logarithms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MIXTURE = """
class Mixture(nn.Module):
    def __init__(self, k=4):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(1, 16), nn.Tanh())
        self.pi, self.mu, self.rho = (nn.Linear(16, k) for _ in range(3))
    def forward(self, x):
        h = self.trunk(x)
        return self.pi(h), self.mu(h), self.rho(h)
net = Mixture()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def density(y, mu, rho):
    return -(0.5 * ((y - mu) / rho.exp()) ** 2 + rho + 0.919)
for step in range(4):
    x, y = torch.rand(32, 1), torch.randn(32, 1)
    logits, mu, rho = net(x)
    {body}
"""
NORMAL = "log_prob = torch.distributions.Normal(mu, F.softplus(rho) + 0.01).log_prob(y)\n"
FAULTY = (
    MIXTURE.format(body="loss = -(F.softmax(logits, dim=1) * density(y, mu, rho)).sum(1).mean()  # HERE"),
    MIXTURE.format(body=f"{NORMAL}    loss = -torch.einsum('nk,nk->n', logits.softmax(1), log_prob).mean()  # HERE"),
    MIXTURE.format(
        body="nll = 0.5 * (y - mu) ** 2 / torch.exp(2 * rho) + rho\n"
        "    loss = torch.mul(F.log_softmax(logits, -1).exp(), nll).sum(dim=-1).mean()  # HERE"
    ),
)
HEALTHY = (
    MIXTURE.format(body="loss = -torch.logsumexp(F.log_softmax(logits, 1) + density(y, mu, rho), 1).mean()"),
    # Expectation maximization; a bound with the entropy of the choice; experts that share an error without a scale.
    MIXTURE.format(
        body="joint = F.log_softmax(logits, 1) + density(y, mu, rho)\n"
        "    loss = -(joint.detach().softmax(1) * joint).sum(1).mean()"
    ),
    MIXTURE.format(
        body="q = logits.softmax(1)\n    loss = -(q * density(y, mu, rho)).sum(1).mean() + (q * q.log()).sum(1).mean()"
    ),
    MIXTURE.format(body="loss = (logits.softmax(1) * (y - mu) ** 2).sum(1).mean() + 0 * rho.sum()"),
    MIXTURE.format(
        body="mean = (logits.softmax(1) * mu).sum(1, keepdim=True)\n"
        "    loss = -density(y, mean, rho[:, :1]).mean() + 0 * rho.sum()"
    ),
)


@pytest.mark.parametrize("script", FAULTY)
def test_a_weighted_mean_of_logarithms_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "mean_of_log_densities", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_other_weighted_sums_are_right(script: str, tmp_path: Path) -> None:
    assert "mean_of_log_densities" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}
