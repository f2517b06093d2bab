"""Mistakes as modules, data sets and agents write them, whose rules know the same in functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import assert_first_alarm

PROGRAMS = {
    "unreachable_entropy": """
import torch
from torch import nn
import torch.distributions as D


class Actor(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.ReLU())
        self.mu = nn.Linear(32, act)
        self.log_std = nn.Linear(32, act)

    def sample(self, s):
        h = self.body(s)
        dist = D.TransformedDistribution(
            D.Normal(self.mu(h), self.log_std(h).clamp(-5, 2).exp()), [D.TanhTransform(cache_size=1)]
        )
        a = dist.rsample()
        return a, dist.log_prob(a).sum(-1, keepdim=True)


class Agent:
    def __init__(self, obs=4, act=2):
        self.actor = Actor(obs, act)
        self.q = nn.Sequential(nn.Linear(obs + act, 32), nn.ReLU(), nn.Linear(32, 1))
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.target_entropy = float(act)  # HERE
        self.opt_pi = torch.optim.Adam(self.actor.parameters(), lr=3e-3)
        self.opt_q = torch.optim.Adam(self.q.parameters(), lr=3e-3)
        self.opt_alpha = torch.optim.Adam([self.log_alpha], lr=3e-3)

    def update(self, s, a, r):
        q_loss = (self.q(torch.cat([s, a], -1)) - r).pow(2).mean()
        self.opt_q.zero_grad(); q_loss.backward(); self.opt_q.step()
        new_a, logp = self.actor.sample(s)
        pi_loss = (self.log_alpha.exp().detach() * logp - self.q(torch.cat([s, new_a], -1))).mean()
        self.opt_pi.zero_grad(); pi_loss.backward(); self.opt_pi.step()
        alpha_loss = (-self.log_alpha * (logp.detach() + self.target_entropy)).mean()
        self.opt_alpha.zero_grad(); alpha_loss.backward(); self.opt_alpha.step()


torch.manual_seed(0)
agent = Agent()
for step in range(12):
    s = torch.randn(64, 4)
    a = torch.rand(64, 2) * 2 - 1
    r = -(a - s[:, :2].tanh()).pow(2).sum(-1, keepdim=True)
    agent.update(s, a, r)
print(agent.log_alpha.exp().item())
""",
    "same_half_kept": """
import math
import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, dim, mask, hidden=32):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim), nn.Tanh())
        self.t = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, x):
        kept = x * self.mask
        s = self.s(kept) * (1 - self.mask)
        t = self.t(kept) * (1 - self.mask)
        z = kept + (1 - self.mask) * (x * torch.exp(s) + t)
        return z, s.sum(-1)


class RealNVP(nn.Module):
    def __init__(self, dim=4, depth=4):
        super().__init__()
        mask = torch.tensor([1.0, 0.0] * (dim // 2))
        self.layers = nn.ModuleList([Coupling(dim, mask.clone()) for _ in range(depth)])
        self.base = torch.distributions.MultivariateNormal(torch.zeros(dim), torch.eye(dim))

    def log_prob(self, x):
        logdet = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, ld = layer(x)  # HERE
            logdet = logdet + ld
        return self.base.log_prob(x) + logdet


torch.manual_seed(0)
flow = RealNVP()
opt = torch.optim.Adam(flow.parameters(), lr=2e-3)
mix = torch.randn(4, 4)
for step in range(12):
    x = torch.randn(128, 4) @ mix
    loss = -flow.log_prob(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
""",
    "argument_never_read": """
import torch
from torch import nn
import torch.nn.functional as F


class MaskedMSE(nn.Module):
    def forward(self, pred, target, mask):
        diff = pred - target
        return torch.mean(diff * diff)  # HERE


class Imputer(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(10, 24)
        self.dec = nn.Linear(24, 10)

    def forward(self, x):
        return self.dec(F.gelu(self.enc(x)))


torch.manual_seed(0)
base = torch.randn(300, 3) @ torch.randn(3, 10)
net, crit = Imputer(), MaskedMSE()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(12):
    rows = base[torch.randint(0, 300, (32,))]
    observed = (torch.rand_like(rows) > 0.3).float()
    inp = rows * observed
    missing = 1.0 - observed
    loss = crit(net(inp), rows, missing)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
""",
    "count_over_batches": """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(300, 4)
y = (x[:, 0] > x[:, 1]).long()
train_loader = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True)
val_loader = DataLoader(TensorDataset(x[240:], y[240:]), batch_size=20)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)


def run_epoch(loader, train):
    model.train(train)
    loss_sum, n_correct, n_batches = 0.0, 0, 0
    with torch.set_grad_enabled(train):
        for xb, yb in loader:
            logits = model(xb)
            loss = nn.functional.cross_entropy(logits, yb)
            if train:
                opt.zero_grad()
                loss.backward()
                opt.step()
            loss_sum += loss.item()
            n_correct += torch.sum(logits.argmax(-1) == yb).item()
            n_batches += 1
    return loss_sum / n_batches, n_correct / n_batches  # HERE


for epoch in range(4):
    tl, ta = run_epoch(train_loader, True)
    vl, va = run_epoch(val_loader, False)
    print(epoch, tl, ta, vl, va)
""",
    "copy_chooses": """
import random
from collections import deque
import torch
from torch import nn


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, s):
        return self.net(s)


class DoubleDQN:
    def __init__(self, gamma=0.95):
        self.online, self.frozen = QNet(), QNet()
        self.frozen.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=1e-3)
        self.memory = deque(maxlen=500)
        self.gamma = gamma

    @torch.no_grad()
    def td_target(self, r, s2, done):
        a2 = self.frozen(s2).max(1)[1]  # HERE
        q2 = self.online(s2)[torch.arange(len(a2)), a2]
        return r + self.gamma * (1 - done) * q2

    def learn(self, bs=32):
        s, a, r, s2, d = map(torch.stack, zip(*random.sample(self.memory, bs)))
        q = self.online(s)[torch.arange(bs), a]
        loss = nn.functional.smooth_l1_loss(q, self.td_target(r, s2, d))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


random.seed(0)
torch.manual_seed(0)
agent = DoubleDQN()
s = torch.randn(4)
for t in range(90):
    a = torch.randint(0, 3, ())
    s2 = 0.9 * s + 0.3 * (a.float() - 1) + 0.1 * torch.randn(4)
    agent.memory.append((s, a, -s2.abs().mean(), s2, (torch.rand(()) < 0.05).float()))
    s = s2
    if t >= 64:
        agent.learn()
    if t % 40 == 0:
        agent.frozen.load_state_dict(agent.online.state_dict())
""",
    "counted_at_other_end": """
import torch
from torch import nn


class MeanConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.self_lin = nn.Linear(d_in, d_out)
        self.nb_lin = nn.Linear(d_in, d_out)

    def forward(self, x, edge_index):
        row, col = edge_index
        msg = self.nb_lin(x)[row]
        agg = torch.zeros(x.size(0), msg.size(1)).scatter_add(0, col.unsqueeze(1).expand_as(msg), msg)
        deg = torch.bincount(row, minlength=x.size(0)).clamp(min=1).float()  # HERE
        return self.self_lin(x) + agg / deg.unsqueeze(-1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = MeanConv(6, 16), MeanConv(16, 3)

    def forward(self, x, ei):
        return self.c2(torch.relu(self.c1(x, ei)), ei)


torch.manual_seed(0)
N = 80
y = torch.randint(0, 3, (N,))
x = torch.randn(N, 6) + y[:, None] * 0.5
hubs = torch.randint(0, 10, (120,))
edge_index = torch.stack([torch.randint(0, N, (300,)), torch.cat([hubs, torch.randint(0, N, (180,))])])
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
tr = torch.arange(N) < 60
for epoch in range(25):
    out = net(x, edge_index)
    loss = nn.functional.cross_entropy(out[tr], y[tr])
    opt.zero_grad()
    loss.backward()
    opt.step()
print((net(x, edge_index).argmax(1) == y)[~tr].float().mean())
""",
    "levels_walked_upwards": """
import torch
from torch import nn


class Eps(nn.Module):
    def __init__(self, T):
        super().__init__()
        self.emb = nn.Embedding(T, 16)
        self.net = nn.Sequential(nn.Linear(18, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.emb(t)], dim=-1))


class Diffusion(nn.Module):
    def __init__(self, T=30):
        super().__init__()
        self.T = T
        betas = torch.linspace(1e-3, 0.2, T)
        self.register_buffer("betas", betas)
        self.register_buffer("alphas_bar", (1 - betas).log().cumsum(0).exp())
        self.model = Eps(T)

    def loss(self, x0):
        t = torch.randint(0, self.T, (len(x0),))
        eps = torch.randn_like(x0)
        ab = self.alphas_bar[t].view(-1, 1)
        return (self.model(ab.sqrt() * x0 + (1 - ab).sqrt() * eps, t) - eps).pow(2).mean()

    @torch.no_grad()
    def sample(self, n):
        x = torch.randn(n, 2)
        timesteps = list(range(self.T))
        for t in timesteps:  # HERE
            tt = torch.full((n,), t, dtype=torch.long)
            eps = self.model(x, tt)
            beta, ab = self.betas[t], self.alphas_bar[t]
            x = (x - beta / torch.sqrt(1 - ab) * eps) / torch.sqrt(1 - beta)
            if t > 0:
                x = x + beta.sqrt() * torch.randn_like(x)
        return x


torch.manual_seed(0)
ang = torch.rand(512) * 6.28
ring = torch.stack([ang.cos(), ang.sin()], 1)
diff = Diffusion()
opt = torch.optim.Adam(diff.parameters(), lr=2e-3)
for step in range(60):
    loss = diff.loss(ring[torch.randint(0, 512, (64,))])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(diff.sample(64).norm(dim=1).mean())
""",
    "boxes_not_flipped": """
import random
import torch
from torch import nn

S = 14


class Boxes(torch.utils.data.Dataset):
    def __init__(self, n, train=True):
        g = torch.Generator().manual_seed(0)
        self.xy = torch.randint(0, 8, (n, 2), generator=g)
        self.wh = torch.randint(3, 6, (n, 2), generator=g)
        self.train = train

    def __len__(self):
        return len(self.xy)

    def __getitem__(self, i):
        x, y = self.xy[i].tolist()
        w, h = self.wh[i].tolist()
        image = torch.zeros(1, S, S)
        image[0, y : y + h, x : x + w] = 1
        target = {"boxes": torch.tensor([x, y, x + w, y + h], dtype=torch.float32) / S}
        if self.train and random.random() > 0.5:
            image = torch.flip(image, dims=[2])  # HERE
        return image, target


random.seed(0)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * S * S, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Boxes(200), batch_size=20, shuffle=True)
for epoch in range(3):
    for image, target in loader:
        pred = model(image)
        loss = nn.functional.smooth_l1_loss(pred, target["boxes"])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
""",
}


@pytest.mark.parametrize("cause", PROGRAMS)
def test_mistake_in_another_spelling(cause: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAMS[cause], cause, tmp_path)
