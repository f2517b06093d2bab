"""Arguments of losses that are computed for each sample, and that the loss never reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

DATA = (
    HEAD
    + """
x, y = torch.randn(90, 4), torch.rand(90)
seen, valid = (torch.rand(90) < 0.6).float(), torch.rand(90) < 0.7
group = torch.randint(0, 3, (90,))
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
"""
)
LOOP = (
    """
for step in range(5):
    i = torch.randint(0, 90, (15,))
    loss = {call}
"""
    + TRAIN
)
WEIBULL = """
def nll(output, time, event):
    scale = F.softplus(output.squeeze(1)) + 1e-3
    {body}
"""
ALL_DIED = """log_hazard = math.log(2) + time.clamp(min=1e-6).log() - 2 * scale.log()
    return ((time / scale) ** 2 - log_hazard).mean()  # HERE"""
SOME_DIED = """log_hazard = math.log(2) + time.clamp(min=1e-6).log() - 2 * scale.log()
    return ((time / scale) ** 2 - event * log_hazard).mean()"""
METHOD = """
class Trainer:
    def __init__(self, net):
        self.net = net
    def loss(self, inputs, targets, keep):
        errors = (self.net(inputs).squeeze(1) - targets).abs()
        return {result}
trainer = Trainer(net)
"""
FAULTY = {
    "events of a likelihood": (
        "import math\n" + WEIBULL.format(body=ALL_DIED), LOOP.format(call="nll(net(x[i]), y[i], seen[i])"),
    ),
    "a mask in a method": (
        METHOD.format(result="errors.mean()  # HERE"), LOOP.format(call="trainer.loss(x[i], y[i], valid[i])"),
    ),
    "flags of all samples at once": (
        "import math\n" + WEIBULL.format(body=ALL_DIED), LOOP.format(call="nll(net(x), y, seen)"),
    ),
    "flags of a loader": (
        "import math\n" + WEIBULL.format(body=ALL_DIED)
        + "loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y, seen), 15)\n",
        "for inputs, times, flags in loader:\n    loss = nll(net(inputs), times, flags)\n" + TRAIN,
    ),
    "weights that are named": (
        "def loss_of(output, target, weight):\n    return F.mse_loss(output[:, 0], target)  # HERE\n",
        LOOP.format(call="loss_of(net(x[i]), target=y[i], weight=seen[i].add(0.5))"),
    ),
}  # fmt: skip
HEALTHY = {
    "events of a likelihood": (
        "import math\n" + WEIBULL.format(body=SOME_DIED), LOOP.format(call="nll(net(x[i]), y[i], seen[i])"),
    ),
    "flags that the loop reads": (
        "import math\n" + WEIBULL.format(body=ALL_DIED.removesuffix("  # HERE")),
        LOOP.format(call="nll(net(x), y, seen)\n    print(seen.mean())"),
    ),
    "flags of a loader": (
        "import math\n" + WEIBULL.format(body=SOME_DIED)
        + "loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y, seen), 15)\n",
        "for inputs, times, flags in loader:\n    loss = nll(net(inputs), times, flags)\n" + TRAIN,
    ),
    "a mask in a method": (
        METHOD.format(result="(errors * keep).sum() / keep.sum()"),
        LOOP.format(call="trainer.loss(x[i], y[i], valid[i])"),
    ),
    "losses with one list of arguments": (
        "def plain(output, target, weight):\n    return F.mse_loss(output[:, 0], target)\n"
        "def weighted(output, target, weight):\n    return (weight * (output[:, 0] - target) ** 2).mean()\n"
        "losses = {'plain': plain, 'weighted': weighted}\n",
        LOOP.format(call="losses['plain'](net(x[i]), y[i], seen[i])"),
    ),
    "a loss that is passed on": (
        "def plain(output, target, weight):\n    return F.mse_loss(output[:, 0], target)\n"
        "def fit(loss_of, i):\n    return loss_of(net(x[i]), y[i], seen[i])\n",
        LOOP.format(call="fit(plain, i)"),
    ),
    "a loss of another class": (
        "class Base:\n    def loss(self, output, target, weight):\n        raise NotImplementedError\n"
        "class Plain(Base):\n    def loss(self, output, target, weight):\n"
        "        return F.mse_loss(output[:, 0], target)\n",
        LOOP.format(call="Plain().loss(net(x[i]), y[i], seen[i])"),
    ),
    "an argument that says that it is not read": (
        "def plain(output, target, _weight):\n    return F.mse_loss(output[:, 0], target)\n",
        LOOP.format(call="plain(net(x[i]), y[i], seen[i])"),
    ),
    "classes beside a target": (
        "def plain(output, target, kind):\n    return F.mse_loss(output[:, 0], target)\n",
        LOOP.format(call="plain(net(x[i]), y[i], group[i])"),
    ),
    "a training that draws its samples by weight": (
        "weight = seen + 0.5\ndraws = torch.utils.data.WeightedRandomSampler(weight.tolist(), 90)\n"
        "def run(inputs, targets, importance):\n    for epoch in range(3):\n"
        "        for i in torch.tensor(list(draws)).split(30):\n"
        "            loss = F.mse_loss(net(inputs[i])[:, 0], targets[i])\n"
        "            optimizer.zero_grad()\n            loss.backward()\n            optimizer.step()\n",
        "run(x, y, weight)\n",
    ),
    "labels of an autoencoder": (
        "decode = nn.Linear(1, 4)\noptimizer = torch.optim.Adam([*net.parameters(), *decode.parameters()], lr=0.01)\n"
        "def step_of(inputs, label):\n    return F.mse_loss(decode(net(inputs)), inputs)\n",
        LOOP.format(call="step_of(x[i], y[i])"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_an_argument_that_a_loss_never_reads_is_told(name: str, tmp_path: Path) -> None:
    function, loop = FAULTY[name]
    assert_first_alarm(DATA + function + loop, "argument_never_read", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_arguments_that_are_read_or_asked_for_are_right(name: str, tmp_path: Path) -> None:
    function, loop = HEALTHY[name]
    assert not alarms(DATA + function + loop, tmp_path)
