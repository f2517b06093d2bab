"""Normalizations by hand whose mean and deviation have no history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

LAYER = """
class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))
"""
STEPS = """
net = nn.Sequential(nn.Linear(6, 16, bias=False), Norm(16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(32, 6)
    loss = F.mse_loss(net(x), x[:, :1] * x[:, 1:2])
"""
DECORATED = """
    @torch.no_grad()
    def statistics(self, x):
        mean, var = x.mean(0), x.var(0, unbiased=False)  # HERE
        self.mean.lerp_(mean, 0.1)
        self.var.lerp_(var, 0.1)
        return mean, var

    def forward(self, x):
        mean, var = self.statistics(x) if self.training else (self.mean, self.var)
        return (x - mean) * torch.rsqrt(var + 1e-3) * self.gain + self.shift
"""
BY_HAND = """
    def forward(self, x):
        with torch.no_grad():
            mean = x.mean(dim=0, keepdim=True)  # HERE
            deviation = (x - mean).pow(2).mean(dim=0, keepdim=True).add(1e-5).sqrt()
        return self.gain * (x - mean) / deviation + self.shift
"""
OF_EACH_ROW = """
    def forward(self, x):
        with torch.no_grad():
            var, mean = torch.var_mean(x, -1)  # HERE
        return (x - mean[:, None]).div(var[:, None].sqrt() + 1e-5) * self.gain + self.shift
"""


@pytest.mark.parametrize("forward", [DECORATED, BY_HAND, OF_EACH_ROW])
def test_statistics_without_a_history_are_told(forward: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + LAYER + forward + STEPS + TRAIN, "no_grad_block", tmp_path)


WITH_HISTORY = """
    def forward(self, x):
        mean, var = x.mean(0), x.var(0, unbiased=False)
        with torch.no_grad():
            self.mean.lerp_(mean, 0.1)
            self.var.lerp_(var, 0.1)
        return (x - mean) * torch.rsqrt(var + 1e-3) * self.gain + self.shift
"""
RUNNING = """
    def forward(self, x):
        with torch.no_grad():
            self.mean.lerp_(x.mean(0), 0.1)
            self.var.lerp_(x.var(0), 0.1)
        return (x - self.mean) / (self.var + 1e-3).sqrt() * self.gain + self.shift
"""
SET_BY_FIRST_BATCH = """
    def forward(self, x):
        if not self.mean.any():
            with torch.no_grad():
                self.mean.fill_(1)
                self.shift.copy_(-x.mean(0) / x.std(0))
                self.gain.copy_(1 / x.std(0))
        return x * self.gain + self.shift
"""
SCALE_ALONE = """
    def forward(self, x):
        with torch.no_grad():
            scale = x.abs().mean(0) + 1e-3
        return x / scale * self.gain + self.shift
"""
ON_PURPOSE = """
    def forward(self, x):
        mean, deviation = x.detach().mean(0), x.detach().std(0)
        return (x - mean) / (deviation + 1e-3) * self.gain + self.shift
"""


@pytest.mark.parametrize("forward", [WITH_HISTORY, RUNNING, SET_BY_FIRST_BATCH, SCALE_ALONE, ON_PURPOSE])
def test_other_normalizations_are_left_alone(forward: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + LAYER + forward + STEPS + TRAIN, tmp_path)


def test_data_that_nothing_trained_has_made_may_be_normalized_without_gradients(tmp_path: Path) -> None:
    script = HEAD + STEPS.replace("Norm(16), ", "").replace("net(x)", "net(normalized(x))") + TRAIN
    helper = "\n@torch.no_grad()\ndef moments(x):\n    return x.mean(0), x.std(0)\n\ndef normalized(x):\n"
    helper += "    mean, deviation = moments(x)\n    return (x - mean) / deviation\n"
    assert not alarms(script.replace("\nnet =", helper + "\nnet ="), tmp_path)


def test_following_the_advice_cures(tmp_path: Path) -> None:
    told = alarms(HEAD + LAYER + BY_HAND + STEPS + TRAIN, tmp_path)
    assert "with gradients on" in (told[0].fix or "")
    mended = BY_HAND.replace("with torch.no_grad():", "if True:")
    assert not alarms(HEAD + LAYER + mended + STEPS + TRAIN, tmp_path)
