"""Programs that are right and look like faults: settings compared, gradients measured, distances in a periodic box."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

DECAYS = """
def train(decay):
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=decay)
    for step in range(12):
        x = torch.randn(16, 4)
        loss = F.mse_loss(net(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
for decay in (0.0, 0.1, 5.0):
    train(decay)
"""
TASKS = """
tasks = []
for k in range(3):
    x = torch.randn(32, 4)
    tasks.append((x, (x[:, k] > 0).long()))
net = nn.Linear(4, 2)
for k, (x, y) in enumerate(tasks):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.8)
    for epoch in range(6):
        b = torch.randperm(32)[:8]
        loss = F.cross_entropy(net(x[b]), y[b])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
FISHER = """
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
def fisher(x):
    net.eval()
    found = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    for row in x:
        logits = net(row[None])
        label = torch.distributions.Categorical(logits=logits.detach()).sample()
        net.zero_grad()
        F.cross_entropy(logits, label).backward()
        for name, p in net.named_parameters():
            found[name] += p.grad.square() / len(x)
    net.zero_grad()
    net.train()
    return found
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for task in range(2):
    for step in range(6):
        x = torch.randn(16, 4)
        loss = F.cross_entropy(net(x), x.argmax(1).clamp(max=2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print({name: each.mean().item() for name, each in fisher(torch.randn(5, 4)).items()})
"""
SWING = """
policy = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(12):
    state = torch.randn(8, 2)
    loss = 0
    for moment in range(30):
        push = policy(state).squeeze(1)
        speed = state[:, 1] + 0.5 * (state[:, 0] + push)
        state = torch.stack([state[:, 0] + 0.5 * speed, speed], 1)
        loss = loss + state.square().sum(1).log1p().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
"""
BOX = (
    """
net = nn.Sequential(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def energy(pos, length):
    i, j = torch.triu_indices(4, 4, offset=1)
    d = pos[:, i] - pos[:, j]
    d = d - length * torch.round(d / length)
    return torch.exp(-d.norm(dim=-1)).sum(-1)
pos = (3 * torch.rand(32, 4, 3)).requires_grad_()
forces = -torch.autograd.grad(energy(pos, 3.0).sum(), pos)[0]
given = pos.detach()[:, :2].flatten(1)
for step in range(12):
    loss = F.mse_loss(net(given).squeeze(1), forces[:, 0, 0])
"""
    + TRAIN
)
WEIGHED = """
from torch.func import functional_call
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(12):
    x, clean = torch.randn(50, 4), torch.randn(50, 4)
    y, wanted = x[:, :3].argmax(1), clean[:, :3].argmax(1)
    params, moved = dict(net.named_parameters()), torch.zeros(50, requires_grad=True)
    losses = F.cross_entropy(functional_call(net, params, (x,)), y, reduction="none")
    grads = torch.autograd.grad((moved * losses).sum(), list(params.values()), create_graph=True)
    ahead = {name: p - 0.1 * grad for (name, p), grad in zip(params.items(), grads)}
    score = F.cross_entropy(functional_call(net, ahead, (clean,)), wanted)
    weight = (-torch.autograd.grad(score, moved)[0]).clamp(min=0)
    loss = (weight / weight.sum() * F.cross_entropy(net(x), y, reduction="none")).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BELLS = (
    """
net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 36))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
places = torch.arange(36.0)
def bell(at, sigma=1.3):
    height = (-((places - at) ** 2) / (2 * sigma**2)).exp()
    return height / height.sum(-1, keepdim=True)
for step in range(12):
    x = torch.rand(16, 2)
    loss = -(bell(36 * x[:, :1]) * net(x).log_softmax(-1)).sum(-1).mean()
"""
    + TRAIN
)
SHARED = """
encoders, decoder = [nn.Linear(n, 4) for n in (3, 5, 7)], nn.Sequential(nn.Tanh(), nn.Linear(4, 2))
steps = [torch.optim.Adam(each.parameters(), lr=0.01) for each in encoders]
shared = torch.optim.Adam(decoder.parameters(), lr=0.01)
for step in range(8):
    state = torch.randn(16, 8)
    for optimizer in (*steps, shared):
        optimizer.zero_grad()
    for encoder, optimizer in zip(encoders, steps):
        loss = F.mse_loss(decoder(encoder(state[:, :encoder.in_features])), state[:, :2])
        (loss / 3).backward()
        optimizer.step()
    shared.step()
"""
STOCK = """
policy = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
wanted = 10 + torch.randn(32, 6)
for step in range(8):
    stock, cost = torch.full((32,), 10.0), 0
    for day in range(6):
        seen = torch.stack([stock / 10, torch.full_like(stock, day / 6)], 1)
        stock = stock + 10 * F.softplus(policy(seen).squeeze(1)) - wanted[:, day]
        cost = cost + stock.abs().mean()
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
"""
PROBED = """
encoder = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
def train(inputs, model, parameters):
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for step in range(6):
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
x = torch.randn(32, 4)
labels = (x[:, 0] > 0).long()
train(x, encoder, encoder.parameters())
def probe(encoder):
    encoder.eval()
    with torch.no_grad():
        features = encoder(x)
    head = nn.Linear(2, 2)
    train(features, head, head.parameters())
    return (head(features).argmax(1) == labels).float().mean().item()
untrained = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
print(probe(untrained), probe(encoder))
"""
PATH = """
model = nn.Linear(6, 1)
x = torch.randn(40, 6)
def fit(model, strength):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=5)
    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x[:, :1]) + strength * model.weight.square().mean()
        loss.backward()
        return loss
    for _ in range(4):
        optimizer.step(closure)
for strength in (10.0, 1.0, 0.1, 0.01):
    fit(model, strength)
    print(strength, F.mse_loss(model(x), x[:, :1]).item())
"""
STEPS_OF_ROUNDING = """
class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step):
        ratio = x / step
        ctx.save_for_backward(ratio)
        return ratio.round().clamp(-3, 3) * step
    @staticmethod
    def backward(ctx, grad):
        ratio, = ctx.saved_tensors
        inside = ratio.abs() <= 3
        local = torch.where(inside, ratio.round() - ratio, ratio.clamp(-3, 3))
        return grad * inside, (grad * local).sum() / (3 * ratio.numel()) ** 0.5
step_size = nn.Parameter(torch.tensor(0.7))
net = nn.Linear(4, 1)
optimizer = torch.optim.Adam([*net.parameters(), step_size], lr=0.01)
for step in range(8):
    x = torch.randn(16, 4)
    loss = F.mse_loss(net(Quantize.apply(x, step_size)), x[:, :1])
"""
KINDS = """
users, items = nn.Embedding(30, 8), nn.Embedding(40, 8)
taste, kind = torch.arange(30) % 4, torch.arange(40) % 4
liked = [(kind == each).nonzero().squeeze(1) for each in range(4)]
optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.05)
for step in range(8):
    u, other = torch.randint(30, (64,)), torch.randint(40, (64,))
    i = torch.stack([liked[taste[each]][torch.randint(10, ())] for each in u.tolist()])
    loss = F.softplus((users(u) * (items(other) - items(i))).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    best = (users.weight @ items.weight.T).topk(5, dim=1).indices
    print((kind[best] == taste[:, None]).float().mean())
"""
ALLOWED = """
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6))
def shares_of(count):
    target = torch.zeros(6)
    target[torch.randperm(6)[:count]] = (3 * torch.randn(count)).softmax(0)
    return target
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
known = [(torch.randn(4), shares_of(1 + number % 6)) for number in range(40)]
for step in range(8):
    chosen = [known[each] for each in torch.randint(40, (16,)).tolist()]
    x, shares = map(torch.stack, zip(*chosen))
    loss = F.cross_entropy(net(x), shares)
"""
PROGRAMS = {
    "shares of the moves that are allowed": ALLOWED + TRAIN,
    "a learned step of rounding": STEPS_OF_ROUNDING + TRAIN,
    "the kinds of the best items": KINDS,
    "a decoder that several encoders share": SHARED,
    "a simulation that begins with one state": STOCK,
    "an encoder that is evaluated untrained": PROBED,
    "a warm start for each strength of a penalty": PATH,
    "weights of samples by a step ahead": WEIGHED,
    "targets that are bells around a place": BELLS,
    "strengths of weight decay that are compared": DECAYS,
    "an optimizer for each task of a list": TASKS,
    "a Fisher information in evaluation mode": FISHER,
    "a simulation whose gradients are clipped": SWING,
    "the shortest distances in a periodic box": BOX,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_right_program_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert [(each.cause, each.message) for each in alarms(HEAD + PROGRAMS[name], tmp_path)] == []
