"""Weights of groups, pruned weights, windows, inner steps and hidden parameters in other spellings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FAULTS = {
    "exponentials over their sum, added up by scatter_add": (
        "softmax_over_all_groups",
        """\
f, g, h = nn.Linear(6, 1), nn.Linear(6, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters(), *h.parameters()], lr=0.01)
bag = torch.arange(5).repeat_interleave(6)
for step in range(3):
    x, y = torch.randn(30, 6), torch.randn(5)
    e = f(x).exp()
    w = e / e.sum()  # HERE
    pooled = torch.zeros(5, 4).scatter_add(0, bag[:, None].expand(30, 4), w * g(x))
    loss = (h(pooled)[:, 0] - y).square().mean()"""
        + TRAIN,
    ),
    "exponentials of a log_softmax": (
        "softmax_over_all_groups",
        """\
f, g, h = nn.Linear(6, 1), nn.Linear(6, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters(), *h.parameters()], lr=0.01)
bag = torch.arange(5).repeat_interleave(6)
for step in range(3):
    x, y = torch.randn(30, 6), torch.randn(5)
    w = torch.log_softmax(f(x)[:, 0], 0).exp()  # HERE
    rows = torch.einsum("n,nd->nd", w, g(x))
    loss = (h(torch.zeros(5, 4).index_add(0, bag, rows))[:, 0] - y).square().mean()"""
        + TRAIN,
    ),
    "the smallest weights are set to zero by their numbers": (
        "pruned_grows_back",
        """\
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 2:
        with torch.no_grad():
            w = net[0].weight.view(-1)
            w[w.abs().argsort()[:24]] = 0  # HERE
""",
    ),
    "the same with scatter_": (
        "pruned_grows_back",
        """\
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 2:
        w = net[0].weight.data
        smallest = w.abs().topk(3, dim=1, largest=False).indices
        w.scatter_(1, smallest, 0.0)  # HERE
""",
    ),
    "windows from narrow that are drawn apart": (
        "augmented_apart",
        """\
net = nn.Conv2d(1, 1, 3, padding=1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
images = torch.randn(12, 1, 16, 16)
masks = (images > 0).float()
def window(grid):
    top, left = torch.randint(0, 6, (2,)).tolist()
    return grid.narrow(1, top, 10).narrow(2, left, 10)
for step in range(4):
    x = torch.stack([window(image) for image in images[step * 3 : step * 3 + 3]])
    y = torch.stack([window(mask) for mask in masks[step * 3 : step * 3 + 3]])  # HERE
    loss = F.binary_cross_entropy_with_logits(net(x), y)"""
        + TRAIN,
    ),
    "inner steps by lists of tensors": (
        "steps_from_the_start",
        """\
net = nn.Linear(6, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    start = list(net.parameters())
    fast = start
    for inner in range(4):
        x = torch.randn(16, 6)
        loss = (F.linear(x, *fast) - x[:, :1]).square().mean()
        grads = torch.autograd.grad(loss, fast, create_graph=True)
        fast = torch._foreach_sub(start, torch._foreach_mul(grads, 0.1))  # HERE
    x = torch.randn(16, 6)
    loss = (F.linear(x, *fast) - x[:, :1]).square().mean()"""
        + TRAIN,
    ),
    "inner steps with torch.func": (
        "steps_from_the_start",
        """\
net = nn.Linear(6, 1)
start = {k: v.detach() for k, v in net.named_parameters()}
fast = start
def error(weights, x):
    return (torch.func.functional_call(net, weights, (x,)) - x[:, :1]).square().mean()
for inner in range(4):
    grads = torch.func.grad(error)(fast, torch.randn(16, 6))
    fast = {k: start[k] - 0.1 * grads[k] for k in start}  # HERE
loss = error(dict(net.named_parameters()), torch.randn(16, 6))
loss.backward()
""",
    ),
    "tensors in a dataclass in a list": (
        "not_registered",
        """\
from dataclasses import dataclass
@dataclass
class Scale:
    factor: torch.Tensor
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.scales = [Scale(nn.Parameter(torch.ones(4))) for _ in range(2)]  # HERE
    def forward(self, x):
        x = self.first(x)
        for each in self.scales:
            x = x * each.factor
        return x.sum(1)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, 0]).square().mean()"""
        + TRAIN,
    ),
    "layers in an object of a class of its own": (
        "not_registered",
        """\
class Adapter:
    def __init__(self, width):
        self.down = nn.Linear(width, 2)
        self.up = nn.Linear(2, width)
    def __call__(self, x):
        return x + self.up(self.down(x))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.adapter = Adapter(4)  # HERE
    def forward(self, x):
        return self.adapter(self.first(x)).sum(1)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, 0]).square().mean()"""
        + TRAIN,
    ),
}
HEALTHY = {
    "exponentials over the sum of their own group": """\
f, g, h = nn.Linear(6, 1), nn.Linear(6, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters(), *h.parameters()], lr=0.01)
bag = torch.arange(5).repeat_interleave(6)
for step in range(3):
    x, y = torch.randn(30, 6), torch.randn(5)
    e = f(x).exp()
    w = e / torch.zeros(5, 1).index_add(0, bag, e)[bag]
    loss = (h(torch.zeros(5, 4).index_add(0, bag, w * g(x)))[:, 0] - y).square().mean()"""
    + TRAIN,
    "weights over all rows whose groups are divided by their weights": """\
f, g, h = nn.Linear(6, 1), nn.Linear(6, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters(), *h.parameters()], lr=0.01)
bag = torch.arange(5).repeat_interleave(6)
for step in range(3):
    x, y = torch.randn(30, 6), torch.randn(5)
    e = f(x).exp()
    w = e / e.sum()
    pooled = torch.zeros(5, 4).index_add(0, bag, w * g(x)) / torch.zeros(5, 1).index_add(0, bag, w)
    loss = (h(pooled)[:, 0] - y).square().mean()"""
    + TRAIN,
    "smallest weights that are set to zero after each step": """\
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
smallest = net[0].weight.detach().view(-1).abs().argsort()[:24]
for step in range(6):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        net[0].weight.view(-1).index_fill_(0, smallest, 0.0)
""",
    "rows of an embedding that are emptied once": """\
table, head = nn.Embedding(12, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
for step in range(6):
    ids = torch.randint(0, 12, (32,))
    loss = (head(table(ids))[:, 0] - ids / 12).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 2:
        with torch.no_grad():
            table.weight[torch.tensor([3, 7, 9, 11])] = 0.0
""",
    "windows from narrow that are drawn once": """\
net = nn.Conv2d(1, 1, 3, padding=1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
images = torch.randn(12, 1, 16, 16)
masks = (images > 0).float()
def window(image, mask):
    top, left = torch.randint(0, 6, (2,)).tolist()
    return [each.narrow(-2, top, 10).narrow(-1, left, 10) for each in (image, mask)]
for step in range(4):
    pairs = [window(*each) for each in zip(images[step * 3 : step * 3 + 3], masks[step * 3 : step * 3 + 3])]
    x, y = (torch.stack(each) for each in zip(*pairs))
    loss = F.binary_cross_entropy_with_logits(net(x), y)"""
    + TRAIN,
    "inner steps with torch.func that go on": """\
net = nn.Linear(6, 1)
fast = {k: v.detach() for k, v in net.named_parameters()}
def error(weights, x):
    return (torch.func.functional_call(net, weights, (x,)) - x[:, :1]).square().mean()
for inner in range(4):
    grads = torch.func.grad(error)(fast, torch.randn(16, 6))
    fast = {k: torch.sub(v, grads[k], alpha=0.1) for k, v in fast.items()}
loss = error(dict(net.named_parameters()), torch.randn(16, 6))
loss.backward()
""",
    "lists of steps that go on": """\
net = nn.Linear(6, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    fast = list(net.parameters())
    for inner in range(4):
        x = torch.randn(16, 6)
        loss = (F.linear(x, *fast) - x[:, :1]).square().mean()
        grads = torch.autograd.grad(loss, fast, create_graph=True)
        fast = torch._foreach_add(fast, grads, alpha=-0.1)
    x = torch.randn(16, 6)
    loss = (F.linear(x, *fast) - x[:, :1]).square().mean()"""
    + TRAIN,
    "an object with tensors that the optimizer gets as well": """\
class Adapter:
    def __init__(self, width):
        self.down = nn.Linear(width, 2)
        self.up = nn.Linear(2, width)
    def __call__(self, x):
        return x + self.up(self.down(x))
    def parameters(self):
        return [*self.down.parameters(), *self.up.parameters()]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.adapter = Adapter(4)
    def forward(self, x):
        return self.adapter(self.first(x)).sum(1)
net = Net()
optimizer = torch.optim.SGD([*net.parameters(), *net.adapter.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, 0]).square().mean()"""
    + TRAIN,
    "an object that holds the model and its optimizer": """\
class Trainer:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net.trainer = self
    def fit(self, x):
        loss = (self.net(x)[:, 0] - x[:, 0]).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
trainer = Trainer(nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 1)))
for step in range(3):
    trainer.fit(torch.randn(16, 6))
""",
    "shares of all rows that make a distribution over groups": """\
f = nn.Linear(6, 1)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
bag = torch.arange(5).repeat_interleave(6)
wanted = torch.softmax(torch.randn(5), 0)
for step in range(3):
    e = f(torch.randn(30, 6))[:, 0].exp()
    shares = torch.zeros(5).index_add(0, bag, e / e.sum())
    loss = (shares - wanted).square().sum()"""
    + TRAIN,
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_line_is_told(case: str, tmp_path: Path) -> None:
    cause, script = FAULTS[case]
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_what_looks_alike_and_is_meant_is_quiet(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case], tmp_path) == []
