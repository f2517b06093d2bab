"""Programs that are right and look like faults: resumed trainings, layers that open later, several settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

SCHEDULE = """
def train(steps, total=12):
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 3, (total - step) / total))
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(2):
            (net(torch.randn(8, 4)).square().mean() / 2).backward()
        optimizer.step()
        schedule.step()
    return net, schedule
whole, half = train(12), train(6)
"""
MODELS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.log_var = nn.Linear(4, 2), nn.Parameter(torch.zeros(2))
def train(weighs):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(4):
        losses = (net.layer(torch.randn(8, 4)) - 1).square().mean(0)
        loss = (losses * (-net.log_var).exp() + net.log_var).sum() if weighs else losses.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net
plain, weighted = train(False), train(True)
"""
CLIPPED = (
    """
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
def clip(p):
    size = p.grad.norm()
    if size > 0.01:
        p.grad.mul_(0.01 / size)
for p in net.parameters():
    p.register_post_accumulate_grad_hook(clip)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = (net(torch.randn(8, 4)) - 3).square().mean()
"""
    + TRAIN
)
UNFROZEN = """
layers = copy.deepcopy(nn.ModuleList(nn.Linear(4, 4) for _ in range(4)))
groups = [{"params": layer.parameters(), "lr": 0.01 * 0.5**depth} for depth, layer in enumerate(reversed(layers))]
optimizer = torch.optim.SGD(groups)
for first in (3, 2, 1, 0):
    for number, layer in enumerate(layers):
        layer.requires_grad_(number >= first)
    for step in range(3):
        x = torch.randn(8, 4)
        for layer in layers:
            x = torch.tanh(layer(x))
        optimizer.zero_grad()
        (x - 0.3).square().mean().backward()
        optimizer.step()
"""
ATTENTION = (
    """
edges = torch.randint(0, 12, (2, 60))
layer, score, head = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 3)
optimizer = torch.optim.SGD([*layer.parameters(), *score.parameters(), *head.parameters()], lr=0.1)
x, y = torch.randn(12, 4), torch.randint(0, 3, (12,))
def propagate(edges, x, weights):
    source, target = edges
    return torch.zeros(12, 4).index_add(0, target, weights * x[source])
for step in range(4):
    h = layer(x)
    e = torch.exp(score(torch.tanh(h[edges[0]] + h[edges[1]])))
    weights = e / torch.zeros(12, 1).index_add(0, edges[1], e)[edges[1]]
    loss = F.cross_entropy(head(propagate(edges, h, weights)), y)
"""
    + TRAIN
)
COMPARED = (
    """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()
    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]
print(torch.autograd.gradcheck(Double.apply, (torch.randn(4, dtype=torch.double, requires_grad=True),)))
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = Double.apply(net(torch.randn(8, 4))).mean()
"""
    + TRAIN
)
BRANCHES = (
    """
class Block(nn.Module):
    def __init__(self, given, made, stride):
        super().__init__()
        self.one, self.first = nn.Conv2d(given, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made)
        self.two, self.last = nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made)
        self.short = nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))
        nn.init.zeros_(self.last.weight)
    def forward(self, x):
        return F.relu(self.last(self.two(F.relu(self.first(self.one(x))))) + self.short(x))
net = nn.Sequential(
    nn.Conv2d(3, 8, 3), Block(8, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 3)
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
for step in range(6):
    y = torch.randint(0, 3, (16,))
    loss = F.cross_entropy(net(torch.randn(16, 3, 8, 8) + y.view(-1, 1, 1, 1)), y)
"""
    + TRAIN
)
CART = (
    """
policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
def move(state, force):
    place, speed, motor = state.unbind(-1)
    motor = motor + 0.3 * (force - motor)
    speed = speed + 0.1 * motor
    return torch.stack([place + 0.1 * speed, speed, motor], -1)
for step in range(8):
    state, costs = torch.randn(32, 3), []
    for _ in range(5):
        state = move(state, policy(state).squeeze(-1))
        costs.append(state[:, 0].square())
    loss = torch.stack(costs).mean()
"""
    + TRAIN
)
QUERIES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 3)
        self.first, self.second = nn.Dropout(0.3), nn.Dropout(0.3)
    def forward(self, x):
        h = self.first(F.relu(self.one(x)))
        return self.three(self.second(F.relu(self.two(h))))
def answers(model, x, passes=8):
    model.eval()
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.train()
    with torch.no_grad():
        found = torch.stack([model(x).softmax(1) for _ in range(passes)])
    model.eval()
    return found
def train(x, y, steps=30):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model.train()
    for step in range(steps):
        rows = torch.randint(len(x), (32,))
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return model
def choose(x, y, turns=6):
    known = torch.zeros(len(x), dtype=torch.bool)
    known[torch.randperm(len(x))[:20]] = True
    for turn in range(turns):
        model = train(x[known], y[known])
        free = (~known).nonzero().squeeze(1)
        chosen = free[answers(model, x[free]).std(0).sum(1).topk(30).indices]
        known[chosen] = True
choose(torch.randn(300, 2), torch.randint(0, 3, (300,)))
"""
WEIGHED = """
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def weights(x, y, clean, wanted):
    params = {name: p.detach().requires_grad_() for name, p in net.named_parameters()}
    moved = torch.zeros(len(x), requires_grad=True)
    losses = F.cross_entropy(torch.func.functional_call(net, params, (x,)), y, reduction="none")
    grads = torch.autograd.grad((moved * losses).sum(), list(params.values()), create_graph=True)
    ahead = {name: p - 0.1 * grad for (name, p), grad in zip(params.items(), grads)}
    score = F.cross_entropy(torch.func.functional_call(net, ahead, (clean,)), wanted)
    weight = (-torch.autograd.grad(score, moved)[0]).clamp(min=0)
    return weight / weight.sum()
def fit():
    for step in range(12):
        x, clean = torch.randn(100, 4), torch.randn(100, 4)
        y, wanted = x[:, :3].argmax(1), clean[:, :3].argmax(1)
        weight = weights(x, y, clean, wanted)
        loss = (weight * F.cross_entropy(net(x), y, reduction="none")).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

fit()
"""
SCORED = """
class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2))
    def forward(self, x, t):
        t = t[:, None]
        return 0.49 / (t ** 2 + 0.49) * x + 0.7 * t / (t ** 2 + 0.49).sqrt() * self.net(torch.cat([x, t.log()], 1))
net = Denoiser()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
noise = torch.randn(64, 2)
@torch.no_grad()
def quality():
    return (net(6.0 * noise, torch.full((64,), 6.0)) - 1).square().mean().item()
def train(total=160):
    print(quality())
    for step in range(total):
        grid = (0.02 ** (1 / 7) + torch.arange(8) / 7 * (6.0 ** (1 / 7) - 0.02 ** (1 / 7))) ** 7
        i = torch.randint(7, (32,))
        low, high = grid[i], grid[i + 1]
        x, eps = torch.randn(32, 2), torch.randn(32, 2)
        student = net(x + high[:, None] * eps, high)
        with torch.no_grad():
            target = net(x + low[:, None] * eps, low)
        loss = ((student - target).square().sum(1) / (high - low)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print(quality())
train()
"""
PROGRAMS = {
    "answers under several dropout masks that choose samples": QUERIES,
    "weights of samples by the gradient at zero": WEIGHED,
    "noise that only scores a model": SCORED,
    "a motor that follows what a policy asks of it": CART,
    "a training that is left before the end of its schedule": SCHEDULE,
    "two models of a class, of which one needs a part": MODELS,
    "gradients that are clipped once they are complete": CLIPPED,
    "layers that are frozen at first": UNFROZEN,
    "two ways to take the ends of edges": ATTENTION,
    "a custom function that gradcheck compares": COMPARED,
    "branches that begin closed": BRANCHES,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_right_program_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert [(each.cause, each.message) for each in alarms(HEAD + PROGRAMS[name], tmp_path)] == []
