"""Known mistakes as other people write them: terms collected in lists, helper functions, gradients asked for by hand,
parameters shared between modules, batches taken apart; and their healthy look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = HEAD + "import torch.distributions as D\nmodel = nn.Sequential(nn.Linear(6, 24), nn.{}, nn.Linear(24, 1))\n"
OPTIMIZER = "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n"
LOOP = MODEL.format("Tanh()") + OPTIMIZER + "for step in range(6):\n    x, y = torch.randn(32, 6), torch.randn(32, 1)\n"

TERMS = {
    "a penalty without its graph, in a list that is stacked": (
        "create_graph_missing",
        LOOP + "    x.requires_grad_()\n    out = model(x)\n    parts = [F.mse_loss(out, y)]\n"
        "    slope, = torch.autograd.grad(out.sum(), x, retain_graph=True)  # HERE\n"
        "    parts.append(0.1 * (slope.norm(dim=1) - 1).square().mean())\n    loss = torch.stack(parts).sum()" + TRAIN,
    ),
    "a penalty on the values of a state_dict": (
        "term_without_gradient",
        LOOP + "    size = torch.zeros(())\n    for name, value in model.state_dict().items():  # HERE\n"
        "        size = size + value.square().sum()\n"
        "    losses = dict(fit=F.mse_loss(model(x), y), size=0.01 * size)\n"
        "    loss = torch.stack(list(losses.values())).sum()" + TRAIN,
    ),
    "a weighted term of data alone": (
        "term_without_gradient",
        LOOP + "    rough = 0.5 * (x[:, 1:] - x[:, :-1]).abs().mean()  # HERE\n"
        "    loss = F.mse_loss(model(x), y) + rough" + TRAIN,
    ),
    "what was drawn is detached": (
        "sampled_without_gradient",
        LOOP + "    h = model[0](x)\n    noise = torch.randn_like(h)\n"
        "    code = (h + 0.1 * h.exp() * noise).detach()  # HERE\n"
        "    loss = F.mse_loss(model[2](code), y) + 0.1 * (h.exp() + h.square() - h).mean()" + TRAIN,
    ),
    "a Dirichlet distribution": (
        "sampled_without_gradient",
        LOOP + "    q = D.Dirichlet(F.softplus(model[0](x)) + 0.1)\n    share = q.sample()  # HERE\n"
        "    kl = D.kl_divergence(q, D.Dirichlet(torch.ones(24))).mean()\n"
        "    loss = F.mse_loss(model[2](share), y) + 0.1 * kl" + TRAIN,
    ),
}


@pytest.mark.parametrize("name", TERMS)
def test_terms_are_told_however_they_are_collected(name: str, tmp_path: Path) -> None:
    cause, script = TERMS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY_TERMS = {
    "actions whose log-probability has a weight": LOOP
    + "    d = D.Normal(model(x), 0.5)\n    a = d.rsample().detach()\n"
    "    loss = -(d.log_prob(a) * (1 - (a - y).square())).mean() - 0.01 * d.entropy().mean()" + TRAIN,
    "a hinge that is satisfied": LOOP
    + "    far = (model(x).square() - 9).clamp(min=0)\n    loss = F.mse_loss(model(x), y) + far.mean()" + TRAIN,
    "a distribution with a constant scale": LOOP
    + "    q = D.Independent(D.Normal(model[0](x), 1.0), 1)\n    code = q.rsample()\n"
    "    fit = D.Normal(model[2](code), 0.5).log_prob(y).mean()\n"
    "    loss = D.kl_divergence(q, D.Independent(D.Normal(torch.zeros(24), torch.ones(24)), 1)).mean() - fit"
    + TRAIN + "    total = float(loss)\n",
    "the constant part of a divergence": LOOP
    + "    p = torch.softmax(torch.randn(32, 24), 1)\n    log = model[0](x).log_softmax(1)\n"
    "    loss = (p * p.log()).sum(1).mean() - (p * log).sum(1).mean() + F.mse_loss(model(x), y)" + TRAIN,
    "terms that are stacked": LOOP
    + "    losses = [F.mse_loss(model(x), y), 0.01 * sum(p.square().sum() for p in model.parameters())]\n"
    "    loss = torch.stack(losses).sum()" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY_TERMS)
def test_constants_and_stacked_terms_may_be_right(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY_TERMS[name], tmp_path)


FIELD = (
    HEAD + "model = nn.Sequential(nn.Linear(1, 24), {}, nn.Linear(24, 1))  # HERE\n" + OPTIMIZER
    + "for step in range(4):\n    x = torch.rand(32, 1, requires_grad=True)\n    u = model(x)\n"
    "    slope = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]\n"
    "    bend = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]\n"
    "    loss = (bend + x.sin()).square().mean() + model(torch.zeros(1, 1)).square().mean()" + TRAIN
)  # fmt: skip


@pytest.mark.parametrize("kind", ["nn.LeakyReLU(0.1)", "nn.Hardtanh()", "nn.PReLU()"])
def test_second_derivatives_of_straight_lines_are_told(kind: str, tmp_path: Path) -> None:
    assert_first_alarm(FIELD.format(kind), "second_derivative_zero", tmp_path)


def test_second_derivatives_of_a_smooth_network_are_right(tmp_path: Path) -> None:
    assert not alarms(FIELD.format("nn.SiLU()"), tmp_path)


ADDED_UP = {
    "a function decides when to step": "seen = 0\ndef advance():\n    global seen\n    seen += 1\n"
    "    if seen % 4:\n        return\n    optimizer.step()\n    optimizer.zero_grad()\n"
    "for step in range(16):\n    x = torch.randn(8, 6)\n    F.mse_loss(model(x), x[:, :1]).backward()  # HERE\n"
    "    advance()\n",
    "a batch is split": "for step in range(4):\n    optimizer.zero_grad()\n"
    "    for x in torch.split(torch.randn(32, 6), 8):\n        F.mse_loss(model(x), x[:, :1]).backward()  # HERE\n"
    "    optimizer.step()\n",
    "slices of a batch": "for step in range(4):\n    whole = torch.randn(32, 6)\n    optimizer.zero_grad()\n"
    "    for i in range(0, 32, 8):\n        x = whole[i:i + 8]\n"
    "        F.mse_loss(model(x), x[:, :1]).backward()  # HERE\n    optimizer.step()\n",
}


@pytest.mark.parametrize("name", ADDED_UP)
def test_gradients_of_several_batches_that_nothing_divides_are_told(name: str, tmp_path: Path) -> None:
    script = MODEL.format("Tanh()") + OPTIMIZER + ADDED_UP[name]
    assert_first_alarm(script, "accumulation_undivided", tmp_path)


DIVIDED = {
    "gradients are divided, and a second loss is a sum": "for step in range(4):\n    whole = torch.randn(32, 6)\n"
    "    optimizer.zero_grad()\n    for x in whole.chunk(4):\n        F.mse_loss(model(x), x[:, :1]).backward()\n"
    "    for p in model.parameters():\n        p.grad.div_(4)\n    optimizer.step()\n    optimizer.zero_grad()\n"
    "    for x in whole.chunk(4):\n        (F.mse_loss(model(x), x[:, :1], reduction='sum') / 32).backward()\n"
    "    optimizer.step()\n",
    "each task has its own loss": "for step in range(4):\n    optimizer.zero_grad()\n    for task in range(3):\n"
    "        x = torch.randn(8, 6) + task\n        F.mse_loss(model(x), x[:, :1]).backward()\n    optimizer.step()\n",
}


@pytest.mark.parametrize("name", DIVIDED)
def test_gradients_that_are_divided_and_sums_over_tasks_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL.format("Tanh()") + OPTIMIZER + DIVIDED[name], tmp_path)


PARAMETERS = {
    "gradients are returned, and nobody assigns them": (
        "step_without_effect",
        LOOP + "    loss = F.mse_loss(model(x), y)\n"
        "    grads = torch.autograd.grad(loss, list(model.parameters()))  # HERE\n"
        "    optimizer.step()\n",
    ),
    "a group is frozen after a pretraining": (
        "requires_grad_false",
        LOOP + "    loss = F.mse_loss(model(x), y)" + TRAIN
        + "for p in model.parameters():\n    p.requires_grad = False  # HERE\nhead = nn.Linear(1, 1)\n"
        "groups = [{'params': model[2].parameters()}, {'params': head.parameters()}]\n"
        "optimizer = torch.optim.SGD(groups, lr=0.1)\nfor step in range(4):\n"
        "    loss = F.mse_loss(head(model(x)), y)" + TRAIN,
    ),
    "a weight is that of a frozen module": (
        "requires_grad_false",
        HEAD + "class Words(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.embed = nn.Embedding.from_pretrained(torch.randn(20, 8))\n"
        "        self.rnn, self.out = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)\n"
        "        self.out.weight = self.embed.weight  # HERE\n"
        "    def forward(self, x):\n        return self.out(self.rnn(self.embed(x))[0])\n"
        "model = Words()\noptimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])\n"
        "for step in range(4):\n    x = torch.randint(0, 20, (8, 7))\n"
        "    loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())" + TRAIN,
    ),
    "one of several modules of a class is used": (
        "unused_parameter",
        HEAD + "class Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.inner = nn.Linear(6, 6)\n    def forward(self, x):\n        return x + self.inner(x).relu()\n"
        "blocks = nn.ModuleList(Block() for _ in range(3))  # HERE\n"
        "optimizer = torch.optim.Adam(blocks.parameters())\n"
        "for step in range(4):\n    loss = blocks[0](torch.randn(8, 6)).square().mean()" + TRAIN,
    ),
    "the weight of what an agent did without gradients is trained": (
        "gradient_into_target",
        HEAD + "actor, critic = nn.Linear(5, 3), nn.Linear(5, 1)\n"
        "optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])\n"
        "for step in range(6):\n    seen = []\n    for _ in range(4):\n        s = torch.randn(16, 5)\n"
        "        with torch.no_grad():\n            a = actor(s).softmax(1).multinomial(1)[:, 0]\n"
        "        seen.append((s, a, (a == s[:, :3].argmax(1)).float()))\n"
        "    s, a, r = (torch.stack(each) for each in zip(*seen))\n"
        "    value = critic(s)[..., 0]\n    log = actor(s).log_softmax(-1)\n"
        "    picked = torch.take_along_dim(log, a[..., None], -1)[..., 0]\n"
        "    gain = -(picked * (r - value)).mean()  # HERE\n    loss = gain + F.mse_loss(value, r)" + TRAIN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_that_do_not_learn_what_they_should_are_told(name: str, tmp_path: Path) -> None:
    cause, script = PARAMETERS[name]
    assert_first_alarm(script, cause, tmp_path)


def test_a_step_by_hand_in_place_is_right(tmp_path: Path) -> None:
    script = LOOP.replace("for step", "gate = nn.Parameter(torch.ones(6))\nfor step")
    script += "    loss = F.mse_loss(model(x * gate), y)\n    slope, = torch.autograd.grad(loss, gate)\n"
    script += "    loss = F.mse_loss(model(x * gate.detach()), y)" + TRAIN
    script += "    with torch.no_grad():\n        gate.sub_(slope, alpha=0.02)\n"
    assert not [each for each in alarms(script, tmp_path) if each.cause == "steps_from_the_start"]


COPIES = {
    "a shallow copy of a model": (
        "copied_onto_itself",
        LOOP.replace("for step", "target = copy.copy(model)  # HERE\nfor step")
        + "    with torch.no_grad():\n        goal = y + 0.9 * target(x + 1)\n"
        "    loss = F.mse_loss(model(x), goal)" + TRAIN
        + "    target.load_state_dict(model.state_dict())\n",
    ),
    "an average of what detach() gives": (
        "copied_onto_itself",
        LOOP.replace("for step", "slow = {n: p.detach() for n, p in model.named_parameters()}  # HERE\nfor step")
        + "    loss = F.mse_loss(model(x), y)" + TRAIN + "    with torch.no_grad():\n"
        "        for n, p in model.named_parameters():\n            slow[n].mul_(0.9).add_(p, alpha=0.1)\n",
    ),
    "an optimizer of its own that changes a copy": (
        "update_discarded",
        LOOP.replace(OPTIMIZER, "speed = {n: torch.zeros_like(p) for n, p in model.named_parameters()}\n")
        + "    loss = F.mse_loss(model(x), y)\n    model.zero_grad()\n    loss.backward()\n"
        "    with torch.no_grad():\n        new = copy.deepcopy(model.state_dict())\n"
        "        for n, p in model.named_parameters():\n            speed[n].mul_(0.9).add_(p.grad)\n"
        "            new[n] -= 0.1 * speed[n].sign()  # HERE\n",
    ),
    "new values of all parameters as one vector": (
        "update_discarded",
        LOOP.replace(OPTIMIZER, "") + "    loss = F.mse_loss(model(x), y)\n"
        "    slope = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(model.parameters()))])\n"
        "    flat = nn.utils.parameters_to_vector(model.parameters()).detach()\n    flat -= 0.1 * slope  # HERE\n",
    ),
    "a ratio of two probabilities that have gradients": (
        "ratio_always_one",
        LOOP + "    def share(x):\n        return model(x).sigmoid()\n    old = share(x)  # HERE\n"
        "    new = share(x)\n    loss = -(new / old * y).mean() + 0.01 * model[0].weight.square().mean()" + TRAIN,
    ),
    "a reference whose layers are called one by one": (
        "training_mode",
        HEAD + "net = nn.ModuleDict({'a': nn.Linear(6, 24), 'drop': nn.Dropout(0.3), 'b': nn.Linear(24, 1)})\n"
        "old = copy.deepcopy(net)  # HERE\noptimizer = torch.optim.Adam(net.parameters())\n"
        "def run(parts, x):\n    return parts['b'](parts['drop'](parts['a'](x).relu()))\n"
        "for step in range(6):\n    x = torch.randn(16, 6)\n    with torch.no_grad():\n        goal = run(old, x)\n"
        "    loss = F.mse_loss(run(net, x), goal + 1)" + TRAIN,
    ),
    "a teacher that train() of its student switches back": (
        "training_mode",
        HEAD + "class Student(nn.Module):\n    def __init__(self, teacher):\n        super().__init__()\n"
        "        self.teacher, self.own = teacher.eval().requires_grad_(False), nn.Linear(6, 3)\n"
        "    def forward(self, x):\n        with torch.no_grad():\n            goal = self.teacher(x)\n"
        "        return F.mse_loss(self.own(x), goal)\n"
        "model = Student(nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Dropout(0.5), nn.Linear(9, 3)))\n"
        "optimizer = torch.optim.Adam(model.own.parameters())\nfor epoch in range(3):\n    model.train()  # HERE\n"
        "    for step in range(3):\n        loss = model(torch.randn(16, 6))" + TRAIN.replace("\n", "\n    "),
    ),
    "an evaluation of batch normalization in training mode": (
        "training_mode",
        HEAD + "model = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3))\n"
        + OPTIMIZER + "for step in range(6):\n    x = torch.randn(16, 6)\n"
        "    loss = F.cross_entropy(model(x), x[:, :3].argmax(1))" + TRAIN
        + "    with torch.no_grad():\n        x = torch.randn(8, 6)\n        out = model(x)\n"
        "        right = (out.argmax(1) == x[:, :3].argmax(1)).sum().item()  # HERE\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_copies_references_and_updates_that_do_nothing_are_told(name: str, tmp_path: Path) -> None:
    cause, script = COPIES[name]
    found = [(each.cause, each.location and each.location.line) for each in alarms(script, tmp_path)]
    here = next((number for number, line in enumerate(script.splitlines(), 1) if "# HERE" in line), None)
    assert found[:1] == [(cause, here)]


BOUND = (
    MODEL.format("Tanh()") + "code, back = nn.Linear(6, 4), nn.Linear(2, 6)\n"
    "optimizer = torch.optim.Adam([*code.parameters(), *back.parameters()])\n"
    "prior = D.Normal(torch.zeros(2), torch.ones(2))\n"
    "for step in range(6):\n    x = torch.randn(32, 6)\n    mean, raw = code(x).chunk(2, 1)\n"
    "    q = D.Normal(mean, F.softplus(raw) + 0.01)\n    error = (back(q.rsample()) - x).square().sum(1)\n"
    "    {}" + TRAIN
)  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "cause"),
    [
        ("loss = (error - D.kl_divergence(q, prior).sum(1)).mean()  # HERE", "divergence_maximized"),
        ("loss = (error + D.kl_divergence(prior, q).sum(1)).mean()  # HERE", "divergence_turned_around"),
        ("loss = (error + D.kl_divergence(q, prior).sum(1)).mean()", None),
    ],
)
def test_divergences_of_distributions_are_told_if_they_are_wrong(loss: str, cause: str | None, tmp_path: Path) -> None:
    if cause is None:
        assert not alarms(BOUND.format(loss), tmp_path)
    else:
        assert_first_alarm(BOUND.format(loss), cause, tmp_path)


PLACES = {
    "positions along the second axis come twice": (
        "duplicate_index",
        HEAD + "weigh = nn.Linear(8, 1)\noptimizer = torch.optim.Adam(weigh.parameters())\n"
        "for step in range(6):\n    x, ids = torch.randn(16, 10, 8), torch.randint(0, 15, (16, 10))\n"
        "    part = weigh(x)[..., 0].softmax(1)\n"
        "    p = torch.zeros(16, 15).scatter(1, ids, part)  # HERE\n"
        "    loss = -(p + 1e-6).log()[:, 3].mean()" + TRAIN,
    ),
    "classes are gathered along another axis": (
        "wrong_axis",
        HEAD + "out = nn.Linear(8, 11)\noptimizer = torch.optim.Adam(out.parameters())\n"
        "for step in range(6):\n    x, y = torch.randn(16, 9, 8), torch.randint(0, 11, (16, 9))\n"
        "    log = torch.log_softmax(out(x), dim=1)  # HERE\n"
        "    loss = -log.gather(-1, y.unsqueeze(-1)).mean()" + TRAIN,
    ),
    "classes are flattened with their samples": (
        "wrong_axis",
        HEAD + "out = nn.Linear(8, 11)\noptimizer = torch.optim.Adam(out.parameters())\n"
        "for step in range(6):\n    x, y = torch.randn(16, 9, 8), torch.randint(0, 11, (16, 9))\n"
        "    log = out(x).log_softmax(1)  # HERE\n"
        "    loss = F.nll_loss(log.reshape(-1, 11), y.reshape(-1))" + TRAIN,
    ),
    "a softmax is a module of another line": (
        "normalized_twice",
        HEAD + "model = nn.Sequential(nn.Linear(6, 3), nn.Softmax(-1))  # HERE\n" + OPTIMIZER
        + "for step in range(6):\n    x = torch.randn(16, 6)\n"
        "    loss = F.cross_entropy(model(x), x[:, :3].argmax(1))" + TRAIN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_axes_and_positions_are_told_where_they_are_chosen(name: str, tmp_path: Path) -> None:
    cause, script = PLACES[name]
    assert_first_alarm(script, cause, tmp_path)


IN_A_FUNCTION = (
    HEAD + "def main():\n    model = nn.Linear(4, 1)\n"
    "    optimizer = torch.optim.Adam(model.parameters(), lr={})  # HERE\n"
    "    for step in range(5):\n        optimizer.zero_grad()\n"
    "        model(torch.randn(8, 4)).square().mean().backward()\n        optimizer.step()\n\nmain()\n"
)  # fmt: skip


def test_classes_of_each_position_are_no_probabilities(tmp_path: Path) -> None:
    script = (
        HEAD + "model = nn.Conv1d(1, 2, 5, padding=2)\n" + OPTIMIZER
        + "for step in range(6):\n    x = torch.randn(6, 1, 20)\n"
        "    loss = F.cross_entropy(model(x), (x[:, 0] > 0).long())" + TRAIN
    )  # fmt: skip
    assert not alarms(script, tmp_path)


def test_a_gradient_that_is_taken_away_before_its_step_by_hand_is_clear(tmp_path: Path) -> None:
    script = LOOP.replace("for step", "gate = nn.Parameter(torch.ones(6))\nfor step")
    script += "    loss = F.mse_loss(model(x * gate), y)\n    loss.backward()\n    slope = gate.grad.clone()\n"
    script += "    gate.grad = None\n    optimizer.step()\n    optimizer.zero_grad()\n"
    script += "    with torch.no_grad():\n        gate.sub_(slope, alpha=0.02)\n"
    assert not alarms(script, tmp_path)


def test_parameters_that_are_freed_before_the_end_are_compared_as_well(tmp_path: Path) -> None:
    assert_first_alarm(IN_A_FUNCTION.format("0.0"), "step_without_effect", tmp_path)
    assert not alarms(IN_A_FUNCTION.format("0.1"), tmp_path)


def test_one_of_two_optimizers_that_steps_behind_the_loop_is_told(tmp_path: Path) -> None:
    script = (
        HEAD + "made, judge = nn.Linear(4, 6), nn.Linear(6, 1)\n"
        "first, second = torch.optim.Adam(made.parameters()), torch.optim.Adam(judge.parameters())\n"
        "for step in range(5):\n    fake = made(torch.randn(8, 4))\n    second.zero_grad()  # HERE\n"
        "    (judge(fake.detach()).mean() - judge(torch.randn(8, 6)).mean()).backward()\n"
        "    first.zero_grad()\n    (-judge(fake).mean()).backward()\n    first.step()\nsecond.step()\n"
    )
    assert_first_alarm(script, "missing_zero_grad", tmp_path)


AVERAGED = (
    HEAD + "import copy\n\nclass Pair(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.online = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))\n"
    "        self.head = nn.Linear(4, 4)\n"
    "        self.target = copy.deepcopy(self.online).requires_grad_(False)\n\ndef main():\n"
    "    pair = Pair()\n    optimizer = torch.optim.SGD({}, lr=0.05)\n    for step in range(6):\n"
    "        x = torch.randn(16, 6)\n        with torch.no_grad():\n            wanted = pair.target(x)\n"
    "        loss = F.mse_loss(pair.head(pair.online(x)), wanted)\n        optimizer.zero_grad()\n"
    "        loss.backward()\n        optimizer.step()\n        with torch.no_grad():\n"
    "            for slow, quick in zip(pair.target.parameters(), pair.online.parameters()):\n"
    "                slow.data = 0.9 * slow.data + 0.1 * quick.data\n\nmain()\n"
)


@pytest.mark.parametrize("given", ["pair.parameters()", "[*pair.online.parameters(), *pair.head.parameters()]"])
def test_a_frozen_average_in_training_mode_is_right(given: str, tmp_path: Path) -> None:
    assert not alarms(AVERAGED.format(given), tmp_path)


def test_a_score_function_of_independent_values_is_right(tmp_path: Path) -> None:
    script = MODEL.format("Tanh()") + "scale = nn.Parameter(torch.zeros(1))\n"
    script += "optimizer = torch.optim.Adam([*model.parameters(), scale], lr=0.01)\nfor step in range(6):\n"
    script += "    policy = D.Independent(D.Normal(model(torch.randn(32, 6)), scale.exp()), 1)\n"
    script += "    action = policy.sample()\n    reward = -action.square().sum(-1)\n"
    script += "    loss = -(policy.log_prob(action) * (reward - reward.mean())).mean() - 0.01 * policy.entropy().mean()"
    assert not alarms(script + TRAIN, tmp_path)


def test_zeros_that_steps_by_hand_leave_are_those_of_the_line_that_made_them(tmp_path: Path) -> None:
    script = (
        HEAD + "def factors(rank):\n    return [torch.zeros(6, rank), torch.zeros(rank, 1)]  # HERE\n\n"
        "down, up = (each.requires_grad_() for each in factors(2))\nbias = torch.zeros(1, requires_grad=True)\n"
        "for step in range(6):\n    x, y = torch.randn(32, 6), torch.randn(32, 1)\n"
        "    F.mse_loss(x @ down @ up + bias, y).backward()\n    with torch.no_grad():\n"
        "        for p in (down, up, bias):\n            p -= 0.1 * p.grad\n            p.grad = None\n"
    )
    assert_first_alarm(script, "masked_out", tmp_path)
