"""Of the lines that make, fill, store and use a value, the one to edit; and means of single elements."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

BLOCK = """
def zeroed(layer):
    for p in layer.parameters():
        nn.init.zeros_(p)
    return layer
class Block(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        {made}
        {filled}
    def forward(self, x):
        return x + self.gate * self.out(torch.tanh(self.inner(x)))
net = nn.Sequential(Block(0.0), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = (net(torch.randn(8, 4)) - 1).square().mean()
"""
BALANCED = """
net, optimizer = nn.Linear(4, 2), None
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
class Balance:
    def __init__(self):
        self.level = {{"a": 1.0, "b": 1.0}}
    def update(self, losses):
        for name, value in losses.items():
            {stored}
    def total(self, losses):
        return sum(value / self.level[name] for name, value in losses.items())
balance = Balance()
for step in range(3):
    y = net(torch.randn(8, 4)).square().mean(0)
    losses = {{"a": y[0], "b": y[1]}}
    loss = balance.total(losses)
    balance.update(losses)
"""
POOL = """
G, D = nn.Linear(3, 2), nn.Linear(2, 1)
of_g, of_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
class Pool:
    def __init__(self):
        self.kept = []
    def query(self, batch):
        new = {cut}
        self.kept = (self.kept + list(new))[-20:]
        return torch.stack(self.kept[:8])
pool = Pool()
for step in range(4):
    {fake}
    loss = F.softplus(-D(fake)).mean()
    of_g.zero_grad()
    loss.backward()
    of_g.step()
    {of_d}
"""
OF_D = """loss = F.softplus(D(fake.detach())).mean() + F.softplus(-D(torch.randn(8, 2))).mean()
    of_d.zero_grad()
    loss.backward()
    of_d.step()"""
QUERIED = "fake = pool.query(G(torch.randn(8, 3)))"
SOLVED = """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(3, 4)
    def forward(self, z, x):
        return torch.tanh(0.5 * self.a(z) + self.b(x))
cell, head = Cell(), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
def solve(f, z):
    for _ in range(6):
        z = f(z)
    return z
for step in range(3):
    x = torch.randn(8, 3)
"""
BOXES = """
body = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(body.parameters())
def corners(p):
    return torch.cat([p[:, :2] - p[:, 2:] / 2, p[:, :2] + p[:, 2:] / 2], dim=1)
def overlap(a, b):
    low, high = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
    shared = (high - low).clamp(min=0).prod(1)
    own = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1)
    return shared / (own - shared + 1e-6)
def net(x):
    {made}
for step in range(4):
    x, corner = torch.randn(8, 6), torch.rand(8, 2) * 20 + 3
    boxes = torch.cat([corner, corner + 4 + 8 * torch.rand(8, 2)], 1)
    p = net(x)
    {used}
"""
WHITENED = """
policy, judge = nn.Linear(4, 3), nn.Linear(4, 1).requires_grad_(False)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
def whiten(r):
    {whiten}
for step in range(3):
    x = torch.randn(16, 4)
    logp = F.log_softmax(policy(x), 1)
    action = torch.multinomial(logp.detach().exp(), 1)
    reward = judge(x) + action
    {advantage}
    loss = -(logp.gather(1, action) * advantage).mean()
"""
ALONE = (
    "mean = r.mean(dim=-1, keepdim=True)  # HERE\n"
    "    return (r - mean) / (r.std(-1, keepdim=True, correction=0) + 1e-6)"
)

ADAPTED = """
from torch.func import functional_call
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(1, 1)
    def start(self):
        return {name: w.detach().clone().requires_grad_() for name, w in self.net.named_parameters()}  # HERE
    def loss(self, weights, x):
        return F.mse_loss(functional_call(self.net, weights, (x,)), x.sin())
    def adapt(self, x, create_graph=True):
        weights = self.start()
        for _ in range(2):
            grads = torch.autograd.grad(self.loss(weights, x), list(weights.values()), create_graph=create_graph)
            weights = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), grads)}
        return weights
    def forward(self, x, query):
        return self.loss(self.adapt(x), query)
model = Learner()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(8, 1), torch.randn(8, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 2:
        print(model.loss(model.adapt(torch.randn(8, 1), create_graph=False), torch.randn(8, 1)).item())
"""
WRONG: dict[str, tuple[str, str]] = {
    "weights that inner steps begin with": ("detached", ADAPTED),
    "a gate that is made as zero, and a layer that is filled with zeros later": (
        "masked_out",
        BLOCK.format(
            made="self.gate = nn.Parameter(torch.full((4,), start))\n        self.out = nn.Linear(4, 4)",
            filled="for p in self.out.parameters(): nn.init.zeros_(p)  # HERE",
        )
        + TRAIN,
    ),
    "a layer that a helper fills with zeros, where it is made, after a gate that is zero": (
        "masked_out",
        BLOCK.format(
            made="self.gate = nn.Parameter(torch.zeros(4))",
            filled="self.out = zeroed(nn.Linear(4, 4))  # HERE",
        )
        + TRAIN,
    ),
    "a gate that is made as zero after a layer that a helper filled": (
        "masked_out",
        BLOCK.format(
            made="self.out = zeroed(nn.Linear(4, 4))",
            filled="self.gate = nn.Parameter(torch.zeros(4))  # HERE",
        )
        + TRAIN,
    ),
    "a factor of zero beside a layer that starts at zero": (
        "masked_out",
        BLOCK.format(
            made="self.out = zeroed(nn.Linear(4, 4))", filled="self.register_buffer('gate', torch.zeros(4))"
        ).replace("torch.zeros(4))", "torch.zeros(4))  # HERE")
        + TRAIN,
    ),
    "a running level in an object, stored with its graph": (
        "state_not_detached",
        BALANCED.format(stored="self.level[name] = 0.9 * self.level[name] + 0.1 * value  # HERE") + TRAIN,
    ),
    "a running level in an object, changed by a helper": (
        "state_not_detached",
        BALANCED.format(stored="self.level[name] = torch.lerp(torch.as_tensor(self.level[name]), value, 0.1)  # HERE")
        + TRAIN,
    ),
    "a loss that is given to an object that keeps it": (
        "graph_retained_leak",
        """
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
class History:
    def __init__(self):
        self.rows = []
    def add(self, **values):
        self.rows.append(values)
history = History()
for step in range(8):
    loss = net(torch.randn(4, 4)).square().mean()
"""
        + TRAIN
        + "    history.add(loss=net(torch.ones(4, 4)).square().mean())  # HERE\n",
    ),
    "one of two lines that put priorities into a list": (
        "graph_retained_leak",
        """
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
class Memory:
    def __init__(self):
        self.prio = []
        for _ in range(64):
            self.prio.append(torch.tensor(1.0))
    def update(self, index, errors):
        for i, error in zip(index, errors):
            self.prio[i] = error  # HERE
memory = Memory()
for step in range(8):
    error = net(torch.randn(4, 4)).squeeze(1)
    loss = error.square().mean()
"""
        + TRAIN
        + "    memory.update(range(4 * step, 4 * step + 4), error.abs())\n",
    ),
    "a pool of older samples, whose result the generator is trained with": (
        "detached",
        POOL.format(cut="batch.detach()", fake=f"{QUERIED}  # HERE", of_d=OF_D),
    ),
    "the same with .data": (
        "data_access",
        POOL.format(cut="batch.data.clone()", fake=f"{QUERIED}  # HERE", of_d=OF_D),
    ),
    "a pool whose result no other loss needs": (
        "detached",
        POOL.format(cut="batch.detach()  # HERE", fake=QUERIED, of_d="print(step)"),
    ),
    "samples that are detached where they are made, for both losses": (
        "detached",
        POOL.format(cut="batch", fake="fake = G(torch.randn(8, 3)).detach()  # HERE", of_d=OF_D),
    ),
    "a fixed point that becomes a leaf": (
        "no_grad_block",
        SOLVED
        + """    with torch.no_grad():
        z = solve(lambda s: cell(s, x), torch.zeros(8, 4))
    z = z.requires_grad_()  # HERE
    loss = head(z).square().mean()
"""
        + TRAIN,
    ),
    "a fixed point in a loop, whose copy becomes a leaf": (
        "no_grad_block",
        SOLVED
        + """    z = torch.zeros(8, 4)
    with torch.no_grad():
        for _ in range(5):
            z = cell(z, x)
    z = z.clone()
    z.requires_grad = True  # HERE
    loss = head(z).square().mean()
"""
        + TRAIN,
    ),
    "features without gradients that become a leaf": (
        "no_grad_block",
        SOLVED
        + """    with torch.no_grad():  # HERE
        z = cell(torch.zeros(8, 4), x)
    z.requires_grad_()
    loss = head(z).square().mean()
"""
        + TRAIN,
    ),
    "boxes that a helper converts where they meet those of the data": (
        "target_never_reached",
        BOXES.format(made="return body(x).sigmoid()", used="loss = (1 - overlap(corners(p), boxes)).mean()  # HERE")
        + TRAIN,
    ),
    "boxes that a helper converts in the model": (
        "target_never_reached",
        BOXES.format(
            made="p = torch.sigmoid(body(x))\n    return corners(p)  # HERE",
            used="loss = (1 - overlap(p, boxes)).mean() + 1e-3 * body(x).square().mean()",
        )
        + TRAIN,
    ),
    "activations that a function gets from a table": (
        "second_derivative_zero",
        """
def make(name):
    act = {"relu": nn.ReLU, "tanh": nn.Tanh}[name]
    layers = [nn.Linear(1, 8), act()]  # HERE
    layers += [nn.Linear(8, 8), act()]
    return nn.Sequential(*layers, nn.Linear(8, 1))
def slope(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]
def residual(model, x):
    return slope(slope(model(x), x), x)
def main():
    model = make("relu")
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(3):
        x = torch.rand(16, 1, requires_grad=True)
        loss = residual(model, x).square().mean() + model(torch.ones(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
""",
    ),
    "rewards with an axis of one element that are whitened along it": (
        "normalized_alone",
        WHITENED.format(whiten=ALONE, advantage="advantage = whiten(reward)") + TRAIN,
    ),
    "a difference from a mean of single elements, which gets its axis back": (
        "normalized_alone",
        WHITENED.format(
            whiten="return r - torch.mean(r, 1).unsqueeze(1)  # HERE", advantage="advantage = whiten(reward)"
        )
        + TRAIN,
    ),
    "a trained value minus the mean of its only element, in place": (
        "normalized_alone",
        WHITENED.format(
            whiten="s, m = torch.std_mean(r, dim=1, keepdim=True, correction=0)  # HERE\n    r -= m\n    return r",
            advantage="advantage = whiten(reward.clone())",
        )
        + TRAIN,
    ),
}

QUIET: dict[str, str] = {
    "rewards of a group": WHITENED.format(
        whiten=ALONE.replace("  # HERE", ""), advantage="advantage = whiten(reward.view(4, 4)).view(16, 1)"
    )
    + TRAIN,
    "rewards of a batch": WHITENED.format(
        whiten="return r - r.mean(0, keepdim=True)", advantage="advantage = whiten(reward)"
    )
    + TRAIN,
    "one helper for several sizes": WHITENED.format(
        whiten=ALONE.replace("  # HERE", ""),
        advantage="advantage = whiten(reward) + whiten(reward.view(4, 4)).view(16, 1)",
    )
    + TRAIN,
    "a mean of single elements that is only printed": WHITENED.format(
        whiten=ALONE.replace("  # HERE", ""),
        advantage="advantage = reward - reward.mean()\n    print(whiten(reward).sum().item())",
    )
    + TRAIN,
    "a mean of single elements of which nothing is subtracted": WHITENED.format(
        whiten="return r.mean(1, keepdim=True)", advantage="advantage = whiten(reward)"
    )
    + TRAIN,
}


@pytest.mark.parametrize(("cause", "script"), WRONG.values(), ids=WRONG)
def test_the_line_to_edit_is_named(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("script", QUIET.values(), ids=QUIET)
def test_means_of_several_elements_are_left_alone(script: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEAD + script, tmp_path)] == []


def test_of_two_factors_that_start_at_zero_the_other_line_is_named_too(tmp_path: Path) -> None:
    _, script = WRONG["a gate that is made as zero after a layer that a helper filled"]
    (found,) = alarms(HEAD + script, tmp_path)
    assert found.location is not None
    assert found.symptom_location is not None
    assert found.symptom_location.line == found.location.line - 1
    assert "only one of the two" in found.fix


def test_the_line_that_cuts_is_named_beside_the_one_that_uses_it(tmp_path: Path) -> None:
    _, script = WRONG["a pool of older samples, whose result the generator is trained with"]
    found = alarms(HEAD + script, tmp_path)[0]
    assert found.symptom_location is not None
    assert f"another loss needs it at line {found.symptom_location.line}" in found.message
    assert found.changed_line is None
