"""Data that nothing reads, actions whose squashing is not counted, schedules and normalizations that have no effect,
and determinants, in the words of different people; and their healthy look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

COUNTS = (
    HEAD
    + (
        "from torch.utils.data import DataLoader\nmodel = nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
        "data = [\n    {{'x': torch.randn(4), 'n': torch.tensor(float(i % 5)), '{}': torch.rand(()) + 0.1}}\n"
        "    for i in range(48)\n]\n"
        "for batch in DataLoader(data, batch_size=16):\n    rate = model(batch['x']).squeeze(1)\n    {}"
    )
    + TRAIN
)
Q = (
    HEAD
    + (
        "from collections import namedtuple\nBatch = namedtuple('Batch', 'obs act rew nxt done')\n"
        "model = nn.Linear(4, 3)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\nfor step in range(4):\n"
        "    ends = (torch.rand(16) < 0.2).float()\n"
        "    now, next = torch.randn(2, 16, 4)\n"
        "    batch = Batch(now, torch.randint(0, 3, (16,)), torch.rand(16), next, ends)\n"
        "    with torch.no_grad():\n        goal = {}\n"
        "    now = model(batch.obs).gather(1, batch.act[:, None]).squeeze(1)\n    loss = F.mse_loss(now, goal)"
    )
    + TRAIN
)
SQUASH = (
    HEAD
    + (
        "actor, critic = nn.Linear(4, 6), nn.Linear(7, 1)\n"
        "optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.01)\nfor step in range(3):\n"
        "    x = torch.randn(8, 4)\n    loc, s = actor(x).chunk(2, 1)\n    eps = torch.randn_like(loc)\n{}"
        "    loss = (0.1 * log - critic(torch.cat([x, act], 1)).squeeze(1)).mean()"
    )
    + TRAIN
)
SCHEDULE = (
    HEAD
    + (
        "import math\nmodel = nn.Linear(4, 3)\nclass Cosine:\n    def __init__(self, opt):\n"
        "        self.groups = [(group, group['lr']) for group in opt.param_groups]\n    def set(self, i):\n"
        "        for group, peak in self.groups:\n            group['lr'] = peak * (1 + math.cos(i / 3)) / 2\n{}"
        "for step in range(8):\n    x = torch.randn(8, 4)\n    loss = F.mse_loss(model(x), x[:, :3])"
    )
    + TRAIN
    + "    plan.set(step)\n"
)
FIRST, PLAN = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "plan = Cosine(optimizer)\n"
NORM = (
    HEAD
    + (
        "w, v = torch.randn(3, 4, requires_grad=True), torch.randn(1, 3, requires_grad=True)\n"
        "mean, var = torch.zeros(3), torch.ones(3)\noptimizer = torch.optim.SGD([w, v], lr=0.01)\n"
        "def net(x, train):\n    h = F.linear(x, w).mT\n    h = F.batch_norm(h, mean, var, training=train)  # HERE\n"
        "    return F.linear(h.amax(-1), v)\nfor step in range(6):\n"
        "    loss = (net(torch.randn({}, 7, 4), True) - 1).square().mean()"
    )
    + TRAIN
    + "with torch.no_grad():\n    net(torch.randn(9, 7, 4), {})\n"
)
FLOW = (
    HEAD
    + (
        "low, up = nn.Parameter(torch.zeros(4, 4)), nn.Parameter(torch.zeros(4, 4))\ns = nn.Parameter(torch.zeros(4))\n"
        "optimizer = torch.optim.SGD([low, up, s], lr=0.01)\nfor step in range(3):\n"
        "    lower = low.tril(-1) + torch.eye(4)\n    whole = lower @ (up.triu(1) + {})\n{}"
        "    log = {}\n    loss = -(log - 0.5 * y.flatten(1).square().sum(1)).mean()"
    )
    + TRAIN
)
IMAGE = "    y = F.conv2d(torch.randn(8, 4, 5, 5), whole.view(4, 4, 1, 1))\n"
SERIES = "    y = torch.randn(8, 10, 4) @ whole.T\n"
FIELD = (
    HEAD
    + (
        "w = {{'a': torch.randn(1, 16), 'b': torch.zeros(16), 'c': torch.randn(16, 1) / 4}}\n"
        "w = {{k: v.requires_grad_() for k, v in w.items()}}\noptimizer = torch.optim.SGD(list(w.values()), lr=0.001)\n"
        "def act(z):\n    return {}\n"
        "def u(x, w):\n    return (act(x.reshape(1) @ w['a'] + w['b']) @ w['c']).squeeze(-1)\n"
        "bend = torch.func.vmap(torch.func.grad(torch.func.grad(u)), in_dims=(0, None))\n"
        "value = torch.func.vmap(u, in_dims=(0, None))\nfor step in range(4):\n    x = torch.rand(16)\n"
        "    loss = (bend(x, w) + torch.sin(x)).square().mean() + value(torch.tensor([0.0, 1.0]), w).square().mean()"
    )
    + TRAIN
)

SAMPLES = HEAD + (
    "w = {{'a': torch.randn(6, 4) / 2, 'g': torch.ones(6), 'o': torch.zeros(6), 'b': torch.randn(3, 6) / 2}}\n"
    "def losses(w, x, y):\n    h = F.linear(x, w['a'])\n    h = {}\n"
    "    return F.cross_entropy(F.linear(F.relu(h), w['b']), y, reduction='none')\nfor step in range(4):\n"
    "    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))\n    {}\n"
    "    norms = sum(g.flatten(1).square().sum(1) for g in each.values()).sqrt()\n"
    "    w = {{k: v.detach() - 0.1 * (each[k].flatten(1).T / norms).mean(1).view_as(v) for k, v in w.items()}}\n"
)
MIXED = "F.batch_norm(h, None, None, w['g'], w['o'], training=True)  # HERE"
ALL = "each = torch.func.jacrev(losses)(w, x, y)"
ONE_BY_ONE = (
    "w = {k: v.requires_grad_() for k, v in w.items()}\n    part = losses(w, x, y)\n"
    "    rows = [torch.autograd.grad(part[i], list(w.values()), retain_graph=True) for i in range(8)]\n"
    "    each = {k: torch.stack(row) for k, row in zip(w, zip(*rows))}"
)

ATTENTION = (
    HEAD
    + (
        "look, qkv, out = nn.Embedding(9, 8), nn.Linear(8, 24), nn.Linear(8, 9)\nmask = {}\n"
        "optimizer = torch.optim.SGD([*look.parameters(), *qkv.parameters(), *out.parameters()], lr=0.01)\n"
        "for step in range(3):\n    ids = torch.randint(0, 9, (4, 7))\n"
        "    q, k, v = qkv(look(ids[:, :-1])).chunk(3, -1)\n"
        "    weight = torch.baddbmm(mask.expand(4, -1, -1), q, k.mT, alpha=0.35).softmax(-1)  # HERE\n"
        "    loss = F.cross_entropy(out(weight @ v).flatten(0, 1), ids[:, 1:].flatten())"
    )
    + TRAIN
)
NOISE = (
    HEAD
    + (
        "class Noise:\n    @property\n    def rng(self):\n        return {}\n"
        "model, noise, data = nn.Linear(4, 4), Noise(), torch.randn(96, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
        "for step in range(6):\n    x = data[16 * step : 16 * step + 16]\n"
        "    eps = torch.randn(x.shape, generator=noise.rng)\n    loss = F.mse_loss(model(x + eps), eps)"
    )
    + TRAIN
)
MASKED = (
    HEAD
    + """
{kept}
def hidden(count):
    generator = {generator}
    return {mask}
net, data = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(96, 6, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(6):
    x = data[16 * step : 16 * step + 16]
    loss = {loss}
"""
    + TRAIN
)
SEEDED = "torch.Generator().manual_seed(3)"
ORDER = "torch.rand(count, 6, generator=generator).argsort(1)[:, :3]"
COMPARED = "torch.rand(count, 6, generator=generator) < 0.5"
CHOSEN = "(net(x) - x).square().mean(-1).gather(1, hidden(16)).mean()"
FILLED = "(net(x) - x).square().mean(-1).masked_fill(hidden(16), 0).mean()"
CELL = (
    HEAD
    + (
        "cell, head, memory = nn.GRUCell(2, 8), nn.Linear(8, 3), torch.zeros(16, 8)\n"
        "optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.01)\n"
        "x, y = torch.randn(96, 5, 2), torch.randint(0, 3, (96,))\ndef run(frames):\n    global memory\n    h = {}\n"
        "    for frame in frames.unbind(1):\n        h = cell(frame, h)\n"
        "    memory = h.detach(){}\n    return head(h)\n"
        "for rows in torch.randperm(96).split(16):\n    loss = F.cross_entropy(run(x[rows]), y[rows])"
    )
    + TRAIN
)

TOLD = {
    "zeros and ones added in a product": ("mask_without_effect", ATTENTION.format("torch.ones(6, 6).tril()")),
    "a property that seeds a generator": (
        "same_random_numbers", NOISE.format("torch.Generator().manual_seed(7)  # HERE")
    ),
    "an order of numbers that are seeded each time": (
        "same_random_numbers",
        MASKED.format(kept="", generator=SEEDED + "  # HERE", mask=ORDER, loss=CHOSEN),
    ),
    "a mask of numbers that are seeded each time": (
        "same_random_numbers",
        MASKED.format(kept="", generator=SEEDED + "  # HERE", mask=COMPARED, loss=FILLED),
    ),
    "the state of a cell in a loop": ("state_of_other_samples", CELL.format("memory", "  # HERE")),
    "gradients of all samples behind F.batch_norm": ("batch_norm_mixes_points", SAMPLES.format(MIXED, ALL)),
    "gradients of one sample after the other": ("batch_norm_mixes_points", SAMPLES.format(MIXED, ONE_BY_ONE)),
    "exposures in a dict": (
        "loaded_and_not_used",
        COUNTS.format("exposure", "loss = F.poisson_nll_loss(rate, batch['n'])  # HERE"),
    ),
    "exposures beside a distribution": (
        "loaded_and_not_used",
        COUNTS.format(
            "exposure", "loss = -torch.distributions.Poisson(rate.exp()).log_prob(batch['n']).mean()  # HERE"
        ),
    ),
    "ends in a named tuple": (
        "loaded_and_not_used", Q.format("batch.rew + 0.9 * model(batch.nxt).amax(1)  # HERE")
    ),
    "the noise in the log-probability": (
        "squash_not_counted",
        SQUASH.format(
            "    log = (-0.5 * eps.square() - s - 0.919).sum(1)  # HERE\n"
            "    act = torch.addcmul(loc, eps, s.exp()).tanh()\n"
        ),
    ),
    "the noise and the logarithm of a scale": (
        "squash_not_counted",
        SQUASH.format(
            "    std = F.softplus(s)\n    act = torch.tanh(loc + std * eps)\n"
            "    log = (-torch.log(std) - 0.5 * eps**2 - 0.919).sum(1)  # HERE\n"
        ),
    ),
    "a schedule of the optimizer before": (
        "schedule_without_effect",
        SCHEDULE.format(FIRST + PLAN + "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # HERE\n"),
    ),
    "F.batch_norm of one sample": ("batches_of_one_sample", NORM.format(1, False)),
    "scales on the diagonal of a convolution": (
        "log_determinant_of_one_position", FLOW.format("s.exp().diag()", IMAGE, "s.sum()  # HERE")
    ),
    "scales on the diagonal of a product": (
        "log_determinant_of_one_position",
        FLOW.format("torch.diag_embed(s.exp())", SERIES, "s.sum().expand(8)  # HERE"),
    ),
    "where() under torch.func": ("second_derivative_zero", FIELD.format("torch.where(z > 0, z, 0.1 * z)  # HERE")),
    "relu under torch.func": ("second_derivative_zero", FIELD.format("torch.relu(z)  # HERE")),
    "a product with a comparison": ("second_derivative_zero", FIELD.format("z * (z > 0)  # HERE")),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_it_is_told_in_other_words(name: str, tmp_path: Path) -> None:
    cause, script = TOLD[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "minus infinity added in a product": ATTENTION.format("torch.full((6, 6), -torch.inf).triu(1)"),
    "an order of a generator that is kept": MASKED.format(
        kept="kept = " + SEEDED, generator="kept", mask=ORDER, loss=CHOSEN
    ),
    "a mask without a generator": MASKED.format(kept="", generator="None", mask=COMPARED, loss=FILLED),
    "a generator that is kept": NOISE.format("kept").replace("class", "kept = torch.Generator().manual_seed(7)\nclass"),
    "a cell that begins with zeros": CELL.format("torch.zeros(16, 8)", ""),
    "gradients of samples that are normalized alone": SAMPLES.format("F.layer_norm(h, (6,), w['g'], w['o'])", ALL),
    "the same, one after the other": SAMPLES.format("F.group_norm(h, 2, w['g'], w['o'])", ONE_BY_ONE),
    "exposures that are used": COUNTS.format(
        "exposure", "loss = F.poisson_nll_loss(rate + batch['exposure'].log(), batch['n'])"
    ),
    "other data that nothing reads": COUNTS.format("age", "loss = F.poisson_nll_loss(rate, batch['n'])"),
    "weights that may be those of bodies": COUNTS.format("weight", "loss = F.mse_loss(rate, batch['n'])"),
    "ends that are used": Q.format("batch.rew + 0.9 * (1 - batch.done) * model(batch.nxt).amax(1)"),
    "squashing that is counted": SQUASH.format(
        "    act = torch.addcmul(loc, eps, s.exp()).tanh()\n"
        "    log = (-0.5 * eps.square() - s - 0.919 - torch.log(1 - act.square() + 1e-6)).sum(1)\n"
    ),
    "actions that are not squashed": SQUASH.format(
        "    act = torch.addcmul(loc, eps, s.exp())\n    log = (-0.5 * eps.square() - s - 0.919).sum(1)\n"
    ),
    "a schedule of the new optimizer": SCHEDULE.format(
        FIRST + "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n" + PLAN
    ),
    "a schedule of the only optimizer": SCHEDULE.format(FIRST + PLAN),
    "F.batch_norm of several samples": NORM.format(5, False),
    "F.batch_norm of one sample everywhere": NORM.format(1, True),
    "a determinant of all positions": FLOW.format("s.exp().diag()", IMAGE, "25 * s.sum()"),
    "a determinant of the only position": FLOW.format(
        "s.exp().diag()", "    y = torch.randn(8, 4) @ whole.T\n", "s.sum()"
    ),
    "tanh under torch.func": FIELD.format("torch.tanh(z)"),
    "elu by hand under torch.func": FIELD.format("torch.where(z > 0, z, torch.expm1(z.clamp(max=0)))"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_like_it_is_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
