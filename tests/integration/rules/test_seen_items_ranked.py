from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CAUSE = "seen_items_ranked"
DATA = (
    HEAD
    + """
pairs = (torch.rand(30, 50) < 0.2).nonzero()
order = torch.randperm(len(pairs))
train, test = pairs[order[60:]], pairs[order[:60]]
seen = [set(train[train[:, 0] == u, 1].tolist()) for u in range(30)]
held = [set(test[test[:, 0] == u, 1].tolist()) for u in range(30)]
"""
)
FACTORS = (
    DATA
    + """
class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items, self.bias = nn.Embedding(30, 8), nn.Embedding(50, 8), nn.Embedding(50, 1)
    def forward(self, u, i):
        return (self.users(u) * self.items(i)).sum(-1) + self.bias(i).squeeze(-1)
model = Factors()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for epoch in range(3):
    for batch in train[torch.randperm(len(train))].split(64):
        u, i = batch[:, 0], batch[:, 1]
        loss = -F.logsigmoid(model(u, i) - model(u, torch.randint(50, i.shape))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
model.eval()
with torch.no_grad():
    {score}
"""
)
ALL = "scores = model.users.weight @ model.items.weight.T + model.bias.weight.T\n    "
HITS = "\n    print((best[test[:, 0]] == test[:, 1:]).any(1).float().mean())"
AUTOENCODER = (
    DATA
    + """
chosen, asked = torch.zeros(30, 50), torch.zeros(30, 50)
chosen[train[:, 0], train[:, 1]] = 1
asked[test[:, 0], test[:, 1]] = 1
model = nn.Sequential(nn.Linear(50, 12), nn.Tanh(), nn.Linear(12, 50))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    for rows in torch.randperm(30).split(10):
        x = chosen[rows]
        loss = -(model(x).log_softmax(1) * x).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    scores = model(chosen)
    {score}
"""
)


@pytest.mark.parametrize(
    "score",
    [
        ALL + "best = scores.topk(10, dim=1).indices  # HERE" + HITS,
        ALL + "best = torch.argsort(scores, dim=1, descending=True)[:, :10]  # HERE" + HITS,
        """hits = 0
    for u in range(30):
        scores = model(torch.full((50,), u), torch.arange(50))
        best = scores.topk(10).indices.tolist()  # HERE
        hits += len(set(best) & held[u])
    print(hits / 300)""",
        """def recall(best, asked):
        return len([i for i in best if i in asked]) / max(1, len(asked))
    def recommended(u):
        scores = model.items.weight @ model.users.weight[u]
        return torch.topk(scores, 10)[1].tolist()  # HERE
    total = 0
    for u in range(30):
        best = recommended(u)
        total += recall(best, held[u])
    print(total / 30)""",
    ],
)
def test_all_items_are_ranked(score: str, tmp_path: Path) -> None:
    assert_first_alarm(FACTORS.format(score=score), CAUSE, tmp_path)


def test_an_autoencoder(tmp_path: Path) -> None:
    score = "best = scores.topk(8, dim=1).indices  # HERE\n    print(asked.gather(1, best).sum(1).mean())"
    assert_first_alarm(AUTOENCODER.format(score=score), CAUSE, tmp_path)


@pytest.mark.parametrize(
    "score",
    [
        ALL + "scores[train[:, 0], train[:, 1]] = float('-inf')\n    best = scores.topk(10, dim=1).indices" + HITS,
        ALL
        + "mask = torch.zeros(30, 50)\n    mask[train[:, 0], train[:, 1]] = 1\n    "
        + "best = (scores - 1e9 * mask).topk(10, dim=1).indices"
        + HITS,
        # Filtered as lists.
        """hits = 0
    for u in range(30):
        order = (model.items.weight @ model.users.weight[u]).argsort(descending=True).tolist()
        best = [i for i in order if i not in seen[u]][:10]
        hits += len(set(best) & held[u])
    print(hits)""",
        """hits = 0
    for u in range(30):
        order = (model.items.weight @ model.users.weight[u]).topk(30).indices.tolist()
        best = []
        for i in order:
            if i in seen[u]:
                continue
            best.append(i)
        hits += len(set(best[:10]) & held[u])
    print(hits)""",
        # One held-out item among others that are drawn.
        """hits = 0
    for u, i in test.tolist():
        others = torch.tensor([i, *[j for j in range(50) if j not in seen[u]][:20]])
        best = model(torch.full_like(others, u), others).topk(5).indices
        hits += int((best == 0).any())
    print(hits)""",
        # How well the training itself is remembered.
        ALL
        + "best = scores.topk(10, dim=1).indices\n    print((best[train[:, 0]] == train[:, 1:]).any(1).float().mean())",
        # Neighbours of an item, and what is only shown.
        "near = (model.items.weight @ model.items.weight.T).topk(4, dim=1)[1]\n    print((near[:, 1:] == 3).sum())",
        ALL + "print(scores.topk(3, dim=1).values)",
    ],
)
def test_rankings_that_are_right(score: str, tmp_path: Path) -> None:
    assert CAUSE not in {finding.cause for finding in alarms(FACTORS.format(score=score), tmp_path)}


@pytest.mark.parametrize(
    "score",
    [
        "best = scores.masked_fill(chosen > 0, float('-inf')).topk(8, dim=1).indices\n    print(asked.gather(1, best))",
        "scores[chosen.bool()] = -1e9\n    best = scores.topk(8, dim=1).indices\n    print(asked.gather(1, best))",
    ],
)
def test_an_autoencoder_with_a_mask(score: str, tmp_path: Path) -> None:
    assert CAUSE not in {finding.cause for finding in alarms(AUTOENCODER.format(score=score), tmp_path)}


def test_the_next_item_and_top_classes(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
lists = torch.randint(1, 40, (60, 7))
items, places = nn.Embedding(40, 8), nn.Embedding(6, 8)
kinds, layer = nn.Embedding(5, 8), nn.Linear(16, 10)
x, k = torch.randn(60, 8), torch.randint(0, 5, (60,))
modules = nn.ModuleList([items, places, kinds, layer])
optimizer = torch.optim.Adam(modules.parameters(), lr=0.01)
def following(rows):
    state = (items(rows) + places(torch.arange(6))).mean(1)
    return state @ items.weight.T
def classes(x, k):
    return layer(torch.cat([x, kinds(k)], 1))
for epoch in range(3):
    loss = F.cross_entropy(following(lists[:50, :6]), lists[:50, 6]) + F.cross_entropy(classes(x, k), k + 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    best = following(lists[50:, :6]).topk(10, dim=1).indices
    print((best == lists[50:, 6:]).any(1).float().mean())
    print((classes(x, k).topk(5, dim=1).indices == k[:, None] + 2).any(1).float().mean())
"""
    )
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}


GRAPH = (
    DATA
    + """
links = torch.zeros(80, 80)
links[train[:, 0], 30 + train[:, 1]] = 1
links = links + links.T
links = links / links.sum(1, keepdim=True).clamp(min=1)
nodes = nn.Embedding(80, 8)
optimizer = torch.optim.Adam(nodes.parameters(), lr=0.02)
def spread():
    layers = [nodes.weight]
    for _ in range(2):
        layers.append(links @ layers[-1])
    x = torch.stack(layers).mean(0)
    return x[:30], x[30:]
for epoch in range(5):
    users, items = spread()
    u, i = train[:, 0], train[:, 1]
    other = torch.randint(50, (len(u),))
    loss = F.softplus((users[u] * (items[other] - items[i])).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    users, items = spread()
    scores = users @ items.T
    {score}
    print((best[test[:, 0]] == test[:, 1:]).any(1).float().mean())
"""
)


def test_a_network_of_a_graph(tmp_path: Path) -> None:
    script = GRAPH.format(score="best = scores.topk(10, dim=1).indices  # HERE")
    assert_first_alarm(script, CAUSE, tmp_path)


def test_a_network_of_a_graph_with_a_mask(tmp_path: Path) -> None:
    score = "scores[train[:, 0], train[:, 1]] = -1e9\n    best = scores.topk(10, dim=1).indices"
    assert CAUSE not in {finding.cause for finding in alarms(GRAPH.format(score=score), tmp_path)}
