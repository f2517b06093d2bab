"""Known mistakes in programs without modules, with one line for several losses, and in other words of torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

READS = (
    HEAD + "sizes = dict(tok=(15, 24), q=(24, 24), k=(24, 24), v=(24, 24))\n"
    "net = dict((n, (0.3 * torch.randn(*s)).requires_grad_()) for n, s in sizes.items())\n"
    "optimizer = torch.optim.Adam(net.values(), lr=0.01)\n"
    "for step in range(6):\n    ids = torch.randint(0, 15, (8, 11))\n    x = net['tok'][ids[:, :-1]]\n"
    "    q, k, v = (torch.einsum('btd,de->bte', x, net[n]) for n in 'qkv')\n"
    "    scores = torch.einsum('bie,bje->bij', q, k) / 5\n{}"
    "    weights = scores.softmax(-1)  # HERE\n"
    "    out = (weights @ v) @ net['tok'].T\n"
    "    loss = -out.log_softmax(-1).gather(-1, ids[:, 1:, None]).mean()" + TRAIN
)  # fmt: skip

FAULTS = {
    "a language model of tensors reads what it should predict": (
        "future_visible", READS.format(""),
    ),
    "positions are looked up in the order of the batch": (
        "positions_of_samples",
        HEAD + "tok, pos = nn.Embedding(12, 16), nn.Embedding(64, 16)\nmix = nn.Linear(16, 16)\n"
        "out = nn.Linear(16, 12)\n"
        "optimizer = torch.optim.Adam([*tok.parameters(), *pos.parameters(), *mix.parameters(), *out.parameters()])\n"
        "for step in range(6):\n    ids = torch.randint(0, 12, (20, 9))\n"
        "    x = tok(ids) + pos(torch.arange(len(ids))).unsqueeze(1)  # HERE\n"
        "    x = (mix(x) @ x.mT).softmax(-1) @ x\n    loss = F.cross_entropy(out(x).mT, ids.flip(1))" + TRAIN,
    ),
    "a copy of plain tensors pulls the trained ones back": (
        "average_wrong_way",
        HEAD + "now = [(0.3 * torch.randn(8, 5)).requires_grad_(), torch.zeros(8, requires_grad=True)]\n"
        "old = [w.detach().clone() for w in now]\noptimizer = torch.optim.Adam(now, lr=0.01)\n"
        "for step in range(6):\n    x = torch.randn(16, 5)\n    with torch.no_grad():\n"
        "        goal = 1 + 0.9 * F.linear(x + 1, *old).amax(1)\n"
        "    loss = (F.linear(x, *now)[:, 0] - goal).square().mean()"
        + TRAIN + "    with torch.no_grad():\n        for w, o in zip(now, old):\n"
        "            w.lerp_(o, 0.01)  # HERE\n",
    ),
    "an advantage is turned round, and one line steps for two losses": (
        "advantage_reversed",
        HEAD + "actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)\n"
        "both = [torch.optim.Adam(each.parameters()) for each in (actor, critic)]\n"
        "for step in range(6):\n    s = torch.randn(32, 4)\n"
        "    d = torch.distributions.Categorical(logits=actor(s))\n"
        "    a = d.sample()\n    gain = (a == s[:, :3].argmax(1)).float()\n    value = critic(s)[:, 0]\n"
        "    better = value.detach() - gain  # HERE\n    better = (better - better.mean()) / (better.std() + 1e-8)\n"
        "    first, second = -(d.log_prob(a) * better).mean(), F.mse_loss(value, gain)\n"
        "    for optimizer, loss in zip(both, (first, second)):\n"
        "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n",
    ),
    "an entropy is an einsum": (
        "entropy_minimized",
        HEAD + "w = torch.zeros(7, 5, requires_grad=True)\noptimizer = torch.optim.Adam([w], lr=0.03)\n"
        "for step in range(6):\n    s = torch.randn(32, 7)\n    log = (s @ w).log_softmax(-1)\n"
        "    a = torch.multinomial(log.detach().exp(), 1)\n    gain = s.gather(1, a)\n"
        "    spread = -torch.einsum('ba,ba->b', log.exp(), log)\n"
        "    terms = {'gain': -(log.gather(1, a) * gain).mean(), 'spread': 0.1 * spread.mean()}\n"
        "    loss = torch.stack(list(terms.values())).sum()  # HERE" + TRAIN,
    ),
    "a reshape puts the times before the samples": (
        "axes_mixed_up",
        HEAD + "rnn, out = nn.GRU(5, 16), nn.Linear(16, 1)\n"
        "optimizer = torch.optim.Adam([*rnn.parameters(), *out.parameters()])\n"
        "for step in range(6):\n    x = torch.randn(8, 12, 5)\n    states, _ = rnn(x.reshape(12, 8, 5))  # HERE\n"
        "    loss = (out(states[-1])[:, 0] - x[:, :, 0].sum(1)).square().mean()" + TRAIN,
    ),
    "a second derivative of straight lines has a factor": (
        "second_derivative_zero",
        HEAD + "net = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 1))  # HERE\n"
        "rate = nn.Parameter(torch.zeros(()))\noptimizer = torch.optim.Adam([*net.parameters(), rate])\n"
        "for step in range(6):\n    x = torch.rand(32, 1, requires_grad=True)\n    u = net(x)\n"
        "    slope = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]\n"
        "    bend = torch.autograd.grad(slope, x, torch.ones_like(u), create_graph=True)[0]\n"
        "    loss = (slope - rate.exp() * bend).square().mean() + (u - x.sin()).square().mean()" + TRAIN,
    ),
    "heads are split off before the tokens": (
        "axes_mixed_up",
        HEAD + "qkv, out = nn.Linear(16, 48), nn.Linear(16, 1)\n"
        "optimizer = torch.optim.Adam([*qkv.parameters(), *out.parameters()])\n"
        "for step in range(6):\n    x = torch.randn(8, 10, 16)\n"
        "    q, k, v = (part.reshape(8, 4, 10, 4) for part in qkv(x).chunk(3, -1))  # HERE\n"
        "    x = x + ((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).reshape(8, 10, 16)\n"
        "    loss = (out(x).mean((1, 2)) - x[:, 0, 0]).square().mean()" + TRAIN,
    ),
    "a temperature multiplies": (
        "other_temperature",
        HEAD + "teacher, model = nn.Linear(6, 5), nn.Linear(6, 5)\noptimizer = torch.optim.Adam(model.parameters())\n"
        "T = 4.0\nfor step in range(6):\n    x = torch.randn(32, 6)\n    with torch.no_grad():\n"
        "        goal = teacher(x)\n"
        "    soft = torch.softmax(goal * T, 1)  # HERE\n    log = torch.log_softmax(model(x) * T, 1)\n"
        "    loss = F.kl_div(log, soft, reduction='batchmean') * T**2" + TRAIN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_mistakes_are_told_without_modules_and_in_loops_over_losses(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "a language model of tensors that hides what comes later": READS.format(
        "    scores = scores.masked_fill(torch.ones(10, 10).triu(1).bool(), -torch.inf)\n"
    ),
    "places of a grid that follow each other": HEAD
    + "q = nn.Linear(5, 2)\nold = copy.deepcopy(q).requires_grad_(False)\n"
    "optimizer = torch.optim.Adam(q.parameters())\n"
    "for step in range(8):\n    at = torch.randint(0, 4, (32,))\n"
    "    s, s2 = F.one_hot(at, 5).float(), F.one_hot(at + 1, 5).float()\n"
    "    a, end = torch.randint(0, 2, (32, 1)), (at == 3).float()\n    with torch.no_grad():\n"
    "        goal = end + 0.9 * (1 - end) * old(s2).amax(1)\n"
    "    loss = F.mse_loss(q(s).gather(1, a)[:, 0], goal)" + TRAIN + "    old.load_state_dict(q.state_dict())\n",
    "products of the data that a module is made for": HEAD
    + "class Dual(nn.Module):\n    def __init__(self, x, y):\n        super().__init__()\n"
    "        self.kernel = (x @ x.T + 1) ** 2 * y * y.T\n        self.weights = nn.Parameter(torch.zeros(len(x)))\n"
    "    def forward(self):\n"
    "        return 0.5 * self.weights @ self.kernel @ self.weights - self.weights.sum()\n"
    "x = torch.randn(40, 5)\ndual = Dual(x, x[:, :1].sign())\n"
    "optimizer = torch.optim.SGD(dual.parameters(), lr=1e-4)\n"
    "for step in range(6):\n    loss = dual()" + TRAIN
    + "    with torch.no_grad():\n        dual.weights.clamp_(0, 1)\n",
    "a temperature divides": HEAD
    + "teacher, model = nn.Linear(6, 5), nn.Linear(6, 5)\noptimizer = torch.optim.Adam(model.parameters())\n"
    "for step in range(6):\n    x = torch.randn(32, 6)\n    with torch.no_grad():\n        goal = teacher(x)\n"
    "    log = (model(x) / 4).log_softmax(1)\n"
    "    loss = F.kl_div(log, (goal / 4).softmax(1), reduction='batchmean') * 16" + TRAIN,
    "a model that is told the step of its noise": HEAD
    + "model = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))\n"
    "optimizer = torch.optim.Adam(model.parameters())\nkeep = (1 - torch.linspace(1e-4, 0.02, 50)).cumprod(0)\n"
    "for step in range(6):\n    x, t = torch.randn(16, 2), torch.randint(0, 50, (16,))\n"
    "    noise = torch.randn_like(x)\n"
    "    noisy = keep[t].sqrt()[:, None] * x + (1 - keep[t]).sqrt()[:, None] * noise\n"
    "    loss = F.mse_loss(model(torch.cat([noisy, t[:, None] / 50], 1)), noise)" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_like_such_a_mistake_and_is_right_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)


AVERAGED = """
class Scaler(nn.Module):
    def __init__(self):
        super().__init__()
        {kept}

    def forward(self, x):
        mean = {mean}
        with torch.no_grad():
            {update}
        return x - mean

model = nn.Sequential(Scaler(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = (model(torch.randn(16, 4) + 2) - 1).square().mean()"""
PLAIN_AVERAGES = (
    ("self.mean = torch.zeros(4)  # HERE", "self.mean", "mean.lerp_(x.mean(0), 0.1)"),
    ("self.kept = dict(mean=torch.zeros(4))  # HERE", 'self.kept["mean"]', "mean.mul_(0.9).add_(x.mean(0), alpha=0.1)"),
    ("self.kept = [torch.zeros(4)]  # HERE", "self.kept[0]", "mean.copy_(0.9 * mean + 0.1 * x.var(0))"),
)
OTHER_STATES = (
    ('self.register_buffer("mean", torch.zeros(4))', "self.mean", "mean.lerp_(x.mean(0), 0.1)"),
    ("self.state = torch.zeros(4)", "self.state", "mean.copy_(x[-1])"),
    ("self.state = torch.zeros(4)", "self.state", "mean.zero_()"),
)


@pytest.mark.parametrize(("kept", "mean", "update"), PLAIN_AVERAGES)
def test_running_averages_that_are_no_buffers_are_told(kept: str, mean: str, update: str, tmp_path: Path) -> None:
    script = HEAD + AVERAGED.format(kept=kept, mean=mean, update=update) + TRAIN
    assert_first_alarm(script, "plain_tensor", tmp_path)


@pytest.mark.parametrize(("kept", "mean", "update"), OTHER_STATES)
def test_buffers_and_other_states_are_right(kept: str, mean: str, update: str, tmp_path: Path) -> None:
    script = HEAD + AVERAGED.format(kept=kept, mean=mean, update=update) + TRAIN
    assert "plain_tensor" not in {each.cause for each in alarms(script, tmp_path)}


NORM = """
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        {kept}

    def forward(self, x):
        if self.training:
            mean = x.mean(0)
            with torch.no_grad():
                self.mean.{update}
            return x - mean
        return x - self.mean

def build():
    return nn.Sequential(nn.Linear(4, 4), Norm(), nn.Linear(4, 1))

model, x = build(), torch.randn(64, 4) + 2
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for rows in torch.randperm(64).split(16):
    loss = (model(x[rows]) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{after}
optimizer = torch.optim.SGD(tuned.parameters(), lr=0.01)
for rows in torch.randperm(64).split(16):
    loss = (tuned(x[rows]) - 2).square().mean()"""
RESTORED = "tuned = build()\ntuned.load_state_dict(model.state_dict())\ntuned.eval()"
IN_PLACE = ("lerp_(mean, 0.1)", "mul_(0.9).add_(0.1 * mean.detach())", "copy_(0.9 * self.mean + 0.1 * mean)")


@pytest.mark.parametrize("update", IN_PLACE)
def test_averages_that_a_loaded_state_does_not_bring_are_told(update: str, tmp_path: Path) -> None:
    script = NORM.format(kept="self.mean = torch.zeros(4)  # HERE", update=update, after=RESTORED)
    assert_first_alarm(HEAD + script + TRAIN, "plain_tensor", tmp_path)


@pytest.mark.parametrize(
    ("kept", "after"),
    [
        ('self.register_buffer("mean", torch.zeros(4))', RESTORED),
        ("self.mean = torch.zeros(4)", "tuned = model"),
        ("self.mean = torch.zeros(4)", "tuned = build()"),
    ],
)
def test_averages_that_are_at_hand_are_left_alone(kept: str, after: str, tmp_path: Path) -> None:
    script = HEAD + NORM.format(kept=kept, update=IN_PLACE[0], after=after) + TRAIN
    assert "plain_tensor" not in {each.cause for each in alarms(script, tmp_path)}


SEVERAL = """
class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.rates, self.bias = (1, 2), nn.Parameter(torch.zeros(4))
        {kept}

    def forward(self, x):
        return sum(x @ self.gains[r] for r in {numbers}) + self.bias

model = nn.Sequential(nn.Linear(3, 4), Filter())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = (model(torch.randn(8, 3)) - 1).square().mean()"""
IN_CONTAINERS = (
    ("self.gains = {r: torch.randn(4, 4) / 4 for r in self.rates}  # HERE", "self.rates"),
    ("self.gains = [torch.randn(4, 4) for _ in self.rates]  # HERE", "(0, 1)"),
    ("self.gains = []\n        for _ in self.rates:\n            self.gains.append(torch.rand(4, 4))  # HERE",
     "(0, 1)"),
    ("gains = {}\n        for r in self.rates:\n            gains[r] = torch.randn(4, 4)  # HERE\n"
     "        self.gains = gains", "self.rates"),
    ("self.gains = {\n            r: torch.randn(4, 4)  # HERE\n            for r in self.rates\n        }", "(1, 2)"),
)  # fmt: skip
ELSEWHERE = (
    ("self.gains = nn.ParameterList(torch.randn(4, 4) for _ in self.rates)", "(0, 1)"),
    ("self.gains = [nn.Parameter(torch.randn(4, 4)) for _ in self.rates]", "(0, 1)"),
    ("self.gains = {r: torch.eye(4) * r for r in self.rates}", "self.rates"),
    ("for r in self.rates:\n            self.register_buffer(f'g{r}', torch.randn(4, 4))\n"
     "        self.gains = {r: getattr(self, f'g{r}') for r in self.rates}", "self.rates"),
)  # fmt: skip


@pytest.mark.parametrize(("kept", "numbers"), IN_CONTAINERS)
def test_random_tensors_in_dicts_and_lists_are_told(kept: str, numbers: str, tmp_path: Path) -> None:
    script = HEAD + SEVERAL.format(kept=kept, numbers=numbers) + TRAIN
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [(each.cause, each.location and each.location.line) for each in alarms(script, tmp_path)]
    assert found == [("plain_tensor", here)]


@pytest.mark.parametrize(("kept", "numbers"), ELSEWHERE)
def test_parameters_buffers_and_constants_in_containers_are_right(kept: str, numbers: str, tmp_path: Path) -> None:
    script = HEAD + SEVERAL.format(kept=kept, numbers=numbers) + TRAIN
    assert "plain_tensor" not in {each.cause for each in alarms(script, tmp_path)}


FREQUENCIES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.draw = 3 * torch.randn(2, 8)  # HERE
        self.head = nn.Linear(16, 1)
    def forward(self, x):
        h = x @ self.draw
        return self.head({features})

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = (model(torch.randn(16, 2)) - 1).square().mean()"""


def test_random_fourier_features_are_not_trained(tmp_path: Path) -> None:
    script = HEAD + FREQUENCIES.format(features="torch.cat([(6.28 * h).sin(), (6.28 * h + 0.1).cos()], -1)") + TRAIN
    assert [each.severity for each in findings(script, tmp_path) if each.cause == "plain_tensor"] == ["note"]


def test_a_plain_weight_below_other_functions_is_told(tmp_path: Path) -> None:
    script = HEAD + FREQUENCIES.format(features="torch.cat([h.sin(), h.relu()], -1)") + TRAIN
    assert_first_alarm(script, "plain_tensor", tmp_path)


NOISY = """
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.w_mean = nn.Parameter(torch.randn(1, 4))
        self.w_std = nn.Parameter(torch.full((1, 4), -3.0))
        self.b_mean = nn.Parameter(torch.zeros(1))
        MADE
    def forward(self, x):
        spread = F.linear(x**2, F.softplus(self.w_std) ** 2, F.softplus(self.b_std) ** 2)
        return F.linear(x, self.w_mean, self.b_mean) + spread.sqrt() * torch.randn(len(x), 1)
model = Noisy()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    loss = (model(torch.randn(16, 4)) - 1).square().mean()
"""


def test_a_plain_tensor_with_the_name_of_a_fourth_parameter_is_told(tmp_path: Path) -> None:
    script = HEAD + NOISY.replace("MADE", "self.b_std = torch.full((1,), -3.0)  # HERE") + TRAIN
    assert_first_alarm(script, "plain_tensor", tmp_path)
    assert not alarms(script.replace("b_std", "floor"), tmp_path)
    assert not alarms(
        HEAD + NOISY.replace("MADE", "self.b_std = nn.Parameter(torch.full((1,), -3.0))") + TRAIN, tmp_path
    )
