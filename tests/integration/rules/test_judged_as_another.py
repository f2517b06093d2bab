"""Two networks that are trained by turns, with labels: those for which something was made, and those that judge it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm, findings

CAT = """
class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.label = nn.Embedding(4, 5)
        self.net = nn.Sequential(nn.Linear(8 + 5, 24), nn.ReLU(), nn.Linear(24, 2))
    def forward(self, z, y):
        return self.net(torch.cat([z, self.label(y)], 1))
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.label = nn.Embedding(4, 5)
        self.net = nn.Sequential(nn.Linear(2 + 5, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    def forward(self, x, y):
        return self.net(torch.cat([x, self.label(y)], 1)).squeeze(1)
"""
PROJECTION = """
class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.inp, self.out = nn.Embedding(4, 24), nn.Linear(8, 24), nn.Linear(24, 2)
    def forward(self, z, y):
        return self.out((self.inp(z) * (1 + self.scale(y))).relu())
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.end = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2)), nn.Linear(24, 1)
        self.label = nn.Embedding(4, 24)
    def forward(self, x, y):
        h = self.body(x)
        return self.end(h).squeeze(1) + (self.label(y) * h).sum(1)
"""
ONE_HOT = """
class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8 + 4, 24), nn.ReLU(), nn.Linear(24, 2))
    def forward(self, z, y):
        return self.net(torch.cat([z, F.one_hot(y, 4).float()], 1))
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 + 4, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    def forward(self, x, y):
        return self.net(torch.cat([x, F.one_hot(y, 4).float()], 1)).squeeze(1)
"""
LOOP = """
gen, judge = Generator(), Judge()
g_opt = torch.optim.Adam(gen.parameters(), lr=0.001, betas=(0.5, 0.9))
d_opt = torch.optim.Adam(judge.parameters(), lr=0.001, betas=(0.5, 0.9))
for step in range(5):
    y, asked = torch.randint(0, 4, (32,)), torch.randint(0, 4, (32,))
    real, z = torch.randn(32, 2) * 0.3 + y[:, None], torch.randn(32, 8)
    fake = gen(z, asked)
"""
JUDGED = """
    d_loss = F.softplus(-judge(real, y)).mean()
    d_loss = d_loss + F.softplus(judge(fake.detach(), {of_fake})).mean(){first}
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    score = judge(fake, {of_score}){second}
    g_loss = F.softplus(-score).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
"""
HERE = "  # HERE"
LATER = {"of_fake": "asked", "of_score": "y", "first": "", "second": HERE}
BEFORE = {"of_fake": "y", "of_score": "asked", "first": HERE, "second": ""}
RIGHT = {"of_fake": "asked", "of_score": "asked", "first": "", "second": ""}
WRONG_PAIRS = """
    d_loss = F.softplus(-judge(real, y)).mean() + F.softplus(judge(real, asked)).mean()
    d_loss = d_loss + F.softplus(judge(fake.detach(), asked)).mean()
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = F.softplus(-judge(fake, asked)).mean() + F.softplus(judge(fake, asked.roll(1)) - 1).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
"""
THERE_AND_BACK = """
    score = judge(fake.detach(), asked) - judge(real, y)
    d_opt.zero_grad()
    F.softplus(score).mean().backward()
    d_opt.step()
    back = gen(torch.cat([fake, z[:, 2:]], 1), y)
    g_loss = F.softplus(-judge(fake, asked)).mean() + F.mse_loss(back, real)
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
"""


@pytest.mark.parametrize("networks", [CAT, PROJECTION, ONE_HOT], ids=["joined", "projected", "one-hot"])
@pytest.mark.parametrize("labels", [LATER, BEFORE], ids=["generator", "judge"])
def test_results_that_other_labels_judge_are_told(networks: str, labels: dict[str, str], tmp_path: Path) -> None:
    assert_first_alarm(HEAD + networks + LOOP + JUDGED.format(**labels), "judged_as_another", tmp_path)


@pytest.mark.parametrize("networks", [CAT, PROJECTION, ONE_HOT], ids=["joined", "projected", "one-hot"])
def test_results_that_their_own_labels_judge_are_right(networks: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + networks + LOOP + JUDGED.format(**RIGHT), tmp_path)


@pytest.mark.parametrize("judged", [WRONG_PAIRS, THERE_AND_BACK], ids=["wrong pairs", "there and back"])
def test_other_labels_may_be_meant(judged: str, tmp_path: Path) -> None:
    assert "judged_as_another" not in {each.cause for each in alarms(HEAD + CAT + LOOP + judged, tmp_path)}


def test_a_decoder_that_is_asked_for_other_labels_is_right(tmp_path: Path) -> None:
    script = f"""{HEAD}
encode, decode, critic = nn.Linear(10 + 4, 6), nn.Linear(6 + 4, 10), nn.Linear(10, 4)
optimizers = [torch.optim.Adam(net.parameters(), lr=0.01) for net in (encode, decode, critic)]
for step in range(6):
    kind, wanted = torch.randint(0, 4, (32,)), torch.randint(0, 4, (32,))
    x = torch.randn(32, 10) + kind[:, None]
    hidden = encode(torch.cat([x, F.one_hot(kind, 4).float()], 1))
    same = decode(torch.cat([hidden, F.one_hot(kind, 4).float()], 1))
    other = decode(torch.cat([hidden, F.one_hot(wanted, 4).float()], 1))
    loss = F.mse_loss(same, x) + F.cross_entropy(critic(other), wanted) + F.cross_entropy(critic(x), kind)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
"""
    assert "judged_as_another" not in {each.cause for each in alarms(script, tmp_path)}


def test_codes_that_an_error_compares_are_no_labels(tmp_path: Path) -> None:
    script = f"""{HEAD}
encode, decode, codes = nn.Linear(6, 4), nn.Linear(4, 6), nn.Embedding(8, 4)
optimizers = [torch.optim.Adam(net.parameters(), lr=0.01) for net in (encode, decode, codes)]
for step in range(4):
    x = torch.randn(16, 6)
    z = encode(x)
    code = codes(torch.cdist(z, codes.weight).argmin(1))
    loss = F.mse_loss(code, z.detach()) + F.mse_loss(z, code.detach()) + F.mse_loss(decode(z + (code - z).detach()), x)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
"""
    assert findings(script, tmp_path) == ()
