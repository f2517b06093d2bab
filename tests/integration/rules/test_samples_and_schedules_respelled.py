"""Mistakes with samples, schedules, steps by hand and copies, in words that other programs use for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

REGRESSION = (
    HEAD + "net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.Adam(net.parameters(), lr=0.01)\ndata, goal = torch.randn(48, 4), torch.randn(48, 1)\n{}"
)
FADED = REGRESSION.format(
    "def faded(step):\n    return {}\nfor step in range(6):\n    rows = torch.randint(0, 48, (12,))\n"
    "    fit, size = F.mse_loss(net(data[rows]), goal[rows]), net[0].weight.square().sum()\n    {}" + TRAIN
)
READ = REGRESSION.format("for epoch in range(3):\n    for i, x in enumerate({}):\n        {}\n"
    "        loss = F.mse_loss(net(x), goal[:12])" + TRAIN.replace("\n    ", "\n        "))  # fmt: skip
POOLED = (
    HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv1d(2, 6, 3), nn.Linear(6, 3)

    def forward(self, x):
        h = {}
        return self.out({})

net = Net()
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    loss = F.cross_entropy(net(torch.randn(8, 2, 12)), torch.randint(0, 3, (8,)))"""
    + TRAIN
)
CLIPS = (
    HEAD + "net = nn.Linear(40, 3)\noptimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(4):\n    x = torch.randn({}) * torch.rand({}, 1, 1)\n    {}\n"
    "    loss = F.cross_entropy(net(x.flatten(1)[:, :40]), torch.randint(0, 3, (len(x),)))" + TRAIN
)
AUTOENCODER = (
    HEAD + "enc, dec = nn.Linear(12, 6), nn.Linear(3, 12)\n"
    "optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=0.01)\n"
    "for step in range(4):\n    x = (torch.rand(16, 12) > 0.5).float()\n    mean, raw = enc(x).chunk(2, -1)\n"
    "    std = F.softplus(raw) + 1e-3\n    out = dec(torch.addcmul(mean, std, torch.randn_like(std)))\n"
    "    gap = 0.5 * (mean.square() + std.square() - 1) - std.log()\n    {}" + TRAIN
)
BOUNDED = (
    HEAD + "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
    "for step in range(4):\n    x = torch.randn(32, 4)\n    y = {}\n    {}" + TRAIN
)
TRIPLES = (
    HEAD + "items = nn.Embedding(20, 6)\noptimizer = torch.optim.Adam(items.parameters())\n"
    "for step in range(4):\n    a, b, c = items(torch.randint(0, 20, (3, 16)))\n"
    "    near, far = (a - b).norm(dim=1), (a - c).norm(dim=1)\n    {}" + TRAIN
)
PLACES = (
    HEAD
    + """
class Finder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.out = nn.Embedding(12, 16), nn.Linear(16, 9)
        self.mix = nn.TransformerEncoderLayer(16, 2, 16, dropout=0.0)
        self.table = nn.Parameter(torch.randn(64, 16))

    def forward(self, ids):
        h = self.tok({}) * 4
        {}
        return self.out(self.mix(h).mean(0))

net = Finder()
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    loss = F.cross_entropy(net(torch.randint(0, 12, (14, 9))), torch.randint(0, 9, (14,)))"""
    + TRAIN
)
COSINE = (
    HEAD + "net = nn.Linear(3, 2)\noptimizer = torch.optim.Adam(net.parameters())\n"
    "curve = torch.cos((torch.linspace(0, 1, 51) + 0.008) / 1.008 * torch.pi / 2){}\n"
    "kept = (curve / curve[0])[1:].clamp(1e-4, 0.9999)\n"
    "for step in range(4):\n    x, noise, t = torch.randn(16, 2), torch.randn(16, 2), torch.randint(0, 50, (16,))\n"
    "    a = kept[t][:, None]\n    {}\n    loss = F.mse_loss(net(torch.cat([noisy, t[:, None] / 50], 1)), {})" + TRAIN
)
DENOISED = (
    HEAD
    + """
class Points(torch.utils.data.Dataset):
    def __init__(self):
        self.points, kept = torch.randn(24, 2), (1 - torch.linspace(1e-4, 0.05, 40)).cumprod(0)
        self.signal, self.sigma = kept.sqrt(), (1 - kept).sqrt()

    def __len__(self):
        return 24

    def __getitem__(self, i):
        eps = torch.randn(2)
        {}

net = nn.Linear({}, 2)
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(2):
    for {} in torch.utils.data.DataLoader(Points(), batch_size=8):
        {}"""
    + TRAIN.replace("\n    ", "\n        ")
)
POLICY = (
    HEAD
    + """
actor = nn.Linear(4, 2)
log_std = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.Adam([*actor.parameters(), log_std])
for step in range(4):
    state = torch.randn(16, 4)
    with torch.no_grad():
        {}
    weight = torch.randn(16)
    {}"""
    + TRAIN
)
NORMAL = "loss = -(torch.distributions.Normal(actor(state), log_std.exp()).log_prob(action).sum(1) * weight).mean()"
SQUARE = "loss = (weight * (0.5 * ((action - actor(state)) / log_std.exp()).pow(2) + log_std).sum(1)).mean()"
FOURIER = (
    HEAD + "net, fixed = nn.Linear(16, 1), torch.randn(2, 8)\noptimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(4):\n    x = torch.rand(16, 2)\n    {}\n"
    "    loss = F.mse_loss(net(torch.cat((angle.sin(), angle.cos()), -1)), x[:, :1])" + TRAIN
)
TRAVEL = REGRESSION.format(
    "import numpy as np\n{}\nfor epoch in range(2):\n    start = kept(net)\n"
    "    for rows in torch.arange(48).split(24):\n        loss = F.mse_loss(net(data[rows]), goal[rows])"
    + TRAIN.replace("\n    ", "\n        ")
    + "    end = kept(net)\n    {}"
)  # fmt: skip
OBSERVED = (
    HEAD
    + """
import numpy as np
class Walk:
    def __init__(self):
        self.place = np.random.uniform(-1, 1, (16, 2)).astype(np.float32)

    def look(self):
        return torch.from_numpy({})  # HERE

    def move(self):
        self.place += 0.1

walk, net = Walk(), nn.Linear(2, 1)
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    before = walk.look()
    walk.move()
    after, reward = walk.look(), torch.randn(16, 1)
    with torch.no_grad():
        target = reward + 0.9 * net(after)
    loss = F.mse_loss(net(before), target)"""
    + TRAIN
)
OWN_ADAM = """
import itertools
class Adam:
    def __init__(self, params):
        self.params, self.clock, self.t = list(params), itertools.count(1), 0
        self.mean = [torch.zeros_like(p) for p in self.params]

    def correction(self):
        return 1 - 0.9 ** next(self.clock)

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        {}
        for i, (p, m) in enumerate(zip(self.params, self.mean)):
            m.lerp_(p.grad, 0.1)
            {}
            p.add_(m, alpha=-0.01 / c)

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = Adam(net.parameters())
for step in range(5):
    loss = net(torch.randn(8, 4)).square().mean()"""
CORRIDOR = (
    '"""Values with a Polyak average."""\n' + HEAD + """
from torch.nn.utils import parameters_to_vector, vector_to_parameters
net = nn.Linear(4, 2)
slow = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.Adam(net.parameters())
for step in range(6):
    x, following, reward = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
    with torch.no_grad():
        target = reward + 0.9 * slow(following).amax(1)
    loss = F.mse_loss(net(x)[:, 0], target)"""
    + TRAIN + "    with torch.no_grad():\n        new = parameters_to_vector(net.parameters())\n        {}"
)  # fmt: skip
RANKED = (
    HEAD + "users, items, bias = nn.Embedding(9, 4), nn.Embedding(9, 4), nn.Parameter(torch.zeros(9))\n"
    "optimizer = torch.optim.Adam([*users.parameters(), *items.parameters(), bias])\n"
    "def score(u, i):\n    return torch.einsum('nd,nd->n', users(u), items(i)) + bias[i]\n"
    "def pairwise(positive, negative):\n    {}\n"
    "for step in range(4):\n    u, i, j = torch.randint(0, 9, (3, 16))\n"
    "    loss = pairwise(score(u, i), score(u, j))" + TRAIN
)
WEIGHED = (
    HEAD
    + """
class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 3)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    @torch.no_grad()
    def rate(self, out, y):
        raw = 1 - out.softmax(1).gather(1, y[:, None]).squeeze(1)
        return raw / raw.mean()

    def step(self, x, y):
        out = self.net(x)
        self.hardness = self.rate(out, y)  # HERE
        loss = {}
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

trainer = Trainer()
for step in range(4):
    trainer.step(torch.randn(16, 4), torch.randint(0, 3, (16,)))
"""
)

SAMPLED = (
    HEAD
    + """
enc, dec = nn.Linear(6, 8), nn.Linear(4, 6)
optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
data = torch.randn(99, 6)
def draw(mean, std, *, noise={}):{}
    return torch.addcmul(mean, std, {})
for step in range(6):
    x = data[torch.randint(0, 99, (16,))]
    mean, raw = enc(x).chunk(2, 1)
    loss = F.mse_loss(dec(draw(mean, F.softplus(raw))), x) + 0.01 * (mean.square() + raw.square()).mean()"""
    + TRAIN
)
HELD = (
    HEAD + "net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.{}\n"
    "for step in range(8):\n    if step == 4:\n        for p in net[0].parameters():\n            {}\n"
    "    loss = net(torch.randn(16, 4)).square().mean()" + TRAIN
)

FAULTS = {
    "a weight in add() that is rounded down": (
        "term_without_gradient",
        FADED.format("0.5 * min(1.0, step // 100)  # HERE", "loss = torch.add(fit, size, alpha=faded(step))"),
    ),
    "the same as a factor": (
        "term_without_gradient",
        FADED.format("min(int(step / 100), 1)  # HERE", "weight = faded(step)\n    loss = fit + weight * size"),
    ),
    "the same with lerp()": (
        "term_without_gradient",
        FADED.format("min(1, step // 100)  # HERE", "loss = torch.lerp(fit, size, float(faded(step)))"),
    ),
    "dropout in place on parts of the data": (
        "data_changed_again", READ.format("data.split(12)", "x = F.dropout(x, 0.3, inplace=True)  # HERE"),
    ),
    "a logarithm in place on chunks": (
        "data_changed_again", READ.format("data.abs_().chunk(4)", "x.log1p_()  # HERE"),
    ),
    "chunks in another shape are scaled": (
        "data_changed_again", READ.format("data.tensor_split(4)", "x.view(-1).mul_(1.1)  # HERE"),
    ),
    "a pool after a normalization in the same module": (
        "cancels_to_zero",
        POOLED.format("F.instance_norm(self.conv(x))  # HERE", "F.adaptive_avg_pool1d(h, 1).flatten(1)"),
    ),
    "means of clips meet the frames": (
        "batch_meets_last_axis",
        CLIPS.format(
            "10, 8, 10", "10", "spread, mid = torch.std_mean(x, dim=(1, 2))\n    x = x.sub(mid) / spread  # HERE"
        ),
    ),
    "the same in two reductions": (
        "batch_meets_last_axis", CLIPS.format("10, 8, 10", "10", "x = x - x.mean(-1).mean(-1)  # HERE"),
    ),
    "the same after flatten()": (
        "batch_meets_last_axis", CLIPS.format("10, 8, 10", "10", "x = x / x.flatten(1).norm(dim=1)  # HERE"),
    ),
    "a divergence is summed by einsum": (
        "divergence_outweighs",
        AUTOENCODER.format("loss = F.binary_cross_entropy_with_logits(out, x) + torch.einsum('nz->', gap)  # HERE"),
    ),
    "a divergence is flattened and summed": (
        "divergence_outweighs",
        AUTOENCODER.format(
            "loss = gap.flatten().sum()  # HERE\n"
            "    loss = loss + F.binary_cross_entropy_with_logits(out, x, reduction='sum') / x.numel()"
        ),
    ),
    "a silu at the end": (
        "target_never_reached", BOUNDED.format("3 * x[:, :1]", "loss = F.mse_loss(F.silu(net(x)), y)  # HERE"),
    ),
    "a gelu at the end": (
        "target_never_reached",
        BOUNDED.format("3 * x[:, :1]", "out = F.gelu(net(x))  # HERE\n    loss = F.l1_loss(out, y)"),
    ),
    "an elu at the end": (
        "target_never_reached",
        BOUNDED.format("4 * x[:, :1]", "out = F.elu(net(x))  # HERE\n    loss = F.mse_loss(out, y)"),
    ),
    "a margin on a stacked difference": (
        "margin_without_clamp", TRIPLES.format("loss = torch.stack((near, -far)).sum(0).add(1.0).mean()  # HERE"),
    ),
    "a margin on a sum with alpha": (
        "margin_without_clamp", TRIPLES.format("loss = (torch.add(near, far, alpha=-1) + 1.0).mean()  # HERE"),
    ),
    "a margin on a sum with a negative": (
        "margin_without_clamp", TRIPLES.format("loss = (far.neg() + near + 1.0).mean()  # HERE"),
    ),
    "positions along the batch after ids were turned": (
        "positions_of_samples", PLACES.format("ids.t()", "h = h + self.table[: h.size(1)]  # HERE"),
    ),
    "the same with permute()": (
        "positions_of_samples",
        PLACES.format("ids.permute(1, 0)", "h = h.add(self.table.narrow(0, 0, h.shape[1]))  # HERE"),
    ),
    "a squared cosine without roots": (
        "mixed_without_root", COSINE.format(".square()", "noisy = torch.lerp(noise, x, a)  # HERE", "noise"),
    ),
    "a squared cosine without one root": (
        "mixed_without_root", COSINE.format(" ** 2", "noisy = a.sqrt() * x + (1 - a) * noise  # HERE", "noise"),
    ),
    "a step that a data set draws as a number": (
        "step_not_given",
        DENOISED.format(
            "t = int(torch.randint(40, ()))\n        return self.signal[t] * self.points[i] + self.sigma[t] * eps, eps",
            "2", "noisy, eps", "loss = F.mse_loss(net(noisy), eps)  # HERE",
        ),
    ),
    "a step that a data set draws with item()": (
        "step_not_given",
        DENOISED.format(
            "t = torch.randint(40, (1,)).item()\n"
            "        return torch.addcmul(self.signal[t] * self.points[i], self.sigma[t], eps), eps",
            "2", "noisy, eps", "loss = F.mse_loss(net(noisy), eps)  # HERE",
        ),
    ),
    "uniform noise of an action": (
        "uniform_noise",
        POLICY.format(
            "noise = torch.rand(16, 2)  # HERE\n        action = actor(state) + log_std.exp() * noise", NORMAL
        ),
    ),
    "the same with addcmul()": (
        "uniform_noise",
        POLICY.format(
            "noise = torch.empty(16, 2).uniform_()  # HERE\n"
            "        action = torch.addcmul(actor(state), log_std.exp(), noise)", SQUARE,
        ),
    ),
    "the same with alpha": (
        "uniform_noise",
        POLICY.format("mu = actor(state)\n        action = mu.add(torch.rand_like(mu), alpha=0.5)  # HERE", SQUARE),
    ),
    "frequencies drawn in place, by einsum": (
        "features_redrawn",
        FOURIER.format("w = torch.empty(2, 8).normal_()  # HERE\n    angle = torch.einsum('nd,df->nf', x, w)"),
    ),
    "frequencies with a phase": (
        "features_redrawn", FOURIER.format("w = torch.randn(2, 8)  # HERE\n    angle = 3 * (x @ w) + torch.ones(8)"),
    ),
    "arrays of parameters are subtracted": (
        "difference_with_itself",
        TRAVEL.format(
            "def kept(net):\n    return {k: p.numpy() for k, p in net.state_dict().items()}  # HERE",
            "print([np.abs(end[k] - start[k]).sum() for k in end])",
        ),
    ),
    "the same in pairs": (
        "difference_with_itself",
        TRAVEL.format(
            "def kept(net):\n    return [p.detach().numpy() for p in net.parameters()]  # HERE",
            "print(sum(np.linalg.norm(b - a) for a, b in zip(start, end)))",
        ),
    ),
    "the same in a function": (
        "difference_with_itself",
        TRAVEL.format(
            "def kept(net):\n    return net[0].weight.data.numpy()  # HERE\n"
            "def moved(old, new):\n    return np.linalg.norm(new - old)",
            "print(moved(start, end))",
        ),
    ),
    "an environment gives its array": ("next_state_is_state", OBSERVED.format("self.place")),
    "a counter that a method advances": (
        "counted_by_parameter", HEAD + OWN_ADAM.format("pass", "c = self.correction()  # HERE") + TRAIN,
    ),
    "a counter in steps by hand": (
        "counted_by_parameter",
        HEAD + OWN_ADAM.format("pass", "self.t += 1  # HERE\n            c = 1 - 0.9**self.t") + TRAIN,
    ),
    "a copy of the target is averaged": (
        "target_never_updated",
        CORRIDOR.format("old = parameters_to_vector(slow.parameters())\n        old.lerp_(new, 0.1)  # HERE"),
    ),
    "the same with other words": (
        "target_never_updated",
        CORRIDOR.format(
            "old = parameters_to_vector(slow.parameters())\n        old.mul_(0.9).add_(new, alpha=0.1)  # HERE"
        ),
    ),
    "positions are looked up along the batch after ids were turned": (
        "positions_of_samples",
        PLACES.format("ids.t()", "h = h + F.embedding(torch.arange(h.size(1)), self.table)  # HERE"),
    ),
    "noise as long as the batch": (
        "noise_drawn_once", SAMPLED.format("torch.randn(64, 4)", "  # HERE", "noise[: len(mean)]"),
    ),
    "arguments are named as a pair": (
        "negative_preferred", RANKED.format("return F.softplus(torch.sub(positive, negative)).mean()  # HERE"),
    ),
    "the same with a minus": (
        "negative_preferred", RANKED.format("return -F.logsigmoid(negative - positive).mean()  # HERE"),
    ),
    "noise that is a default of a function": (
        "noise_drawn_once", SAMPLED.format("torch.randn(16, 4)", "  # HERE", "noise"),
    ),
    "a hook without a source holds weights": (
        "frozen_still_moves",
        HELD.format("AdamW(net.parameters(), weight_decay=0.1)", "p.register_hook(torch.zeros_like)  # HERE"),
    ),
    "weights of samples in an attribute": (
        "computed_and_not_read", WEIGHED.format("F.cross_entropy(out, y)"),
    ),
}  # fmt: skip
RIGHT = {
    "a weight of 0 that may be meant": FADED.format("0.0", "loss = torch.add(fit, size, alpha=faded(step))"),
    "a staircase that begins at 0": FADED.format("0.1 * (step // 100)", "loss = fit + faded(step) * size"),
    "a weight that rises": FADED.format("min(1.0, step / 100)", "loss = torch.add(fit, size, alpha=faded(step))"),
    "dropout of parts of the data": READ.format("data.split(12)", "x = F.dropout(x, 0.3)"),
    "a logarithm of copies": READ.format("data.abs_().clone().chunk(4)", "x = x.log1p()"),
    "a momentum by hand beside an optimizer": REGRESSION.format(
        "other = nn.Linear(4, 1)\nmeans = [torch.zeros_like(p) for p in (*other.parameters(), *net.parameters())]\n"
        "for step in range(5):\n    other.zero_grad()\n    F.mse_loss(other(data), goal).backward()\n"
        "    with torch.no_grad():\n        for p, m in zip(other.parameters(), means):\n"
        "            m.lerp_(p.grad, 0.1)\n            p.sub_(m, alpha=0.01)\n"
        "    loss = F.mse_loss(net(data), goal)" + TRAIN
    ),
    "parts that are normalized once": REGRESSION.format(
        "for x in data.chunk(4):\n    x.sub_(x.mean()).div_(x.std())\n"
        "for step in range(4):\n    loss = F.mse_loss(net(data), goal)" + TRAIN
    ),
    "rows of a buffer that is filled each time": READ.format(
        "torch.zeros(48, 4).split(12)", "x.copy_(data[12 * i : 12 * i + 12]).tanh_()"
    ),
    "a pool behind an activation": POOLED.format(
        "F.relu(F.instance_norm(self.conv(x)))", "F.adaptive_avg_pool1d(h, 1).flatten(1)"
    ),
    "means of clips with their axes": CLIPS.format("10, 8, 10", "10", "x = x - x.mean((1, 2), keepdim=True)"),
    "means of frames": CLIPS.format("10, 8, 10", "10", "x = x - x.mean((0, 1))"),
    "means of frames of each clip": CLIPS.format("10, 8, 10", "10", "x = x - x.mean(1, keepdim=True)"),
    "sums of a sample": AUTOENCODER.format(
        "loss = F.binary_cross_entropy_with_logits(out, x, reduction='sum') / 16 + torch.einsum('nz->n', gap).mean()"
    ),
    "both are sums of a batch": AUTOENCODER.format(
        "loss = F.binary_cross_entropy_with_logits(out, x, reduction='sum') + torch.einsum('nz->', gap)"
    ),
    "a small weight of a sum": AUTOENCODER.format(
        "loss = F.binary_cross_entropy_with_logits(out, x) + torch.einsum('nz->', gap) / (16 * 12)"
    ),
    "a silu for positive targets": BOUNDED.format("x[:, :1].abs()", "loss = F.mse_loss(F.silu(net(x)), y)"),
    "an elu for targets that it reaches": BOUNDED.format("x[:, :1].tanh()", "loss = F.mse_loss(F.elu(net(x)), y)"),
    "an elu plus one": BOUNDED.format("x[:, :1].exp()", "loss = F.mse_loss(F.elu(net(x)) + 1, y)"),
    "a margin that is cut off in a stack": TRIPLES.format("loss = F.relu(torch.stack((near, -far)).sum(0) + 1).mean()"),
    "a sum of two distances": TRIPLES.format("loss = (torch.stack((near, far)).sum(0) + 1.0).mean()"),
    "a constant beside one distance": TRIPLES.format("loss = (near + 1.0).mean()"),
    "positions along the time after ids were turned": PLACES.format(
        "ids.t()", "h = h + self.table[: h.size(0)].unsqueeze(1)"
    ),
    "a squared cosine with roots": COSINE.format(
        ".square()", "noisy = a.sqrt() * x + (1 - a).sqrt() * noise", "noise"
    ),
    "a cosine and its sine": COSINE.format("", "noisy = a * x + (1 - a**2).sqrt() * noise", "noise"),
    "a velocity between data and noise": COSINE.format(".square()", "noisy = torch.lerp(noise, x, a)", "x - noise"),
    "a step that a data set returns": DENOISED.format(
        "t = int(torch.randint(40, ()))\n"
        "        return self.signal[t] * self.points[i] + self.sigma[t] * eps, t, eps",
        "3", "noisy, t, eps", "loss = F.mse_loss(net(torch.cat([noisy, t[:, None] / 40], 1)), eps)",
    ),
    "a factor that a data set returns": DENOISED.format(
        "t = int(torch.randint(40, ()))\n"
        "        return self.signal[t] * self.points[i] + self.sigma[t] * eps, self.sigma[t], eps",
        "3", "noisy, s, eps", "loss = F.mse_loss(net(torch.cat([noisy, s[:, None]], 1)), eps)",
    ),
    "normal noise of an action": POLICY.format("action = actor(state) + log_std.exp() * torch.randn(16, 2)", NORMAL),
    "uniform noise that is centred and scaled": POLICY.format(
        "action = actor(state) + log_std.exp() * (torch.rand(16, 2) - 0.5) * 12**0.5", SQUARE
    ),
    "an action that is drawn from an interval": POLICY.format("action = torch.rand(16, 2)", NORMAL),
    "frequencies that are kept": FOURIER.format("angle = torch.einsum('nd,df->nf', x, fixed)"),
    "arrays that are copied": TRAVEL.format(
        "def kept(net):\n    return {k: p.numpy().copy() for k, p in net.state_dict().items()}",
        "print([np.abs(end[k] - start[k]).sum() for k in end])",
    ),
    "arrays that are shown": TRAVEL.format(
        "def kept(net):\n    return {k: p.numpy() for k, p in net.state_dict().items()}",
        "print([abs(end[k]).max() - 1 for k in end])",
    ),
    "norms of arrays": TRAVEL.format(
        "def kept(net):\n    return {k: np.linalg.norm(p.numpy()) for k, p in net.state_dict().items()}",
        "print([end[k] - start[k] for k in end])",
    ),
    "an environment gives a copy": OBSERVED.format("self.place.copy()"),
    "a counter of steps": HEAD + OWN_ADAM.format("c = self.correction()", "pass") + TRAIN,
    "a rate for each layer": HEAD + OWN_ADAM.format("pass", "c = 1.1**i") + TRAIN,
    "the target is written back": CORRIDOR.format(
        "old = parameters_to_vector(slow.parameters())\n"
        "        vector_to_parameters(old.lerp_(new, 0.1), slow.parameters())"
    ),
    "the positive is preferred": RANKED.format("return F.softplus(torch.sub(negative, positive)).mean()"),
    "noise that is drawn in a function": SAMPLED.format("None", "", "torch.randn_like(std)"),
    "noise of each sample": SAMPLED.format("torch.randn(99, 4)", "", "noise[torch.randint(0, 99, (16,))]"),
    "a fixed table of positions": HEAD
    + "net, table = nn.Linear(8, 8), torch.randn(64, 8)\noptimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(6):\n    x = torch.randn(20, 8)\n    loss = F.mse_loss(net(x + table[:20]), x.flip(0))" + TRAIN,
    "a fixed direction of an embedding": SAMPLED.format("torch.ones(16, 4)", "", "noise"),
    "a hook that scales": HELD.format(
        "AdamW(net.parameters(), weight_decay=0.1)", "p.register_hook(lambda g: 0.1 * g)"
    ),
    "data in a buffer that each step overwrites": HEAD
    + "net = nn.Linear(4, 1)\noptimizer, room = torch.optim.Adam(net.parameters()), torch.empty(16, 4)\n"
    "for step in range(6):\n    x, y = torch.randn(16, 4), torch.randn(16, 4)\n    torch.sub(x, y, out=room)\n"
    "    loss = F.mse_loss(net(room + x), y[:, :1])" + TRAIN,
    "attention that is kept to be looked at": HEAD
    + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.q = nn.Linear(4, 4)\n"
    "    def forward(self, x):\n        attn = (self.q(x) @ x.mT).softmax(-1)\n"
    "        self.attn_weights = attn.detach()\n        return attn @ x\n"
    "net = Net()\noptimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(4):\n    x = torch.randn(8, 5, 4)\n    loss = F.mse_loss(net(x), x.flip(1))" + TRAIN,
    "noise of any size is removed": DENOISED.format(
        "t = int(torch.randint(40, ()))\n        return self.points[i] + self.sigma[t] * eps, eps",
        "2", "noisy, eps", "loss = F.mse_loss(net(noisy), eps)",
    ),
    "energies of a pair": RANKED.replace("positive, negative", "pos_energy, neg_energy").format(
        "return F.softplus(pos_energy - neg_energy).mean()"
    ),
    "weights of samples that are used": WEIGHED.format(
        "(self.hardness * F.cross_entropy(out, y, reduction='none')).mean()"
    ),
}  # fmt: skip
CAUSES = {cause for cause, _ in FAULTS.values()}


@pytest.mark.parametrize(("cause", "script"), FAULTS.values(), ids=list(FAULTS))
def test_the_mistake_is_told_at_its_line(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, cause, tmp_path)


@pytest.mark.parametrize("script", RIGHT.values(), ids=list(RIGHT))
def test_what_looks_like_it_is_right(script: str, tmp_path: Path) -> None:
    assert CAUSES.isdisjoint(each.cause for each in alarms(script, tmp_path))
