"""Penalties that reward large weights, decay that outweighs a gradient, schedules that are made again, losses that
never go backward, targets of other samples, and means that are squared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FIT = (
    HEAD + "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.{}\n"
    "data = torch.randn(64, 4)\ntargets = data[:, :1] * 2 + data[:, 1:2]\n"
    "for step in range(12):\n    rows = torch.randint(0, 64, (16,))\n    x, y = data[rows], targets[rows]\n{}" + TRAIN
)
SGD = "SGD(net.parameters(), 0.01)"
LOOP = (
    HEAD + "net = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)\n"
    "data = torch.randn(8, 16, 4)\n{}"
)
LAYERS = (
    HEAD + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.inner, self.outer = nn.Linear(4, 8), nn.Linear(8, 1)\n        self.regularize = nn.Dropout(0.2)\n"
    "        self.activate = nn.ReLU({})\n    def forward(self, x):\n{}        return self.outer(h)\n"
    "net = Net()\noptimizer = torch.optim.SGD(net.parameters(), 0.01)\nfor step in range(4):\n"
    "    x = torch.randn(16, 4)\n    loss = F.mse_loss(net(x), x[:, :1])" + TRAIN
)
FAULTS = {
    "squares of all weights, subtracted": (
        "penalty_subtracted",
        FIT.format(SGD, "    l2 = sum((p ** 2).sum() for p in net.parameters())\n"
        "    loss = F.mse_loss(net(x), y) - 1e-3 * l2  # HERE"),
    ),
    "norms, added with a negative factor": (
        "penalty_subtracted",
        FIT.format(SGD, "    l2 = net[0].weight.norm() + net[3].weight.norm()\n"
        "    loss = F.mse_loss(net(x), y) + -0.01 * l2  # HERE"),
    ),
    "absolute values in a negative log-likelihood": (
        "penalty_subtracted",
        FIT.format(SGD, "    fit = -(net(x) - y).square().mean()\n    prior = net[0].weight.abs().sum()\n"
        "    loss = -(fit + 0.01 * prior)  # HERE"),
    ),
    "decay of a half": (
        "decay_outweighs",
        FIT.format("SGD(net.parameters(), 0.1, weight_decay=0.5)  # HERE", "    loss = F.mse_loss(net(x), y)"),
    ),
    "decay beside the gradient": (
        "decay_outweighs",
        FIT.format("AdamW(net.parameters(), 0.01, weight_decay=10)  # HERE", "    loss = F.mse_loss(net(x), y)"),
    ),
    "decay of AdamW for Adam": (
        "decay_outweighs",
        FIT.format("Adam(net.parameters(), 0.01, weight_decay=0.1)  # HERE", "    loss = F.mse_loss(net(x), y)"),
    ),
    "too much decay apart from the gradient": (
        "decay_outweighs",
        FIT.format("RAdam(net.parameters(), 0.01, weight_decay=5, decoupled_weight_decay=True)  # HERE",
        "    loss = F.mse_loss(net(x), y)"),
    ),
    "a schedule for each epoch": (
        "schedule_made_anew",
        LOOP.format("for epoch in range(4):\n"
        "    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3])  # HERE\n"
        "    for x in data:\n        loss = F.mse_loss(net(x), x[:, :1])\n        optimizer.zero_grad()\n"
        "        loss.backward()\n"
        "        optimizer.step()\n    schedule.step()\n"),
    ),
    "a schedule for each epoch, in a function": (
        "schedule_made_anew",
        LOOP.format("def train():\n    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)  # HERE\n"
        "    for x in data:\n        loss = F.mse_loss(net(x), x[:, :1])\n        optimizer.zero_grad()\n"
        "        loss.backward()\n"
        "        optimizer.step()\n    schedule.step()\nfor epoch in range(4):\n    train()\n"),
    ),
    "backward behind the loop": (
        "losses_left_behind",
        LOOP.format("total = 0\nfor epoch in range(4):\n    for x in data:\n"
        "        loss = F.mse_loss(net(x), x[:, :1])\n"
        "        total += loss.item()\n    optimizer.zero_grad()\n    loss.backward()  # HERE\n"
        "    optimizer.step()\n"),
    ),
    "backward behind the loop, with running statistics": (
        "losses_left_behind",
        LOOP.format("total = 0\nfor epoch in range(4):\n    for x in data:\n"
        "        loss = F.mse_loss(net(x), x[:, :1])\n        total += loss.item()\n"
        "    optimizer.zero_grad()\n    loss.backward()  # HERE\n    optimizer.step()\n")
        .replace("nn.Linear(4, 1)", "nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))"),
    ),
    "a loss by hand, backward behind the loop": (
        "losses_left_behind",
        LOOP.format("for epoch in range(4):\n    optimizer.zero_grad()\n    for x in data:\n"
        "        loss = (net(x) - x[:, :1]).pow(2).mean()\n        print(float(loss.detach()))\n"
        "    loss.backward()  # HERE\n    optimizer.step()\n"),
    ),
    "two calls of randint": (
        "shuffled_apart",
        FIT.format(SGD, "    x = data[torch.randint(0, 64, (16,))]\n"
        "    y = targets[torch.randint(0, 64, (16,))]  # HERE\n    loss = F.mse_loss(net(x), y)"),
    ),
    "two calls of randint with index_select": (
        "shuffled_apart",
        FIT.format(SGD, "    other = torch.randint(64, size=(16,))\n"
        "    x = data.index_select(0, torch.randint(64, (16,)))\n"
        "    y = targets.index_select(0, other)  # HERE\n    loss = (net(x) - y).abs().mean()\n"
        "    loss = F.l1_loss(net(x), y)"),
    ),
    "the mean before the square": (
        "target_without_influence",
        FIT.format(SGD, "    loss = (net(x) - y).mean() ** 2  # HERE"),
    ),
    "the mean before the square, with its root": (
        "target_without_influence",
        FIT.format(SGD, "    error = y - net(x)  # HERE\n    loss = torch.square(error.mean())"),
    ),
    "dropout as a statement": (
        "result_discarded",
        LAYERS.format("", "        h = self.activate(self.inner(x))\n        self.regularize(h)  # HERE\n"),
    ),
    "an activation as a statement": (
        "result_discarded",
        LAYERS.format("", "        h = self.inner(x)\n        self.activate(h)  # HERE\n"),
    ),
}  # fmt: skip
HEALTHY = {
    "means of two draws": FIT.format(
        SGD,
        "    z = torch.randint(0, 64, (16,))\n"
        "    loss = F.mse_loss(net(x).mean(0), targets[z].mean(0)) + net(x).var()",
    ),
    "conditions on moments": FIT.format(
        SGD,
        "    z = (x[:, 2:3] > 0).float()\n    e = y - net(x)\n"
        "    loss = (e * z).mean() ** 2 + (e * (1 - z)).mean() ** 2",
    ),
    "a gain that is maximized": FIT.format(
        "SGD(net.parameters(), 0.01, maximize=True)",
        "    loss = -F.mse_loss(net(x), y) - 0.01 * net[0].weight.square().sum()",
    ),
    "the sum of weights less their norm": FIT.format(
        SGD,
        "    w = net[0].weight\n    loss = F.mse_loss(net(x), y) + 0.01 * (w.abs().sum() - w.norm())",
    ),
    "the end of a sequence": (
        HEAD + "cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)\n"
        "optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])\n"
        "for step in range(4):\n    x = torch.randn(16, 6, 3)\n    h, curve = torch.zeros(16, 8), []\n"
        "    for t in range(6):\n        h = cell(x[:, t], h)\n"
        "        loss = F.mse_loss(head(h), x.sum((1, 2))[:, None])\n"
        "        curve.append(loss.item())\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    ),
    "a schedule of one epoch for each task": LOOP.format(
        "for task in range(4):\n    optimizer.param_groups[0]['lr'] = 0.01\n"
        "    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1)\n"
        "    for x in data:\n        loss = F.mse_loss(net(x), x[:, :1] + task)\n        optimizer.zero_grad()\n"
        "        loss.backward()\n        optimizer.step()\n    schedule.step()\n"
    ),
    "a penalty that is added": FIT.format(
        SGD, "    loss = F.mse_loss(net(x), y) + 1e-3 * sum((p ** 2).sum() for p in net.parameters())"
    ),
    "a posterior with a prior": FIT.format(
        SGD, "    likelihood = -(net(x) - y).square().mean()\n    prior = -0.01 * net[0].weight.square().sum()\n"
        "    loss = -(likelihood + prior)"
    ),
    "layers that are pushed apart": FIT.format(
        SGD, "    apart = (net[0].weight[:4] - net[0].weight[4:]).square().mean()\n"
        "    loss = F.mse_loss(net(x), y) - 0.01 * apart.clamp(max=1)"
    ),
    "a penalty on a distance to its target": FIT.format(
        SGD, "    size = net[0].weight.norm()\n    loss = F.mse_loss(net(x), y) + 0.1 * (1 - size) ** 2"
    ),
    "decay as it is usual": FIT.format(
        "AdamW(net.parameters(), 0.001, weight_decay=0.1)", "    loss = F.mse_loss(net(x), y)"
    ),
    "decay of NAdam apart from the gradient": FIT.format(
        "NAdam(net.parameters(), 0.01, weight_decay=0.2, decoupled_weight_decay=True)",
        "    loss = F.mse_loss(net(x), y)",
    ),
    "decay of SGD as it is usual": FIT.format(
        "SGD(net.parameters(), 0.1, weight_decay=0.0005, momentum=0.9)", "    loss = F.mse_loss(net(x), y)"
    ),
    "a schedule for each fold": LOOP.format(
        "for fold in range(3):\n    net = nn.Linear(4, 1)\n    optimizer = torch.optim.SGD(net.parameters(), 0.01)\n"
        "    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)\n    for epoch in range(2):\n"
        "        for x in data:\n"
        "            loss = F.mse_loss(net(x), x[:, :1])\n            optimizer.zero_grad()\n"
        "            loss.backward()\n"
        "            optimizer.step()\n        schedule.step()\n"
    ),
    "a schedule for each cycle": LOOP.format(
        "for cycle in range(3):\n    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(data))\n"
        "    for x in data:\n        loss = F.mse_loss(net(x), x[:, :1])\n        optimizer.zero_grad()\n"
        "        loss.backward()\n        optimizer.step()\n        schedule.step()\n"
        "    for group in optimizer.param_groups:\n        group['lr'] = group['initial_lr'] = 0.01\n"
    ),
    "losses that are added up": LOOP.format(
        "for epoch in range(4):\n    total = 0\n    for x in data:\n        loss = F.mse_loss(net(x), x[:, :1])\n"
        "        total = total + loss / len(data)\n    optimizer.zero_grad()\n    total.backward()\n"
        "    optimizer.step()\n"
    ),
    "the smallest of several losses": LOOP.format(
        "for step in range(6):\n    best = None\n    for x in data[:3]:\n"
        "        loss = F.mse_loss(net(x), x[:, :1])\n"
        "        if best is None or loss < best:\n            best = loss\n    optimizer.zero_grad()\n"
        "    best.backward()\n"
        "    optimizer.step()\n"
    ),
    "a validation by the same function": LOOP.format(
        "def run(x, train):\n    net.train(train)\n    loss = F.mse_loss(net(x), x[:, :1])\n    if train:\n"
        "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n    return loss.item()\n"
        "for epoch in range(3):\n    for x in data[:6]:\n        run(x, True)\n    with torch.no_grad():\n"
        "        for x in data[6:]:\n            run(x, False)\n"
    ),
    "rows that are drawn once": FIT.format(SGD, "    loss = F.mse_loss(net(x), y)"),
    "noise from a table of its own": FIT.format(
        SGD, "    other = data[torch.randint(0, 64, (16,))]\n    loss = F.mse_loss(net(x + 0.01 * other), y)"
    ),
    "pairs of two draws": FIT.format(
        SGD, "    z = torch.randint(0, 64, (16,))\n    loss = F.mse_loss(net(x) - net(data[z]), y - targets[z])"
    ),
    "a mean of predictions beside an error": FIT.format(
        SGD, "    out = net(x)\n    loss = F.mse_loss(out, y) + 0.1 * (out - y).mean() ** 2"
    ),
    "a mean that should be zero": FIT.format(
        SGD, "    out = net(x)\n    loss = F.mse_loss(out, y) + 0.1 * out.mean() ** 2"
    ),
    "an activation that works in place": LAYERS.format(
        "inplace=True", "        h = self.inner(x)\n        self.activate(h)\n"
    ),
    "layers whose results are taken": LAYERS.format("", "        h = self.regularize(self.activate(self.inner(x)))\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_penalties_and_loops_are_told_at_their_line(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_meant_is_no_alarm(name: str, tmp_path: Path) -> None:
    assert [each.cause for each in alarms(HEALTHY[name], tmp_path)] == []
