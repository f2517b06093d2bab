"""Mistakes of a training as they look in a class of modules, dicts and helper functions; and their healthy
look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SOFTMAX = """
class Probabilities(nn.Module):
    def forward(self, x):
        e = torch.exp(x - x.amax(1, keepdim=True))
        return {}
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), Probabilities())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
    loss = {}
"""
PLATEAU = """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, {}
x, history = torch.randn(60, 4), []
y = (x[:, 0] > 0).long()
for epoch in range(6):
    loss = F.cross_entropy(model(x[:40]), y[:40])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        best = model(x[40:]).argmax(1).tolist()
    history.append({{"acc": sum(int(a == b) for a, b in zip(best, y[40:].tolist())) / 20}})
    schedule.step({})
"""
FIT = """
class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01){}
def run(module, batches):
    optimizer = module.configure_optimizers()
    for x in batches:
        optimizer.zero_grad()
        (module.net(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
module = Module()
data = torch.randn(4, 4, 16, 4)
"""
TIED = """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.out = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        {}
    def forward(self, ids):
        return self.out(self.emb(ids))
model = Tied()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    ids = torch.randint(0, 9, (6,))
    loss = F.cross_entropy(model(ids), (ids + 1) % 9)
"""
MIXTURE = """
from torch.distributions import Categorical, MixtureSameFamily, Normal
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 9))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    x = torch.rand(32, 1) * 4 - 2
    w, mu, s = model(x).view(-1, 3, 3).unbind(1)
    mixture = MixtureSameFamily(Categorical(logits=w), Normal(mu, F.softplus(s) + 0.05))
    loss = {}
"""
RATES = """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.{}
for step in range(12):
    loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 4 == 3:
        for group in optimizer.param_groups:
            group.update(lr=group["lr"] / 2){}
"""
NOISE = """
class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(9, 16), nn.SiLU(), nn.Linear(16, 8))
        self.register_buffer("eps", torch.randn(24, 8)){}
    def forward(self, x):
        a, eps = torch.rand(len(x), 1), {}
        return F.mse_loss(self.net(torch.cat([torch.lerp(eps, x, a), a], 1)), {})
model = Diffusion()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(64, 8)
for step in range(9):
    loss = model(data[torch.randperm(64)[: 24 if step % 3 else 16]])
"""
STATES = """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.take, self.keep = nn.Linear(3, 8), nn.Linear(8, 8, bias=False)
    def forward(self, x, h):
        return torch.tanh(self.take(x) + self.keep(h))
cell, head = Cell(), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x, y = torch.randn(10, 8, 3), torch.randint(0, 2, (10,))
    state = (torch.zeros(10, 8),)
    for {}
    loss = F.cross_entropy(head(state[0]), y)
"""
LABELS = """
weight = torch.full((3,), 2.0)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(16, 4)
    z = model(x)
    loss = F.binary_cross_entropy_with_logits({}, (x[:, :3] > 0).float(), pos_weight=weight)
"""
SEEDED = """
class Augment(nn.Module):
    def forward(self, x):
        {}
        return x + 0.2 * torch.randn_like(x)
model = nn.Sequential(Augment(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(96, 4)
y = (x[:, 0] > 0).long()
for epoch in range(3):
    for part, label in zip(x.split(16), y.split(16)):
        loss = F.cross_entropy(model(part), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
SET = """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
    {}
"""

WRONG = {
    "a learning rate as an attribute, in an object that no variable holds": (
        "rate_set_elsewhere",
        "class Trainer:\n    def __init__(self, model):\n        self.model = model\n"
        "        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    def fit(self):\n        for step in range(4):\n            self.opt.lr = 0.1 * 0.5**step  # HERE\n"
        "            loss = self.model(torch.randn(8, 4)).square().mean()\n            self.opt.zero_grad()\n"
        "            loss.backward()\n            self.opt.step()\nTrainer(nn.Linear(4, 2)).fit()\n",
    ),
    "a sigmoid by its formula": (
        "normalized_twice",
        LABELS.format("p").replace("z = model(x)", "p = 1 / (1 + torch.exp(-model(x)))  # HERE") + TRAIN,
    ),
    "a seed at each call, of batches that split() made": (
        "same_random_numbers",
        SEEDED.format("torch.manual_seed(7)  # HERE"),
    ),
    "a rate of group.update() beside LambdaLR": (
        "changed_rate_lost",
        RATES.format("LambdaLR(optimizer, lambda step: 0.98**step)", "  # HERE"),
    ),
    "the first of noise drawn once, which a network predicts": (
        "noise_drawn_once",
        NOISE.format("  # HERE", "self.eps[: len(x)]", "self.eps[: len(x)]") + TRAIN,
    ),
    "a cell of any formula whose state is cut off, of which the loss uses the last one": (
        "state_cut_each_step",
        STATES.format("now in x.unbind(1):\n        state = (cell(now, *(s.detach() for s in state)),)  # HERE")
        + TRAIN,
    ),
    "the same with tokens": (
        "state_cut_each_step",
        STATES.replace("x, y = torch.randn(10, 8, 3)", "x, y = torch.randint(0, 9, (10, 8))")
        .replace("head = Cell(),", "head, table = Cell(), nn.Linear(8, 2), nn.Embedding(9, 3) #")
        .format("t in range(8):\n        state = (cell(table(x[:, t]), state[0].detach()),)  # HERE")
        + TRAIN,
    ),
    "the same with the times by their number": (
        "state_cut_each_step",
        STATES.format("t in range(8):\n        state = (cell(x[:, t], state[0].detach()),)  # HERE") + TRAIN,
    ),
    "an output layer gets the values of an embedding": (
        "broken_weight_tie",
        TIED.format("with torch.no_grad():\n            self.out.weight.copy_(self.emb.weight)  # HERE") + TRAIN,
    ),
    "an output layer loads the state of an embedding": (
        "broken_weight_tie",
        TIED.format("self.out.load_state_dict(self.emb.state_dict())  # HERE") + TRAIN,
    ),
    "the likelihood of a mixture": (
        "fit_maximized",
        MIXTURE.format("mixture.log_prob(x[:, 0]).mean()  # HERE") + TRAIN,
    ),
    "a softmax by its formula before cross_entropy": (
        "normalized_twice",
        SOFTMAX.format("e / e.sum(1, keepdim=True)  # HERE", "F.cross_entropy(model(x), y)") + TRAIN,
    ),
    "a softmax by its formula before nll_loss": (
        "normalized_twice",
        SOFTMAX.format("e / e.sum(1, keepdim=True)  # HERE", "F.nll_loss(model(x), y)") + TRAIN,
    ),
    "a softmax by its formula before log_softmax": (
        "normalized_twice",
        SOFTMAX.format("e / e.sum(1, keepdim=True)  # HERE", "-model(x).log_softmax(1).gather(1, y[:, None]).mean()")
        + TRAIN,
    ),
    "the last accuracy of a list": (
        "plateau_of_wrong_side",
        PLATEAU.format('mode="min")  # HERE', 'history[-1]["acc"]'),
    ),
    "an optimizer for each epoch that a comprehension goes through": (
        "optimizer_made_anew",
        FIT.format("  # HERE") + "losses = [run(module, data[0]) for epoch in range(4)]\n",
    ),
}

HEALTHY = {
    "an attribute that notes what is written into the groups": SET.format(
        "optimizer.lr = 0.1 * 0.5**step\n    optimizer.param_groups[0]['lr'] = 0.1 * 0.5**step"
    )
    + TRAIN,
    "an attribute that a function reads": SET.format("optimizer.lr = 0.5**step\n    loss = loss * optimizer.lr")
    + TRAIN,
    "an optimizer of the program": SET.format("optimizer.lr = 0.5**step").replace(
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        "class SGD(torch.optim.Optimizer):\n    def __init__(self, params):\n        super().__init__(params, {})\n"
        "    def step(self):\n        with torch.no_grad():\n            for p in model.parameters():\n"
        "                p.sub_(p.grad, alpha=self.lr)\noptimizer = SGD(model.parameters())",
    )
    + TRAIN,
    "weights of classes that are one number, made first": LABELS.format("z") + TRAIN,
    "what is divided by another sum": LABELS.format("1 / (2 + torch.exp(z))") + TRAIN,
    "noise of batches that split() made": SEEDED.format("pass"),
    "the same noise in each half of a batch that split() made": """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
one, other = torch.randn(32, 4).split(16)
for step in range(8):
    noise = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
    loss = (model(one + noise) - model(other)).square().mean() + model(other).square().mean()
"""
    + TRAIN,
    "a rate of group.update() beside StepLR": RATES.format("StepLR(optimizer, 3, 0.9)", ""),
    "noise of each step": NOISE.format("", "torch.randn_like(x)", "eps") + TRAIN,
    "the first of a table that is mixed in, which no network predicts": NOISE.format("", "self.eps[: len(x)]", "x")
    + TRAIN,
    "a state with its history": STATES.format("now in x.unbind(1):\n        state = (cell(now, *state),)") + TRAIN,
    "the search of a fixed point, of which the last step has a gradient": STATES.format(
        "_ in range(8):\n        state = (cell(x[:, 0], state[0].detach()),)"
    )
    + TRAIN,
    "a state that is cut off in the middle": STATES.format(
        "t in range(8):\n        state = (cell(x[:, t], state[0].detach() if t == 4 else state[0]),)"
    )
    + TRAIN,
    "an output layer is the embedding": TIED.format("self.out.weight = self.emb.weight") + TRAIN,
    "both get the values of a table": TIED.format(
        "table = torch.randn(9, 4)\n        with torch.no_grad():\n            self.out.weight.copy_(table)\n"
        "            self.emb.weight.copy_(table)"
    )
    + TRAIN,
    "the likelihood of a mixture is subtracted": MIXTURE.format("-mixture.log_prob(x[:, 0]).mean()") + TRAIN,
    "the distances of a sample from all others are in logsumexp": """
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
centres = torch.randn(5, 3)
for step in range(4):
    y = torch.randint(0, 5, (16,))
    apart = (model(centres.new_ones(16, 4) * y[:, None] + 0.1 * torch.randn(16, 4))[:, None] - centres).square().sum(2)
    loss = (apart[torch.arange(16), y] + torch.logsumexp(-apart, 1)).mean()
"""
    + TRAIN,
    "the logarithm of a softmax by its formula": SOFTMAX.format(
        "e / e.sum(1, keepdim=True)", "F.nll_loss(model(x).log(), y)"
    )
    + TRAIN,
    "exponentials that are not divided": SOFTMAX.format("e", "F.cross_entropy(model(x), y)") + TRAIN,
    "the accuracy of a schedule that waits for the largest": PLATEAU.format('mode="max")', 'history[-1]["acc"]'),
    "what is missing to all": PLATEAU.format('mode="min")', '1 - history[-1]["acc"]'),
    "a comprehension that goes through tasks": FIT.format("") + "losses = [run(module, task) for task in data]\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_the_mistake_is_told_first(name: str, tmp_path: Path) -> None:
    cause, script = WRONG[name]
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_right_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[name], tmp_path) == []
