"""Mistakes in losses that are written with other functions of the same mathematics: ``lerp``, ``addcmul``, ``vecdot``,
``einsum``, ``take_along_dim``, ``scatter_add``, ``torch.func.grad``; and their healthy look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = HEAD + "net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 4))\n"
ADAM = "optimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
LOOP = START + ADAM + "for step in range(5):\n    x, y = torch.randn(16, 6), torch.randint(0, 4, (16,))\n"
POLICY = LOOP + (
    "    logp = net(x).log_softmax(-1)\n    p = logp.exp()\n    arm = torch.multinomial(p.detach(), 1)\n"
    "    advantage = torch.randn(16)\n"
)
SEGMENTS = HEAD + (
    "net = nn.Conv2d(1, 1, 3, padding=1)\noptimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
    "for step in range(5):\n    truth = (torch.rand(6, 1, 8, 8) > 0.6).float()\n"
    "    out = net(truth + torch.randn(6, 1, 8, 8))\n"
)
TEACHER = LOOP + "    with torch.no_grad():\n        guide = torch.softmax(teacher(x) / 4.0, -1)\n"
TEACHER = TEACHER.replace("for step", "teacher = nn.Linear(6, 4)\nfor step")
COSINES = LOOP + "    c = F.normalize(centres, dim=1)\n    cos = F.normalize(net(x), dim=1) @ c.T\n"
COSINES = COSINES.replace("for step", "centres = torch.randn(4, 4)\nfor step")
VIEWS = LOOP + "    a, b = net(x + 0.1 * torch.randn(16, 6)), net(x + 0.1 * torch.randn(16, 6))\n"
SCHEDULE = LOOP.replace("4))\n", "6))\n").replace(
    "for step", "abar = torch.cumprod(1 - torch.linspace(1e-3, 0.1, 20), 0)\nfor step"
) + ("    a, noise = abar[torch.randint(0, 20, (16, 1))], torch.randn(16, 6)\n")
FIELD = HEAD + (
    "from torch.func import grad\nnet = nn.Sequential(nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 1))\n"
    + ADAM + "for step in range(5):\n    q, force = torch.randn(16, 3), torch.randn(16, 3)\n"
)  # fmt: skip
SAC = HEAD + (
    "net, log_alpha = nn.Linear(6, 4), nn.Parameter(torch.zeros(()))\n"
    "optimizer = torch.optim.Adam([*net.parameters(), log_alpha], lr=0.01)\n"
    "for step in range(5):\n    score = net(torch.randn(16, 6)).square().sum(1)\n    alpha = log_alpha.detach().exp()\n"
)
RANKED = HEAD + (
    "net = nn.Linear(6, 4)\n" + ADAM + "def score(a, b):\n    return {}\n"
    "def ranking(a, p, n):\n    pos = score(net(a), net(p))\n    neg = score(net(a), net(n))\n    {}\n"
    "for step in range(5):\n"
    "    loss = ranking(torch.randn(16, 6), torch.randn(16, 6), torch.randn(16, 6))" + TRAIN
)

FAULTS = {
    "entropy added with alpha": (
        "entropy_minimized",
        POLICY + "    chosen = torch.take_along_dim(logp, arm, 1).squeeze(1)\n"
        "    loss = torch.add(-torch.dot(chosen, advantage) / 16, torch.special.entr(p).sum(-1).mean(), alpha=0.1)"
        "  # HERE" + TRAIN,
    ),
    "entropy as vecdot, subtracted": (
        "entropy_minimized",
        POLICY + "    chosen = logp.gather(1, arm).squeeze(1)\n"
        "    entropy = torch.linalg.vecdot(p, logp).neg().mean()\n"
        "    loss = (chosen * advantage).mean().neg().add(entropy, alpha=0.1)  # HERE" + TRAIN,
    ),
    "the chosen action by ones and zeros": (
        "entropy_minimized",
        POLICY + "    chosen = (logp * F.one_hot(arm[:, 0], 4)).sum(1)\n    entropy = -(p * logp).sum(1).mean()\n"
        "    loss = torch.lerp(-(chosen * advantage).mean(), entropy, 0.1)  # HERE" + TRAIN,
    ),
    "Jaccard with vecdot": (
        "overlap_of_logits",
        SEGMENTS + "    p, t = out.flatten(1), truth.flatten(1)\n    shared = torch.linalg.vecdot(p, t)  # HERE\n"
        "    joint = torch.add(p, t).sum(-1) - shared\n    loss = 1 - ((shared + 1) / (joint + 1)).mean()" + TRAIN,
    ),
    "Dice with fmin": (
        "overlap_of_logits",
        SEGMENTS + "    shared = torch.fmin(out, truth).sum()  # HERE\n"
        "    loss = 1 - (2 * shared + 1) / (out.sum() + truth.sum() + 1)" + TRAIN,
    ),
    "a divergence by hand": (
        "other_temperature",
        TEACHER + "    logp = torch.log_softmax(net(x), -1)  # HERE\n"
        "    loss = 16 * torch.einsum('nc,nc->n', guide, guide.log() - logp).mean()" + TRAIN,
    ),
    "soft cross entropy of logits less their logsumexp": (
        "other_temperature",
        TEACHER + "    z = net(x)\n    logp = z - z.logsumexp(-1, keepdim=True)  # HERE\n"
        "    loss = -16 * (guide * logp).sum(-1).mean()" + TRAIN,
    ),
    "dropout by hand in a function": (
        "dropout_before_loss",
        LOOP.replace("for step", "def thin(h):\n    return h.where(torch.rand_like(h) > 0.1, 0.0) / 0.9\nfor step")
        + "    h = thin(net[:2](x))\n    out = thin(net[2](h))  # HERE\n    loss = F.l1_loss(out, x[:, :4])" + TRAIN,
    ),
    "a Bernoulli mask before a difference": (
        "dropout_before_loss",
        LOOP + "    out = net(x)\n    out = out * torch.bernoulli(torch.full_like(out, 0.8)).bool()  # HERE\n"
        "    loss = torch.sub(out, x[:, :4]).square().mean()" + TRAIN,
    ),
    "the margin is scattered": (
        "margin_in_favour",
        COSINES + "    cos = cos.scatter_add(1, y[:, None], torch.full((16, 1), 0.2))  # HERE\n"
        "    loss = F.cross_entropy(10 * cos, y)" + TRAIN,
    ),
    "the margin is subtracted with a negative sign": (
        "margin_in_favour",
        COSINES + "    cos = cos.sub(F.one_hot(y, 4), alpha=-0.2)  # HERE\n"
        "    loss = F.cross_entropy(10 * cos, y)" + TRAIN,
    ),
    "the margin is put into the right places": (
        "margin_in_favour",
        COSINES + "    rows = torch.arange(16)\n    cos[rows, y] = cos[rows, y] + 0.2  # HERE\n"
        "    loss = F.cross_entropy(10 * cos, y)" + TRAIN,
    ),
    "the squared distance as a product": (
        "nothing_keeps_apart", VIEWS + "    d = a - b\n    loss = (d * d).sum(1).mean()  # HERE" + TRAIN,
    ),
    "the squared distance as vecdot": (
        "nothing_keeps_apart", VIEWS + "    loss = torch.linalg.vecdot(a - b, a - b).mean()  # HERE" + TRAIN,
    ),
    "the squared distance as einsum": (
        "nothing_keeps_apart",
        VIEWS + "    d = a.sub(b)\n    loss = torch.einsum('nd,nd->n', d, d).mean()  # HERE" + TRAIN,
    ),
    "mixed with lerp": (
        "mixed_without_root",
        SCHEDULE + "    noisy = torch.lerp(noise, x, a)  # HERE\n    loss = F.mse_loss(net(noisy), noise)" + TRAIN,
    ),
    "mixed with addcmul": (
        "mixed_without_root",
        SCHEDULE + "    noisy = torch.addcmul(a.sqrt() * x, 1 - a, noise)  # HERE\n"
        "    loss = F.mse_loss(net(noisy), noise)" + TRAIN,
    ),
    "a schedule of summed logarithms": (
        "mixed_without_root",
        SCHEDULE.replace(
            "torch.cumprod(1 - torch.linspace(1e-3, 0.1, 20), 0)",
            "torch.linspace(1e-3, 0.1, 20).neg().log1p().cumsum(0).exp()",
        )
        + "    noisy = a * x + (1 - a) * noise  # HERE\n    loss = F.mse_loss(net(noisy), noise)" + TRAIN,
    ),
    "the derivative of a mean by torch.func": (
        "derivative_of_mean",
        FIELD + "    loss = F.mse_loss(grad(lambda q: net(q).mean())(q).neg(), force)  # HERE" + TRAIN,
    ),
    "one norm of the slopes by torch.func": (
        "one_norm_for_all_samples",
        FIELD + "    slope = grad(lambda q: net(q).sum())(q)\n"
        "    loss = net(q).mean() + (torch.linalg.vector_norm(slope) - 1).square()  # HERE" + TRAIN,
    ),
    "one optimizer for policy and multiplier": (
        "multiplier_not_detached",
        SAC + "    actor = torch.addcmul(score.sqrt(), alpha, -score).mean()\n"
        "    loss = actor - log_alpha * (2.0 - score.mean())  # HERE" + TRAIN,
    ),
    "scores by vecdot, in a function": (
        "negative_preferred",
        RANKED.format("torch.linalg.vecdot(a, b)", "return F.softplus(pos - neg).mean()  # HERE"),
    ),
    "scores by einsum": (
        "negative_preferred",
        RANKED.format("torch.einsum('nd,nd->n', a, b)", "return -F.logsigmoid(neg - pos).mean()  # HERE"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_losses_of_other_functions_are_told(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "entropy is subtracted with alpha": POLICY + "    chosen = torch.take_along_dim(logp, arm, 1).squeeze(1)\n"
    "    loss = torch.sub(-(chosen * advantage).mean(), torch.special.entr(p).sum(-1).mean(), alpha=0.1)" + TRAIN,
    "Jaccard of probabilities": SEGMENTS + "    p, t = out.sigmoid().flatten(1), truth.flatten(1)\n"
    "    shared = torch.linalg.vecdot(p, t)\n    loss = 1 - ((shared + 1) / (p.sum(1) + t.sum(1) - shared + 1)).mean()"
    + TRAIN,
    "both temperatures": TEACHER + "    logp = torch.log_softmax(net(x) / 4.0, -1)\n"
    "    loss = 16 * torch.einsum('nc,nc->n', guide, guide.log() - logp).mean()" + TRAIN,
    "a mask of both sides": LOOP + "    keep = torch.rand(16, 4) > 0.5\n"
    "    loss = F.l1_loss(net(x).where(keep, 0.0), x[:, :4].where(keep, 0.0))" + TRAIN,
    "a dropout between layers": LOOP + "    h = net[:2](x)\n    h = h.where(torch.rand_like(h) > 0.1, 0.0) / 0.9\n"
    "    loss = F.cross_entropy(net[2](h), y)" + TRAIN,
    "a margin against the right class": COSINES
    + "    cos = cos.scatter_add(1, y[:, None], torch.full((16, 1), -0.2))\n"
    "    cos = cos.add(F.one_hot(y, 4), alpha=-0.1)\n"
    "    loss = F.cross_entropy(10 * cos, y)" + TRAIN,
    "a bonus for another class": COSINES + "    other = (y + 1) % 4\n"
    "    cos = cos.scatter_add(1, other[:, None], torch.full((16, 1), 0.2))\n    loss = F.cross_entropy(10 * cos, y)"
    + TRAIN,
    "a distance to what is detached": VIEWS + "    d = a - b.detach()\n"
    "    loss = torch.linalg.vecdot(d, d).mean()" + TRAIN,
    "a distance that a variance keeps": VIEWS + "    d = a - b\n"
    "    loss = (d * d).sum(1).mean() + F.relu(1 - a.std(0)).mean() + F.relu(1 - b.std(0)).mean()" + TRAIN,
    "mixed with roots": SCHEDULE + "    noisy = torch.addcmul(a.sqrt() * x, (1 - a).sqrt(), noise)\n"
    "    loss = F.mse_loss(net(torch.cat([noisy[:, 1:], a], 1)), noise)" + TRAIN,
    "a straight path": SCHEDULE + "    t = torch.rand(16, 1)\n    noisy = torch.lerp(noise, x, t)\n"
    "    loss = F.mse_loss(net(noisy), x - noise)" + TRAIN,
    "the derivative of a sum by torch.func": FIELD
    + "    loss = F.mse_loss(grad(lambda q: net(q).sum())(q).neg(), force)" + TRAIN,
    "norms of each sample by torch.func": FIELD + "    slope = grad(lambda q: net(q).sum())(q)\n"
    "    loss = net(q).mean() + (torch.linalg.vector_norm(slope, dim=1) - 1).square().mean()" + TRAIN,
    "the quantity of the multiplier is detached": SAC
    + "    actor = torch.addcmul(score.sqrt(), alpha, -score).mean()\n"
    "    loss = actor - log_alpha * (2.0 - score.detach().mean())" + TRAIN,
    "energies of a layer": RANKED.format("net2(a * b).squeeze(1)", "return F.softplus(pos - neg).mean()").replace(
        "net = nn.Linear(6, 4)\n", "net, net2 = nn.Linear(6, 4), nn.Linear(4, 1)\n"
    ).replace("net.parameters()", "[*net.parameters(), *net2.parameters()]"),
    "the positive is preferred": RANKED.format("torch.linalg.vecdot(a, b)", "return F.softplus(neg - pos).mean()"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_losses_of_other_functions_may_be_right(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
