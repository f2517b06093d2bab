"""Links that a graph network should predict, and over which it passes messages, or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CAUSE = "scored_links_passed"
LINKS = """
n = 40
x = torch.randn(n, 6)
near = torch.triu(torch.rand(n, n) < 0.3, diagonal=1)
links = near.nonzero()
links = links[torch.randperm(len(links))]
count = len(links) // 4
test, train = links[:count], links[count:]
def adjacency(pairs):
    a = torch.eye(n)
    a[pairs[:, 0], pairs[:, 1]] = 1.0
    a[pairs[:, 1], pairs[:, 0]] = 1.0
    return a / a.sum(1, keepdim=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)
    def forward(self, x, a):
        return a @ self.last(torch.relu(a @ self.first(x)))
def score(z, pairs):
    return (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1)
def main():
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    MADE
    for step in range(5):
        z = net(x, a)
        others = torch.randint(n, (len(train), 2))
        loss = F.softplus(-score(z, train)).mean() + F.softplus(score(z, others)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        z = net(x, a)
        good, bad = score(z, SCORED), score(z, torch.randint(n, (30, 2)))
        print((good[:, None] > bad).float().mean())
main()
"""
INDEX = """
n = 40
x = torch.randn(n, 6)
edge_index = torch.randint(n, (2, 300))
order = torch.randperm(300)
train, test = edge_index[:, order[60:]], edge_index[:, order[:60]]
class Conv(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.own, self.other = nn.Linear(size, out), nn.Linear(size, out)
    def forward(self, x, edge_index):
        source, target = edge_index
        got = torch.zeros_like(x).index_add_(0, target, x[source])
        return self.own(x) + self.other(got)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = Conv(6, 6), Conv(6, 4)
    def encode(self, x, edge_index):
        return self.last(self.first(x, edge_index).relu(), edge_index)
    def decode(self, z, pairs):
        return (z[pairs[0]] * z[pairs[1]]).sum(-1)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
labels = torch.cat([torch.ones(60), torch.zeros(60)])
def others(number):
    return torch.randint(n, (2, number))
@torch.no_grad()
def evaluate(edges):
    z = net.encode(x, EDGES
    scores = net.decode(z, torch.cat([edges, others(60)], dim=1))
    return ((scores > 0) == labels).float().mean()
for step in range(5):
    z = net.encode(x, TRAINED)
    chosen = train[:, torch.randperm(240)[:60]]
    pairs = torch.cat([chosen, others(60)], dim=1)
    loss = F.binary_cross_entropy_with_logits(net.decode(z, pairs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(evaluate(test))
"""
# Users and items, with three losses of pairs.
RATED = """
users, items = 20, 30
rated = (torch.rand(users, items) < 0.3)
pairs = rated.nonzero()[torch.randperm(int(rated.sum()))]
test, train = pairs.split([40, len(pairs) - 40])
class Light(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(users, 8), nn.Embedding(items, 8)
    def forward(self, matrix):
        u, i = self.user.weight, self.item.weight
        return u + matrix @ i, i + matrix.T @ u
model = Light()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
MADE
for step in range(5):
    u, i = model(matrix)
    drawn = torch.randint(items, (len(train),))
    margin = (u[train[:, 0]] * (i[train[:, 1]] - i[drawn])).sum(1)
    loss = F.softplus(-margin).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    u, i = model(matrix)
    good = (u[test[:, 0]] * i[test[:, 1]]).sum(1)
    bad = (u[test[:, 0]] * i[torch.randint(items, (40,))]).sum(1)
    print((good > bad).float().mean())
"""
OF_TRAIN = """matrix = torch.zeros(users, items)
matrix[train[:, 0], train[:, 1]] = 1.0"""
FAULTS = {
    "an adjacency of all links": LINKS.replace("MADE", "a = adjacency(links)  # HERE").replace("SCORED", "test"),
    "the matrix from which the links were listed": LINKS.replace(
        "MADE", "a = (near | near.T).float() / 9  # HERE"
    ).replace("SCORED", "test"),
    "an index of all links": INDEX.replace("TRAINED", "edge_index").replace("EDGES", "edge_index)  # HERE"),
    "an index of all links where it is scored": INDEX.replace("TRAINED", "train").replace(
        "EDGES", "edge_index)  # HERE"
    ),
    "all ratings of users": RATED.replace("MADE", "matrix = rated.float() / 9  # HERE"),
}
HEALTHY = {
    "an adjacency of the links for training": LINKS.replace("MADE", "a = adjacency(train)").replace("SCORED", "test"),
    "the matrix without the links that are scored": LINKS.replace(
        "MADE", "a = near.float()\n    a[test[:, 0], test[:, 1]] = 0\n    a = (a + a.T) / 9"
    ).replace("SCORED", "test"),
    "the score of the links for training": LINKS.replace("MADE", "a = adjacency(links)").replace("SCORED", "train"),
    "some of the links for training, of which each step takes others": INDEX.replace("TRAINED", "train")
    .replace("EDGES", "train)")
    .replace("evaluate(test)", "evaluate(train[:, :60])"),
    "an index of the links for training": INDEX.replace("TRAINED", "train").replace("EDGES", "train)"),
    "ratings for training": RATED.replace("MADE", OF_TRAIN),
    # What is told of a link is its kind: that it exists is known.
    "classes of links": """
n, x = 40, torch.randn(40, 6)
links = torch.randint(n, (200, 2))
kinds = (x[links[:, 0], 0] > x[links[:, 1], 0]).long()
train, test = slice(0, 150), slice(150, 200)
a = torch.eye(n)
a[links[:, 0], links[:, 1]] = 1.0
layer, head = nn.Linear(6, 8), nn.Linear(16, 2)
optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.01)
def logits(pairs):
    z = torch.tanh(a @ layer(x))
    return head(torch.cat([z[pairs[:, 0]], z[pairs[:, 1]]], 1))
for step in range(5):
    loss = F.cross_entropy(logits(links[train]), kinds[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print((logits(links[test]).argmax(1) == kinds[test]).float().mean())
""",
    "classes of nodes, of which some are held out": """
n, x, y = 40, torch.randn(40, 6), torch.randint(3, (40,))
links = torch.randint(n, (200, 2))
order = torch.randperm(n)
train, test = order[:30], order[30:]
a = torch.eye(n)
a[links[:, 0], links[:, 1]] = 1.0
layer = nn.Linear(6, 3)
optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
for step in range(5):
    loss = F.cross_entropy((a @ layer(x))[train], y[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(((a @ layer(x))[test].argmax(1) == y[test]).float().mean())
""",
    # The whole list that is computed with is that of all pairs, of which some are links.
    "links drawn among all pairs": """
n = 30
group, pairs = torch.arange(n) % 3, torch.triu_indices(n, n, 1)
links = pairs[:, torch.rand(pairs.shape[1]) < torch.where(group[pairs[0]] == group[pairs[1]], 0.5, 0.1)]
links = links[:, torch.randperm(links.shape[1])]
test, train = links[:, :20], links[:, 20:]
free = torch.ones(n, n, dtype=torch.bool).triu(1)
free[links[0], links[1]] = False
free = free.nonzero().T
a = torch.eye(n)
a[train[0], train[1]] = 1.0
nodes, layer = nn.Parameter(torch.randn(n, 8)), nn.Linear(8, 8)
optimizer = torch.optim.Adam([nodes, *layer.parameters()], lr=0.01)
def scores(z, which):
    return (z[which[0]] * z[which[1]]).sum(1)
for step in range(5):
    z = layer(a @ nodes)
    wrong = free[:, torch.randint(free.shape[1], (40,))]
    loss = F.softplus(-scores(z, train)).mean() + F.softplus(scores(z, wrong)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    z = layer(a @ nodes)
    print((scores(z, test) > scores(z, free[:, :20])).float().mean())
""",
}


@pytest.mark.parametrize("name", FAULTS)
def test_links_that_are_scored_and_pass_messages_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + FAULTS[name], CAUSE, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_links_that_are_held_out_raise_no_alarm(name: str, tmp_path: Path) -> None:
    assert CAUSE not in {finding.cause for finding in alarms(HEAD + HEALTHY[name], tmp_path)}
