"""Weights after a mean, orders taken for ranks, values of parameters as numbers, losses of two players, cut states."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

WEIGHED = (
    HEAD + "model, fixed = nn.Linear(6, 3), torch.rand(16)\noptimizer = torch.optim.Adam(model.parameters())\n"
    "inputs, table = torch.randn(16, 6), torch.logspace(-3, 0, 5)\n"
    "for step in range(4):\n    x, y = torch.randn(16, 6), torch.randint(3, (16,))\n{}" + TRAIN
)  # fmt: skip
RANKED = (
    HEAD + "model = nn.Linear(6, 1)\noptimizer = torch.optim.Adam(model.parameters())\n"
    "for step in range(4):\n    x, y, places = torch.randn(8, 10, 6), torch.rand(8, 10), torch.arange(10)\n"
    "    score = model(x).squeeze(-1)\n{}" + TRAIN
)  # fmt: skip
TASKS = (
    HEAD + "import math\nmodel, s = nn.Linear(6, 2), nn.Parameter(torch.full((2,), 0.1))\n"
    "optimizer = torch.optim.Adam([*model.parameters(), s], lr=0.01)\n"
    "for step in range(4):\n    x = torch.randn(16, 6)\n    out = model(x)\n"
    "    errors = [F.mse_loss(out[:, i], (i + 1) * x.sum(1)) for i in range(2)]\n{}" + TRAIN
)  # fmt: skip
PLAYERS = (
    HEAD + "G, D = (nn.Sequential(nn.Linear(i, 8), nn.Tanh(), nn.Linear(8, o)) for i, o in ((3, 2), (2, 1)))\n"
    "opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())\n"
    "for step in range(4):\n    real, fake = torch.randn(16, 2), G(torch.randn(16, 3))\n"
    "    opt_g.zero_grad()\n    opt_d.zero_grad()\n{}    opt_d.step()\n    opt_g.step()\n"
)  # fmt: skip
STEPS = (
    HEAD + "cell, head, inner, read = nn.GRUCell(3, 8), nn.Linear(8, 1), nn.Linear(8, 8), nn.Linear(3, 8)\n"
    "optimizer = torch.optim.Adam([*(p for m in (cell, head, inner, read) for p in m.parameters())])\n"
    "for step in range(3):\n    x, h, loss = torch.randn(6, 16, 3), torch.zeros(16, 8), 0.0\n"
    "    y = x.cumsum(0)[..., :1]\n{}" + TRAIN
)  # fmt: skip

D_LOSS = "    d_loss = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()\n"
G_LOSS = "    g_loss = F.softplus(-D(fake)).mean()\n"
D_BACKWARD = "    d_loss.backward()  # HERE\n"


@pytest.mark.parametrize(
    "lines",
    [
        "    ce = F.cross_entropy(model(x), y)  # HERE\n    loss = (fixed[y] * ce).mean()\n",
        "    w = torch.rand(16) if step else torch.ones(16)\n"
        "    td = nn.SmoothL1Loss()(model(x), F.one_hot(y, 3).float())  # HERE\n"
        "    loss = torch.mean(td * w[:, None])\n",
        "    error = (model(inputs) - 1).square().sum(-1).mean()  # HERE\n    loss = (error / fixed).sum() / 16\n",
        "    lam, other, ce = torch.rand(16), torch.randperm(16), nn.CrossEntropyLoss()\n    out = model(x)\n"
        "    loss = (lam * ce(out, y) + (1 - lam) * ce(out, y[other])).mean()  # HERE\n",
    ],
)
def test_weights_of_samples_that_multiply_their_mean(lines: str, tmp_path: Path) -> None:
    assert_first_alarm(WEIGHED.format(lines), "weights_after_mean", tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "    loss = (fixed * F.cross_entropy(model(x), y, reduction='none')).mean()\n",
        "    loss = (table * F.cross_entropy(model(x), y)).mean()\n",
        "    ce = F.cross_entropy(model(x), y)\n    shown = (fixed * ce).mean().item()\n    loss = ce + 0.1\n",
        "    each = torch.stack([F.mse_loss(model(x)[:, i], x[:, i]) for i in range(3)])\n"
        "    loss = (torch.tensor([1.0, 2.0, 0.5]) * each).sum()\n",
    ],
)
def test_weights_of_samples_or_of_other_things(lines: str, tmp_path: Path) -> None:
    assert alarms(WEIGHED.format(lines), tmp_path) == []


@pytest.mark.parametrize(
    "lines",
    [
        "    rank = score.detach().argsort(-1, descending=True)  # HERE\n"
        "    loss = ((score - y) ** 2 / torch.log2(rank + 2.0)).mean()\n",
        "    _, rank = torch.sort(score.detach(), descending=True)  # HERE\n"
        "    loss = (1.0 / (60 + rank.float()) * (score - y) ** 2).sum()\n",
        "    rank = torch.argsort(score.detach(), dim=-1)  # HERE\n"
        "    loss = ((-rank.float() / 5).exp() * (score - y) ** 2).sum()\n",
        "    kept = score.abs().argsort(-1) < 3  # HERE\n"
        "    loss = ((score * kept).sum(-1) - y[:, 0]).square().mean()\n",
        "    error = ((score - y) ** 2).mean(1)\n    place = error.detach().argsort(descending=True)  # HERE\n"
        "    loss = torch.dot(error, (-places[:8].float()).exp().index_select(0, place)) / 8\n",
        "    error = ((score - y) ** 2).mean(1)\n    place = (-error).sort().indices  # HERE\n"
        "    w = torch.linspace(2.0, 0.1, 8)[place]\n    loss = (w / w.sum() * error).sum()\n",
        "    error = (score - y) ** 2\n    place = error.detach().argsort(-1)  # HERE\n"
        "    w = F.embedding(place, torch.linspace(2.0, 0.1, 10)[:, None]).squeeze(-1)\n"
        "    loss = (w * error).mean()\n",
        "    error = (score - y) ** 2\n    place = error.detach().argsort(-1)  # HERE\n"
        "    w = torch.linspace(2.0, 0.1, 10).expand(8, 10).gather(1, place)\n"
        "    loss = torch.linalg.vecdot(w, error).mean()\n",
        "    error, found = (score - y) ** 2, y > 0.8\n"
        "    place = error.detach().masked_fill(found, 0).argsort(-1, descending=True)  # HERE\n"
        "    kept = (place < 2 * found.sum(1, keepdim=True)) & ~found\n    loss = error[found | kept].mean()\n",
        "    error, found = (score - y) ** 2, y > 0.8\n    hard = error.detach().clone()\n    hard[found] = 0\n"
        "    _, place = hard.sort(1, descending=True)  # HERE\n"
        "    kept = place < (2 * found.sum(1, keepdim=True)).expand_as(place)\n"
        "    loss = (error * (found | kept)).sum() / found.sum()\n",
    ],
)
def test_an_order_that_is_taken_for_ranks(lines: str, tmp_path: Path) -> None:
    assert_first_alarm(RANKED.format(lines), "order_as_rank", tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "    rank = score.detach().argsort(-1, descending=True).argsort(-1)\n"
        "    loss = ((score - y) ** 2 / torch.log2(rank + 2.0)).mean()\n",
        "    order = score.detach().argsort(-1, descending=True)\n"
        "    rank = torch.empty_like(order).scatter_(-1, order, places.expand(8, 10))\n"
        "    loss = ((score - y) ** 2 / torch.log2(rank + 2.0)).mean()\n",
        "    order = y.argsort(-1, descending=True)\n"
        "    loss = (score.gather(-1, order) - 1 / torch.log2(places + 2.0)).square().mean()\n",
        "    kept = torch.rand(8, 10).argsort(-1) < 6\n    loss = ((score - y) ** 2)[kept].mean()\n",
        "    error = ((score - y) ** 2).mean(1)\n    rank = error.detach().argsort(descending=True).argsort()\n"
        "    loss = torch.dot(error, (-places[:8].float()).exp()[rank]) / 8\n",
        "    error = ((score - y) ** 2).mean(1)\n    order = error.detach().argsort(descending=True)\n"
        "    loss = torch.dot(error[order], torch.linspace(2.0, 0.1, 8))\n",
        "    error = ((score - y) ** 2).mean(1)\n    order = error.detach().argsort(descending=True)[:4]\n"
        "    loss = (error[order] * y[order].mean(1).abs()).mean()\n",
        "    found = (score.detach().argsort(-1, descending=True) < 4).float()\n"
        "    precision = (found.cumsum(-1) / (places + 1)).mean().item()\n    loss = ((score - y) ** 2).mean()\n",
        "    error, found = (score - y) ** 2, y > 0.8\n"
        "    _, order = error.detach().masked_fill(found, 0).sort(1, descending=True)\n    _, place = order.sort(1)\n"
        "    kept = (place < 2 * found.sum(1, keepdim=True)) & ~found\n    loss = error[found | kept].mean()\n",
    ],
)
def test_orders_that_are_indexes_and_ranks_of_orders(lines: str, tmp_path: Path) -> None:
    assert alarms(RANKED.format(lines), tmp_path) == []


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (
            "    w = [math.exp(-each.item()) for each in s]  # HERE\n"
            "    loss = sum(w[i] * errors[i] + 0.5 * s[i] for i in range(2))\n",
            "tensor_rewrap",
        ),
        (
            "    a, b = s.tolist()  # HERE\n"
            "    loss = errors[0] / (2 * math.exp(a) ** 2) + errors[1] / (2 * math.exp(b) ** 2) + s.sum()\n",
            "tensor_rewrap",
        ),
        (
            "    w = torch.exp(-s.detach())  # HERE\n    loss = w[0] * errors[0] + w[1] * errors[1] + 0.5 * s.sum()\n",
            "detached",
        ),
    ],
)
def test_the_value_of_a_parameter_that_trains_itself(lines: str, cause: str, tmp_path: Path) -> None:
    assert_first_alarm(TASKS.format(lines), cause, tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "    w = torch.exp(-s)\n    print(math.exp(-s[0].item()))\n"
        "    loss = w[0] * errors[0] + w[1] * errors[1] + 0.5 * s.sum()\n",
        "    alpha = math.exp(s[0].item())\n"
        "    loss = errors[0] + alpha * out.mean() - (s * (out.mean(0) + 1).detach()).sum()\n",
        "    loss = errors[0] + s[1].item() * (errors[1] - 0.1) - s[1] * (errors[1] - 0.1).detach()\n",
        "    norm = model.weight.detach().norm()\n"
        "    loss = errors[0] / norm + errors[1] * torch.exp(-s).sum() + s.sum() + model.weight.square().sum()\n",
    ],
)
def test_values_of_parameters_that_a_loss_of_data_trains(lines: str, tmp_path: Path) -> None:
    assert alarms(TASKS.format(lines), tmp_path) == []


@pytest.mark.parametrize(
    "lines",
    [
        D_LOSS + "    d_loss.backward()\n" + G_LOSS + "    g_loss.backward()  # HERE\n",
        "    F.softplus(-D(real)).mean().backward()\n    F.softplus(D(fake.detach())).mean().backward()\n"
        + G_LOSS
        + "    g_loss.backward()  # HERE\n",
        G_LOSS + "    g_loss.backward()\n    with torch.no_grad():\n        made = G(torch.randn(16, 3))\n"
        "    d_loss = F.softplus(-D(real)).mean() + F.softplus(D(made)).mean()\n" + D_BACKWARD,
    ],
)
def test_two_players_that_step_after_both_losses(lines: str, tmp_path: Path) -> None:
    script = PLAYERS.format(lines)
    found = alarms(script, tmp_path)
    assert [each.cause for each in found] == ["missing_zero_grad"]
    line = "" if found[0].location is None else script.splitlines()[found[0].location.line - 1]
    assert line.endswith("# HERE") or "fake.detach()" in line
    assert all(name.startswith("D.") for name in found[0].tensors)


@pytest.mark.parametrize(
    "lines",
    [
        D_LOSS
        + "    d_loss.backward()\n    opt_d.step()\n    opt_d.zero_grad()\n"
        + G_LOSS
        + "    g_loss.backward()\n",
        D_LOSS + "    d_loss.backward()\n    D.requires_grad_(False)\n" + G_LOSS + "    g_loss.backward()\n"
        "    D.requires_grad_(True)\n",
        D_LOSS + "    d_loss.backward()\n" + G_LOSS + "    g_loss.backward(inputs=list(G.parameters()))\n",
        "    D(fake).square().mean().backward()\n    D(G(torch.randn(16, 3)) + 1).square().mean().backward()\n",
    ],
)
def test_players_that_are_kept_apart_and_models_that_learn_together(lines: str, tmp_path: Path) -> None:
    assert "missing_zero_grad" not in {each.cause for each in alarms(PLAYERS.format(lines), tmp_path)}


@pytest.mark.parametrize(
    "lines",
    [
        "    for t in range(6):\n        h = cell(x[t], h.detach())  # HERE\n"
        "        loss += F.mse_loss(head(h), y[t])\n",
        "    outs = []\n    for t in range(6):\n        h = torch.tanh(read(x[t]) + inner(h.detach()))  # HERE\n"
        "        outs.append(head(h))\n    loss = F.mse_loss(torch.stack(outs), y)\n",
        "    for t in range(6):\n        h = cell(x[t], h)\n        loss += F.mse_loss(head(h), y[t])\n"
        "        h = h.data  # HERE\n",
    ],
)
def test_a_state_that_is_cut_within_one_backward(lines: str, tmp_path: Path) -> None:
    assert_first_alarm(STEPS.format(lines), "state_cut_each_step", tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "    for t in range(6):\n        h = cell(x[t], h)\n        loss += F.mse_loss(head(h), y[t])\n"
        "    h = h.detach()\n",
        "    for t in range(5):\n        h = cell(x[t], h.detach())\n        F.mse_loss(head(h), y[t]).backward()\n"
        "    loss = F.mse_loss(head(cell(x[5], h.detach())), y[5])\n",
        "    for t in range(6):\n        h = inner(h.detach())\n"
        "        loss += F.mse_loss(h, x[t].repeat(1, 3)[:, :8])\n",
        "    place = torch.zeros(16, 3)\n    for t in range(6):\n        place = place.detach()\n"
        "        h = cell(place, h)\n        place = place + head(h)\n        loss += F.l1_loss(place, x[0])\n",
        "    for t in range(6):\n        z = h.detach()\n        for _ in range(3):\n            z = cell(x[0], z)\n"
        "        h = z\n        loss += head(h).square().mean()\n",
        "    for t in range(6):\n        h = cell(x[t], h.detach())\n"
        "        policy = torch.distributions.Categorical(logits=inner(h))\n"
        "        loss -= (policy.log_prob(policy.sample()) * y[t, :, 0]).mean()\n",
    ],
)
def test_states_that_are_cut_on_purpose(lines: str, tmp_path: Path) -> None:
    assert "state_cut_each_step" not in {each.cause for each in alarms(STEPS.format(lines), tmp_path)}
