"""Weights that are loaded, and drawn again before anything uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
import io
def make():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
def init(module):
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
file = io.BytesIO()
torch.save(make().state_dict(), file)
file.seek(0)
body, head = make(), nn.Linear(8, 2)
model = nn.Sequential(body, head)
"""
)
LOOP = (
    """
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(3):
    x = torch.randn(20, 5)
    loss = F.cross_entropy(model(x), (x.sum(1) > 0).long())
"""
    + TRAIN
)
WORDS = (
    HEAD
    + """
import numpy as np
class Tagger(nn.Module):
    def __init__(self, vectors):
        super().__init__()
        self.embed, self.out = nn.Embedding(12, 6), nn.Linear(6, 3)
        BODY
    def init_weights(self):
        self.embed.weight.data.uniform_(-0.1, 0.1)
        self.out.weight.data.uniform_(-0.1, 0.1)
        self.out.bias.data.zero_()
    def forward(self, ids):
        return self.out(self.embed(ids).mean(1))
model = Tagger(np.random.randn(12, 6).astype("float32"))
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(3):
    ids = torch.randint(0, 12, (8, 4))
    loss = F.cross_entropy(model(ids), ids[:, 0] % 3)
"""
    + TRAIN
)
LOADS = "self.embed.weight.data.copy_(torch.from_numpy(vectors))"
FAULTY = {
    "applied to the whole model": START
    + """
body.load_state_dict(torch.load(file))
model.apply(init)  # HERE
"""
    + LOOP,
    "a loop over all weights": START
    + """
body.load_state_dict(torch.load(file), strict=False)
for p in model.parameters():
    if p.dim() > 1:
        nn.init.kaiming_normal_(p)  # HERE
    else:
        nn.init.constant_(p, 0.0)
"""
    + LOOP,
    "vectors of words": WORDS.replace("BODY", LOADS + "\n        self.init_weights()").replace(
        "self.embed.weight.data.uniform_(-0.1, 0.1)", "self.embed.weight.data.uniform_(-0.1, 0.1)  # HERE"
    ),
    "vectors that the program computed": WORDS.replace("BODY", LOADS.replace("torch.from_numpy(vectors)", "vectors"))
    .replace('np.random.randn(12, 6).astype("float32")', "torch.randn(12, 6)")
    .replace(
        "copy_(vectors)", "copy_(vectors)\n        self.embed.weight.requires_grad = False\n        self.init_weights()"
    )
    .replace("self.embed.weight.data.uniform_(-0.1, 0.1)", "self.embed.weight.data.uniform_(-0.1, 0.1)  # HERE"),
    "a layer made of given vectors": WORDS.replace(
        "BODY", "self.embed = nn.Embedding.from_pretrained(torch.tensor(vectors))\n        self.init_weights()"
    ).replace("self.embed.weight.data.uniform_(-0.1, 0.1)", "self.embed.weight.data.uniform_(-0.1, 0.1)  # HERE"),
}
HEALTHY = {
    "copies of one layer": HEAD
    + """
layer = nn.Linear(5, 5)
model = nn.Sequential(*[copy.deepcopy(layer) for _ in range(3)], nn.Linear(5, 2))
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
"""
    + LOOP,
    "a transformer of torch": HEAD
    + """
model = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(3):
    x = torch.randn(6, 5, 8)
    loss = (model(x, x[:, :4]) - x[:, 1:]).square().mean()
"""
    + TRAIN,
    "a parameter of no values yet": HEAD
    + """
class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.stack([torch.empty(5, 2) for _ in range(3)]).float())
        nn.init.xavier_uniform_(self.weight)
    def forward(self, x):
        return (x @ self.weight).mean(0)
model = Scores()
"""
    + LOOP,
    "a new head that is larger than the rest": HEAD
    + """
body, head = nn.Linear(5, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
model = nn.Sequential(body, nn.ReLU(), head)
model.load_state_dict({name: torch.randn_like(value) for name, value in model.state_dict().items()})
for layer in (head[0], head[2]):
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(16, 5)), torch.randint(0, 3, (16,)))
"""
    + TRAIN,
    "loaded after it": START + "\nmodel.apply(init)\nbody.load_state_dict(torch.load(file))\n" + LOOP,
    "a new head": START
    + """
whole = copy.deepcopy(model.state_dict())
model.load_state_dict(whole)
head.reset_parameters()
nn.init.normal_(head.weight, std=0.01)
"""
    + LOOP,
    "vectors of words after it": WORDS.replace("BODY", "self.init_weights()\n        " + LOADS),
    "a layer made of given vectors, which is left out": WORDS.replace(
        "BODY", "self.embed = nn.Embedding.from_pretrained(torch.tensor(vectors))\n        self.init_weights()"
    ).replace("        self.embed.weight.data.uniform_(-0.1, 0.1)\n", ""),
    "an identity that the same function writes": WORDS.replace(
        "BODY", "self.embed.weight.data.copy_(torch.eye(12, 6))\n        self.init_weights()"
    ),
    "tried as it was, then from the beginning": START
    + """
body.load_state_dict(torch.load(file))
print(model(torch.randn(4, 5)))
model.apply(init)
"""
    + LOOP,
    "orthogonal, then smaller": START
    + """
nn.init.orthogonal_(head.weight)
nn.init.normal_(head.weight, std=0.01)
"""
    + LOOP,
}


@pytest.mark.parametrize("name", FAULTY)
def test_what_is_loaded_and_drawn_again_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "loaded_and_drawn_again", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_initial_values_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
