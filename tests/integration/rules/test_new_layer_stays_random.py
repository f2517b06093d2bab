"""Layers for a new task that are frozen with those that were trained before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
def encoder():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 5))
class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.a, self.b = nn.Parameter(torch.randn(2, base.in_features)), nn.Parameter(torch.zeros(base.out_features, 2))
    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()
pretrained = encoder().state_dict()
model = encoder()
model.load_state_dict(pretrained)
"""
)
LOOP = (
    """
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    loss = F.cross_entropy(model(x), x[:, :3].argmax(1))
"""
    + TRAIN
)
ADAPTED = "model[0], model[2] = Adapted(model[0]), Adapted(model[2])\n"
PROJECTED = """
class Projected(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        {made}
    def forward(self, x):
        h = self.base(x)
        return h + {sent}
model[0], model[2] = Projected(model[0]), Projected(model[2])
for name, p in model.named_parameters():
    p.requires_grad_({trained})
model[4] = nn.Linear(8, 3)
"""
FAULTY = {
    "the head before the freezing": START
    + """
model[4] = nn.Linear(8, 3)
for p in model.parameters():
    p.requires_grad = False  # HERE
"""
    + ADAPTED
    + LOOP,
    "trained by the same program": HEAD
    + """
body, old = nn.Linear(6, 8), nn.Linear(8, 4)
first = torch.optim.Adam([*body.parameters(), *old.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    first.zero_grad()
    F.cross_entropy(old(body(x)), x[:, :4].argmax(1)).backward()
    first.step()
prompt, head = nn.Parameter(torch.zeros(6)), nn.Linear(8, 3)
model = nn.Sequential(body, head)
model.requires_grad_(False)  # HERE
optimizer = torch.optim.Adam([prompt], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    loss = F.cross_entropy(model(x + prompt), x[:, :3].argmax(1))
"""
    + TRAIN,
    "adapters that are put into what the same program has trained": HEAD
    + """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.adapter = nn.Linear(6, 6), None
    def forward(self, x):
        h = x + torch.tanh(self.inner(x))
        return h if self.adapter is None else h + self.adapter(h)
model = nn.Sequential(Block(), Block(), nn.Linear(6, 4))
def train(optimizer, classes):
    for step in range(3):
        x = torch.randn(16, 6)
        loss = F.cross_entropy(model(x), x[:, :classes].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train(torch.optim.Adam(model.parameters(), lr=0.01), 4)
for block in model[:2]:
    block.adapter = nn.Sequential(nn.Linear(6, 2), nn.GELU(), nn.Linear(2, 6))
model.requires_grad_(False)  # HERE
model[2] = nn.Linear(6, 3)
train(torch.optim.Adam(model[2].parameters(), lr=0.01), 3)
""",
    "projections that are frozen, between which a vector is trained": START
    + PROJECTED.format(
        made="self.a, self.b, self.d = nn.Linear(8, 5), nn.Linear(5, 8), nn.Parameter(torch.zeros(8))",
        sent="self.b(self.a(h + self.d))",
        trained="name.endswith('.d')",
    ).replace("name.endswith('.d'))", "name.endswith('.d'))  # HERE")
    + LOOP,
    "adapters that are put in before the freezing": START
    + """
class Added(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.down, self.up = base, nn.Linear(8, 2), nn.Linear(2, 8)
        nn.init.normal_(self.up.weight, std=1e-3)
    def forward(self, x):
        h = self.base(x)
        return h + self.up(torch.relu(self.down(h)))
model[0], model[2] = Added(model[0]), Added(model[2])
model.requires_grad_(False)  # HERE
model[4] = nn.Linear(8, 3)
"""
    + LOOP,
}
HEALTHY = {
    "the head after the freezing": START
    + "\nfor p in model.parameters():\n    p.requires_grad = False\nmodel[4] = nn.Linear(8, 3)\n"
    + ADAPTED
    + LOOP,
    "the head is unfrozen again": START
    + "\nmodel[4] = nn.Linear(8, 3)\nmodel.requires_grad_(False)\nmodel[4].requires_grad_(True)\n"
    + ADAPTED
    + LOOP,
    "a random target that is meant, frozen by itself": START
    + """
target = nn.Linear(6, 5)
target.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    loss = F.mse_loss(model(x), target(x))
"""
    + TRAIN,
    "a head that the training leaves aside": START
    + """
model = nn.ModuleDict({"body": model, "unused": nn.Linear(8, 3)})
model.requires_grad_(False)
head = nn.Linear(5, 3)
optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    loss = F.cross_entropy(head(model["body"](x)), x[:, :3].argmax(1))
"""
    + TRAIN,
    "random features of what was trained": START
    + """
features = nn.Sequential(model, nn.Linear(5, 20), nn.Tanh())
features.requires_grad_(False)
head = nn.Linear(20, 3)
optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    loss = F.cross_entropy(head(features(x)), x[:, :3].argmax(1))
"""
    + TRAIN,
    "random projections whose results a trained vector scales": START
    + PROJECTED.format(
        made="self.a, self.b = nn.Linear(8, 5, bias=False), nn.Linear(5, 8, bias=False)\n"
        "        self.d, self.e = nn.Parameter(torch.ones(5)), nn.Parameter(torch.zeros(8))",
        sent="self.e * self.b(self.d * self.a(h))",
        trained="name[-2:] in ('.d', '.e')",
    )
    + LOOP,
    "random projections before a trained matrix": START
    + PROJECTED.format(
        made="self.a, self.b = nn.Linear(8, 5), nn.Linear(5, 8)", sent="self.b(self.a(h))", trained="'.b.' in name"
    )
    + LOOP,
    "a reservoir of random layers": HEAD
    + """
reservoir, head = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 30)), nn.Linear(30, 3)
reservoir.requires_grad_(False)
optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    loss = F.cross_entropy(head(reservoir(x)), x[:, :3].argmax(1))
"""
    + TRAIN,
    "frozen at first only": START
    + """
model[4] = nn.Linear(8, 3)
model.requires_grad_(False)
bias = nn.Parameter(torch.zeros(3))
optimizer = torch.optim.Adam([*model.parameters(), bias], lr=0.01)
for step in range(4):
    if step == 2:
        model.requires_grad_(True)
    x = torch.randn(16, 6)
    loss = F.cross_entropy(model(x) + bias, x[:, :3].argmax(1))
"""
    + TRAIN,
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_new_layer_that_is_frozen_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "new_layer_stays_random", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_frozen_layers_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not [each for each in alarms(HEALTHY[name], tmp_path) if each.cause == "new_layer_stays_random"]
