"""Divergences, ratios, mixtures and steps of a diffusion in other spellings, and what looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FAULTS = {
    "an evidence lower bound that adds the divergence of weights": (
        "divergence_maximized",
        """\
loc, rho = nn.Parameter(torch.zeros(5)), nn.Parameter(torch.full((5,), -2.0))
optimizer = torch.optim.Adam([loc, rho], lr=0.01)
def complexity():
    s = F.softplus(rho)
    return (0.5 * (s.pow(2) + loc.pow(2) - 1) - s.log()).sum()
for step in range(4):
    x = torch.randn(16, 5)
    w = loc + F.softplus(rho) * torch.randn(5)
    fit = -(x[:, 0] - x @ w).square().sum()
    elbo = fit + complexity()  # HERE
    loss = -elbo"""
        + TRAIN,
    ),
    "exp(2 * log_std) in a divergence that the loss subtracts": (
        "divergence_maximized",
        """\
f, g = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters()], lr=0.01)
for step in range(4):
    x = torch.randn(16, 6)
    mu, ls = f(x).chunk(2, 1)
    z = torch.addcmul(mu, ls.exp(), torch.randn_like(mu))
    kl = (0.5 * (torch.exp(2 * ls) + mu * mu - 1) - ls).sum(1)
    loss = ((g(z) - x).square().sum(1) - kl).mean()  # HERE"""
        + TRAIN,
    ),
    "squares by einsum": (
        "divergence_maximized",
        """\
f, g = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters()], lr=0.01)
for step in range(4):
    x = torch.randn(16, 6)
    mu, raw = f(x).chunk(2, 1)
    s = F.softplus(raw) + 1e-3
    z = mu + s * torch.randn_like(mu)
    square = torch.einsum("nd,nd->n", mu, mu) + torch.einsum("nd,nd->n", s, s)
    kl = 0.5 * (square - 2 - 2 * s.log().sum(1))
    loss = (g(z) - x).square().sum(1).mean().sub(kl.mean())  # HERE"""
        + TRAIN,
    ),
    "kl_div of the posterior's logarithms and a prior": (
        "divergence_turned_around",
        """\
f, g = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=0.01)
prior = torch.tensor([0.4, 0.3, 0.2, 0.1])
for step in range(4):
    x = torch.randn(16, 6)
    logits = f(x)
    code = F.gumbel_softmax(logits, tau=0.7)
    rate = F.kl_div(F.log_softmax(logits, 1), prior.repeat(16, 1), reduction="none").sum(1).mean()  # HERE
    loss = (g(code) - x).square().sum(1).mean() + rate"""
        + TRAIN,
    ),
    "the same by hand": (
        "divergence_turned_around",
        """\
f, g = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=0.01)
prior = torch.tensor([0.4, 0.3, 0.2, 0.1])
for step in range(4):
    x = torch.randn(16, 6)
    log_q = f(x).log_softmax(1)
    code = F.gumbel_softmax(log_q, hard=True)
    rate = (prior * (prior.log() - log_q)).sum(1).mean()  # HERE
    loss = (g(code) - x).square().sum(1).mean() + 0.5 * rate"""
        + TRAIN,
    ),
    "the same with noise by hand": (
        "divergence_turned_around",
        """\
f, g = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=0.01)
for step in range(4):
    x = torch.randn(16, 6)
    log_q = f(x).log_softmax(1)
    gumbel = -torch.empty_like(log_q).exponential_().log()
    code = ((log_q + gumbel) / 0.8).softmax(1)
    rate = F.kl_div(log_q, torch.full_like(log_q, 0.25), reduction="batchmean")  # HERE
    loss = (g(code) - x).square().sum(1).mean() + rate"""
        + TRAIN,
    ),
    "a signal-to-noise ratio as a loss": (
        "fit_maximized",
        """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    y = torch.randn(16, 8)
    error = f(y + torch.randn(16, 8)) - y
    ratio = y.square().sum(1) / (error.square().sum(1) + 1e-8)
    loss = 10 * torch.log10(ratio + 1e-8).mean()  # HERE"""
        + TRAIN,
    ),
    "a signal-to-noise ratio to the target at the scale that fits": (
        "fit_maximized",
        """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
def si_snr(out, y):
    out, y = out - out.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    part = (out * y).sum(1, keepdim=True) * y / (y.pow(2).sum(1, keepdim=True) + 1e-8)
    ratio = part.pow(2).sum(1) / ((out - part).pow(2).sum(1) + 1e-8)
    return 10 * torch.log10(ratio + 1e-8).mean()  # HERE
for step in range(4):
    y = torch.randn(16, 8)
    loss = si_snr(f(y + torch.randn(16, 8)), y)"""
        + TRAIN,
    ),
    "an error that is subtracted, with gradients that are clipped": (
        "fit_maximized",
        """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    y = torch.randn(16, 8)
    optimizer.zero_grad()
    (-F.mse_loss(f(y + torch.randn(16, 8)), y)).backward()  # HERE
    nn.utils.clip_grad_norm_(f.parameters(), 1.0)
    optimizer.step()""",
    ),
    "a peak signal-to-noise ratio as a loss": (
        "fit_maximized",
        """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
def psnr(out, y):
    return 10 * torch.log10(1.0 / F.mse_loss(out, y))  # HERE
for step in range(4):
    y = torch.rand(16, 8)
    loss = psnr(f(y + torch.randn(16, 8)), y)"""
        + TRAIN,
    ),
    "minus the logarithm of an error as a loss": (
        "fit_maximized",
        """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    y = torch.rand(16, 8)
    loss = -10 * F.mse_loss(f(y + torch.randn(16, 8)), y).log10()  # HERE"""
        + TRAIN,
    ),
    "a mixture by logaddexp": (
        "weights_not_normalized",
        """\
f = nn.Linear(3, 6)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    w, m, s = f(x).chunk(3, 1)
    each = w - 0.5 * ((y - m) / s.exp()).square() - s  # HERE
    a, b = each.unbind(1)
    loss = -torch.logaddexp(a, b).mean()"""
        + TRAIN,
    ),
    "a mixture of components that are kept apart": (
        "weights_not_normalized",
        """\
gate, center = nn.Linear(3, 3), nn.Linear(3, 3)
optimizer = torch.optim.Adam([*gate.parameters(), *center.parameters()], lr=0.01)
for step in range(4):
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    density = -0.5 * (y - center(x)).square()
    total = density + gate(x)  # HERE
    result = total[:, 0]
    for k in (1, 2):
        result = torch.logaddexp(result, total[:, k])
    loss = result.mean().neg()"""
        + TRAIN,
    ),
    "noise added with addcmul": (
        "step_not_given",
        """\
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
angle = torch.linspace(0.1, 1.5, 20)
for step in range(4):
    x, eps = torch.randn(16, 3), torch.randn(16, 3)
    t = torch.multinomial(torch.ones(20), 16, replacement=True)
    noisy = torch.addcmul(angle.cos()[t][:, None] * x, angle.sin()[t][:, None], eps)  # HERE
    loss = (net(noisy) - eps).square().mean()"""
        + TRAIN,
    ),
    "noise scaled by einsum in a helper": (
        "step_not_given",
        """\
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
angle = torch.linspace(0.1, 1.5, 20)
def corrupt(x, t, eps):
    a, b = angle.cos().index_select(0, t), angle.sin().index_select(0, t)
    return torch.einsum("n,nd->nd", a, x) + torch.einsum("n,nd->nd", b, eps)
for step in range(4):
    x, eps = torch.randn(16, 3), torch.randn(16, 3)
    t = (torch.rand(16) * 20).long()
    loss = (net(corrupt(x, t, eps)) - eps).square().mean()  # HERE"""
        + TRAIN,
    ),
}
HEALTHY = {
    "an evidence lower bound that subtracts it": """\
loc, rho = nn.Parameter(torch.zeros(5)), nn.Parameter(torch.full((5,), -2.0))
optimizer = torch.optim.Adam([loc, rho], lr=0.01)
for step in range(4):
    x = torch.randn(16, 5)
    s = F.softplus(rho)
    w = loc + s * torch.randn(5)
    fit = -(x[:, 0] - x @ w).square().sum()
    elbo = fit - (0.5 * (s.pow(2) + loc.pow(2) - 1) - s.log()).sum()
    loss = elbo.neg()"""
    + TRAIN,
    "a likelihood with a trained scale": """\
f, raw = nn.Linear(6, 1), nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam([*f.parameters(), raw], lr=0.01)
for step in range(4):
    x = torch.randn(16, 6)
    s = F.softplus(raw)
    loss = (s.log() + 0.5 * ((f(x)[:, 0] - x[:, 0]) / s).square()).mean() + 0.01 * f.weight.square().sum()"""
    + TRAIN,
    "the divergence of the posterior from the prior": """\
f, g = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=0.01)
prior = torch.tensor([0.4, 0.3, 0.2, 0.1])
for step in range(4):
    x = torch.randn(16, 6)
    log_q = f(x).log_softmax(1)
    code = F.gumbel_softmax(log_q)
    rate = torch.einsum("nk,nk->n", log_q.exp(), log_q - prior.log()).mean()
    loss = (g(code) - x).square().sum(1).mean() + rate"""
    + TRAIN,
    "labels that are smoothed by a divergence from a uniform distribution": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    x, y = torch.randn(16, 6), torch.randint(0, 4, (16,))
    log_q = f(x).log_softmax(1)
    loss = F.nll_loss(log_q, y) + 0.1 * F.kl_div(log_q, torch.full_like(log_q, 0.25), reduction="batchmean")"""
    + TRAIN,
    "distillation of a policy that acts": """\
f, g = nn.Linear(6, 4), nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 6)
    log_q = f(x).log_softmax(1)
    action = log_q.detach().exp().multinomial(1)
    teacher = g(x + action).softmax(1).detach()
    loss = F.kl_div(log_q, teacher, reduction="batchmean")"""
    + TRAIN,
    "minus a signal-to-noise ratio": """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    y = torch.randn(16, 8)
    error = f(y + torch.randn(16, 8)) - y
    ratio = torch.einsum("nt,nt->n", y, y) / torch.einsum("nt,nt->n", error, error)
    loss = -10 * torch.log10(ratio).mean()"""
    + TRAIN,
    "minus a signal-to-noise ratio to the target at the scale that fits": """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    y = torch.randn(16, 8)
    out = f(y + torch.randn(16, 8))
    part = (out * y).sum(1, keepdim=True) * y / y.pow(2).sum(1, keepdim=True)
    loss = -10 * torch.log10(part.pow(2).sum(1) / (out - part).pow(2).sum(1)).mean()"""
    + TRAIN,
    "an estimate of the divergence from a reference": """\
embed, head = nn.Embedding(9, 8), nn.Linear(8, 9)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.01)
reference = copy.deepcopy(nn.Sequential(embed, head)).requires_grad_(False)
for step in range(4):
    ids = torch.randint(0, 9, (16, 2))
    for _ in range(4):
        drawn = torch.distributions.Categorical(logits=head(embed(ids[:, -1])).detach()).sample()
        ids = torch.cat([ids, drawn[:, None]], 1)
    score = (ids % 2).float().mean(1)
    advantage = (score - score.mean()) / (score.std() + 1e-4)
    new = head(embed(ids[:, 1:-1])).log_softmax(-1).gather(-1, ids[:, 2:, None]).squeeze(-1)
    ref = reference(ids[:, 1:-1]).log_softmax(-1).gather(-1, ids[:, 2:, None]).squeeze(-1)
    surrogate = (new - new.detach()).exp() * advantage[:, None]
    kl = (ref - new).exp() - (ref - new) - 1
    loss = -(surrogate - 0.04 * kl).mean()"""
    + TRAIN,
    "an error that is subtracted, with gradients that are turned around": """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    y = torch.randn(16, 8)
    optimizer.zero_grad()
    (-F.mse_loss(f(y + torch.randn(16, 8)), y)).backward()
    for p in f.parameters():
        p.grad.mul_(-1.0)
    optimizer.step()""",
    "the logarithm of an error": """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    y = torch.rand(16, 8)
    loss = F.mse_loss(f(y + torch.randn(16, 8)), y).log()"""
    + TRAIN,
    "a contrast of variances that is made small": """\
f = nn.Linear(8, 8)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    z = f(torch.randn(16, 8))
    within = (z[:8] - z[:8].mean(0)).square().sum(1).mean()
    between = (z - z.mean(0)).square().sum(1).mean()
    loss = torch.log10(within / between)"""
    + TRAIN,
    "a mixture by logaddexp with normalized weights": """\
gate, center = nn.Linear(3, 2), nn.Linear(3, 2)
optimizer = torch.optim.Adam([*gate.parameters(), *center.parameters()], lr=0.01)
for step in range(4):
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    a, b = (gate(x).log_softmax(1) - 0.5 * (y - center(x)).square()).unbind(1)
    loss = -torch.logaddexp(a, b).mean()"""
    + TRAIN,
    "steps that the model gets as well": """\
net, embed = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3)), nn.Embedding(20, 3)
optimizer = torch.optim.Adam([*net.parameters(), *embed.parameters()], lr=0.01)
angle = torch.linspace(0.1, 1.5, 20)
for step in range(4):
    x, eps, t = torch.randn(16, 3), torch.randn(16, 3), torch.randint(0, 20, (16,))
    noisy = torch.addcmul(angle.cos()[t][:, None] * x, angle.sin()[t][:, None], eps)
    loss = (net(noisy + embed(t)) - eps).square().mean()"""
    + TRAIN,
    "the scale of the noise that the model gets": """\
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
scales = torch.linspace(0.1, 1.5, 20)
for step in range(4):
    x, eps, t = torch.randn(16, 3), torch.randn(16, 3), torch.randint(0, 20, (16,))
    s = scales[t][:, None]
    loss = (net(torch.cat([torch.addcmul(x, s, eps), s.log()], 1)) - eps).square().mean()"""
    + TRAIN,
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_line_is_told(case: str, tmp_path: Path) -> None:
    cause, script = FAULTS[case]
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_what_looks_alike_and_is_meant_is_quiet(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case], tmp_path) == []


def test_rows_whose_noisy_measurements_a_model_gets(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
data, sensors, model = torch.randn(80, 8), torch.randn(8, 5), nn.Linear(5, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    x = data[torch.randint(80, (20,))]
    clean = x @ sensors
    loss = F.mse_loss(model(clean + 0.05 * torch.randn_like(clean)), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    )
    assert "step_not_given" not in {finding.cause for finding in alarms(script, tmp_path)}
