"""Healthy models that come near to what rules tell: sums, orders, quantizers, plans, forces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms

STEP = """
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MODELS = {
    "a divergence that is divided before it is summed": """
mu, rho = nn.Parameter(torch.randn(3, 8)), nn.Parameter(torch.full((3, 8), -3.0))
optimizer = torch.optim.Adam([mu, rho], lr=0.01)
data, labels = torch.randn(200, 8), torch.randint(0, 3, (200,))
for step in range(5):
    i = torch.randint(0, 200, (20,))
    sigma = F.softplus(rho)
    w = mu + sigma * torch.randn_like(sigma)
    error = F.cross_entropy(data[i] @ w.T, labels[i])
    kl = (0.5 * (sigma**2 + mu**2 - 1) - sigma.log()) / len(data)
    loss = error + kl.sum()
"""
    + STEP,
    "plans that lead far away": """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
start = torch.zeros(2)
for step in range(4):
    with torch.no_grad():
        mean, state = torch.zeros(2), start.expand(64, 2)
        for _ in range(3):
            plans = mean + torch.randn(64, 2)
            progress = (model(torch.cat([state, plans], 1)) - start).square().sum(1)
            mean = plans[progress.topk(8).indices].mean(0)
    a = mean + 0.1 * torch.randn(32, 2)
    s = torch.randn(32, 2)
    loss = (model(torch.cat([s, a], 1)) - (s + a)).square().mean()
"""
    + STEP,
    "control points that are every eighth pixel": """
net = nn.Conv2d(2, 2, 8, stride=8)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
y8, x8 = torch.meshgrid(torch.arange(0, 64, 8), torch.arange(0, 64, 8), indexing="ij")
points = torch.stack([x8, y8])[None]
y, x = torch.meshgrid(torch.arange(64), torch.arange(64), indexing="ij")
for step in range(4):
    pair = torch.rand(4, 2, 64, 64)
    disp = net(pair)
    inside = ((points + disp) / 63 - 0.5).abs().sub(0.5).relu().mean()
    dense = F.interpolate(disp, scale_factor=8, mode="bilinear")
    grid = torch.stack([x + dense[:, 0], y + dense[:, 1]], -1)
    warped = F.grid_sample(pair[:, 1:], 2 * grid / 63 - 1, align_corners=True)
    loss = (warped - pair[:, :1]).abs().mean() + inside
"""
    + STEP,
    "forces that are divided by the same deviation, and bounded": """
model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
pos, e, f = torch.randn(32, 3), 9 * torch.rand(32), torch.randn(32, 3)
std = e.std()
en, fn = (e - e.mean()) / std, (f / std).clamp(-5, 5)
for step in range(4):
    x = pos.clone().requires_grad_()
    energy = model(x).squeeze(1)
    (slope,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
    loss = (energy - en).square().mean() + (-slope - fn).square().mean()
"""
    + STEP,
    "a rate that falls by half in so many steps": """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
half_life = 100
sched = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** (step / half_life))
for i in range(100):
    loss = (model(torch.randn(8, 4)) - 1).square().mean() / 2
    loss.backward()
    if i % 2:
        optimizer.step()
        sched.step()
        optimizer.zero_grad()
""",
    "two tasks with a head each, one with few labels": """
body, heads = nn.Linear(8, 16), nn.ModuleList([nn.Linear(16, 3), nn.Linear(16, 5)])
optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=0.01)
for step in range(5):
    x = torch.randn(40, 8)
    dense = torch.randint(0, 3, (40,))
    sparse = torch.randint(0, 5, (40,))
    sparse[torch.rand(40) < 0.8] = -100
    optimizer.zero_grad()
    for head, y in zip(heads, (dense, sparse)):
        loss = F.cross_entropy(head(body(x).relu()), y) / 2
        loss.backward()
    optimizer.step()
""",
    "atoms that are all fitted anew at each stage": """
D = nn.Parameter(torch.randn(32, 8))
optimizer = torch.optim.Adam([D], lr=0.01)
for step in range(5):
    x = torch.randn(8)
    chosen = []
    residual = x
    for k in range(4):
        chosen.append((D.detach() @ residual.detach()).abs().argmax())
        atoms = D[torch.stack(chosen)]
        coef = torch.linalg.lstsq(atoms.detach().T, x[:, None]).solution[:, 0]
        residual = x - coef @ atoms
    loss = residual.square().mean()
"""
    + STEP,
    "one line, whose points may come from either end": """
net = nn.Linear(16, 40)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(5):
    image, line = torch.randn(16), torch.rand(20, 2)
    made = net(image).view(20, 2)
    loss = torch.minimum((made - line).abs().mean(), (made - line.flip(0)).abs().mean())
"""
    + STEP,
    "records of fields, each of which is embedded": """
raw = torch.randint(0, 12, (6 * 200,))
records = raw.view(-1, 6)
emb, rnn, head = nn.Embedding(12, 8), nn.GRU(48, 16), nn.Linear(16, 72)
optimizer = torch.optim.Adam([*emb.parameters(), *rnn.parameters(), *head.parameters()], lr=0.01)
for start in range(0, 180, 20):
    x, y = records[start:start+20], records[start+1:start+21]
    out, _ = rnn(emb(x).flatten(1))
    loss = F.cross_entropy(head(out).view(-1, 12), y.flatten())
"""
    + STEP,
    "the sum of all codes until then, of which a list is kept": """
tables = [nn.Parameter(torch.randn(8, 4)) for _ in range(4)]
encoder = nn.Linear(6, 4)
optimizer = torch.optim.Adam([*tables, *encoder.parameters()], lr=0.01)
for step in range(5):
    x = encoder(torch.randn(16, 6))
    codes = []
    residual = x
    for table in tables:
        codes.append(table[torch.cdist(residual.detach(), table.detach()).argmin(-1)])
        residual = x - torch.stack(codes).sum(0)
    total = torch.stack(codes).sum(0)
    loss = (total - x.detach()).square().mean() + (x - total.detach()).square().mean()
"""
    + STEP,
    "tags of tokens, of which the padding has none": """
emb, rnn, head = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 5)
optimizer = torch.optim.SGD([*emb.parameters(), *rnn.parameters(), *head.parameters()], lr=0.1)
for step in range(6):
    rows = [torch.cat([torch.randint(1, 20, (n,)), torch.tensor([0])]) for n in (3, 5, 9 + step, 4, 6, 7)]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    tags = torch.where(ids == 0, 0, 1 + ids % 4)
    scores = head(rnn(emb(ids))[0])
    loss = F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=0)
"""
    + STEP,
    "a codebook and what it is chosen for, each drawn to the other": """
encoder, book = nn.Linear(6, 4), nn.Embedding(8, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *book.parameters()], lr=0.01)
for step in range(5):
    z = encoder(torch.randn(16, 6)).tanh()
    q = book(torch.cdist(z, book.weight).argmin(-1))
    spread = (z.std(0) - 1).square().mean()
    loss = spread + (q - z.detach()).pow(2).mean() + 0.25 * (q.detach() - z).pow(2).mean()
"""
    + STEP,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_healthy_model_that_comes_near_to_a_mistake_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + MODELS[name], tmp_path)


CHOSEN = (
    HEAD + "net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))\n"
    "optimizer = torch.optim.Adam(net.parameters(), 0.01)\n"
    "for step in range(8):\n    x = torch.randn(16, 4)\n    y = torch.stack([x[:, 0], x[:, 1].abs()], 1)\n{}" + STEP
)
CHOICES = {
    "the best of several guesses": CHOSEN.format(
        "    losses = [F.mse_loss(net(torch.cat([x, torch.randn(16, 2)], 1)), y) for _ in range(4)]\n"
        "    loss = min(losses, key=lambda each: each.item())"
    ),
    "the hardest part of a batch": CHOSEN.format(
        "    losses = []\n    for part in torch.arange(16).chunk(4):\n"
        "        losses.append(F.mse_loss(net(torch.cat([x, x[:, :2]], 1)[part]), y[part]))\n"
        "    loss = max(losses, key=float)"
    ),
    "blocks that are left out at random": HEAD
    + "class Block(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
    "        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())\n"
    "    def forward(self, x):\n        return x if torch.rand(()) < 0.7 else x + self.layers(x)\n"
    "net = nn.Sequential(nn.Linear(4, 16), Block(16), Block(16), nn.Linear(16, 1))\n"
    "optimizer = torch.optim.Adam(net.parameters(), 0.01)\n"
    "for step in range(20):\n    x = torch.randn(32, 4)\n    loss = F.mse_loss(net(x), x[:, :1])" + STEP,
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_loss_that_is_chosen_and_layers_that_are_left_out_are_no_alarm(name: str, tmp_path: Path) -> None:
    assert alarms(CHOICES[name], tmp_path) == []
