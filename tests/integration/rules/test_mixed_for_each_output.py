"""Mixtures of densities whose outputs are mixed one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

BEGIN = (
    HEAD + "from torch.distributions import Normal\n"
    "class MDN(nn.Module):\n    def __init__(self, k=3, d=2, weights=3):\n        super().__init__()\n"
    "        self.k, self.d, self.body = k, d, nn.Sequential(nn.Linear(1, 16), nn.Tanh())\n"
    "        self.pi, self.mu, self.scale = nn.Linear(16, weights), nn.Linear(16, k * d), nn.Linear(16, k * d)\n"
    "    def forward(self, x):\n        h = self.body(x)\n"
    "        return self.pi(h), self.mu(h).view(-1, self.k, self.d), self.scale(h).view(-1, self.k, self.d).exp()\n"
    "net = MDN({})\noptimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
    "for step in range(4):\n    x = torch.rand(32, 1)\n"
    "    y = torch.cat([x, 1 - x], 1) * torch.randn(32, 1).sign() + 0.1 * torch.randn(32, 2)\n"
    "    pi, mu, sigma = net(x)\n    log_prob = Normal(mu, sigma).log_prob(y.unsqueeze(1))\n"
)
WHOLE = BEGIN.format("")
OF_LOGARITHMS = """    mixed = torch.logsumexp(pi.log_softmax(-1).unsqueeze(-1) + log_prob, dim=1)  # HERE
    loss = -mixed.sum(-1).mean()
"""
OF_DENSITIES = """    mixed = (pi.softmax(-1)[:, :, None] * log_prob.exp()).sum(1)  # HERE
    loss = -torch.log(mixed + 1e-8).mean()
"""
ADDED_FIRST = "    loss = -torch.logsumexp(pi.log_softmax(-1) + log_prob.sum(-1), dim=1).mean()\n"
DENSITIES_FIRST = "    loss = -torch.log((pi.softmax(-1) * log_prob.sum(-1).exp()).sum(1) + 1e-8).mean()\n"
# Each output has weights of its own, or each of several samples comes from the same mixture.
OWN_WEIGHTS = (
    BEGIN.format("weights=6")
    + "    mixed = torch.logsumexp(pi.view(-1, 3, 2).log_softmax(1) + log_prob, dim=1)\n"
    + "    loss = -mixed.sum(-1).mean()\n"
)
SEVERAL_SAMPLES = BEGIN.format("d=1") + OF_LOGARITHMS


@pytest.mark.parametrize(("faulty", "mended"), [(OF_LOGARITHMS, ADDED_FIRST), (OF_DENSITIES, DENSITIES_FIRST)])
def test_outputs_that_are_mixed_one_by_one_are_told(tmp_path: Path, faulty: str, mended: str) -> None:
    assert_first_alarm(WHOLE + faulty + TRAIN, "mixed_for_each_output", tmp_path)
    assert not alarms(WHOLE + mended + TRAIN, tmp_path)


@pytest.mark.parametrize("script", [OWN_WEIGHTS, SEVERAL_SAMPLES])
def test_weights_of_each_output_and_samples_of_one_density_are_quiet(tmp_path: Path, script: str) -> None:
    assert not alarms(script + TRAIN, tmp_path)
