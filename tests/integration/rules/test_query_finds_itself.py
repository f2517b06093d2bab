"""Samples that are among their own nearest neighbours where the labels of these are scored, and such that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CAUSE = "query_finds_itself"
PROGRAM = (
    """
model = nn.Linear(8, 5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
y, centers = torch.arange(4).repeat(10), 2 * torch.randn(4, 8)
x = centers[y] + torch.randn(40, 8)
diagonal = torch.eye(40, dtype=torch.bool)
for step in range(6):
    z = F.normalize(model(x), dim=1)
    distances = torch.cdist(z, z)
    same = y[:, None] == y
    near, far = distances.masked_fill(~same, 0.0).amax(1), distances.masked_fill(same, float("inf")).amin(1)
    loss = F.relu(near - far + 0.5).mean()
"""
    + TRAIN
    + """
with torch.no_grad():
    z, g = F.normalize(model(x), dim=1), F.normalize(model(x + 0.1 * torch.randn(40, 8)), dim=1)
"""
)
FAULTS = {
    "the most similar ones": """
    sim = z @ z.T
    nearest = sim.topk(5, dim=1).indices  # HERE
    print((y[nearest] == y.unsqueeze(1)).float().mean().item())
""",
    "the least distance": """
    place = torch.cdist(z, z).argmin(dim=1)  # HERE
    print((y[place] == y).float().mean())
""",
    "a vote of the nearest ones, by a sort": """
    order = torch.cdist(z, z).argsort(dim=1)[:, :5]  # HERE
    print((y[order].mode(dim=1).values == y).float().mean())
""",
    "a part of the queries at a time": """
    hits = []
    for rows in torch.arange(40).split(8):
        sim = z[rows] @ z.t() / 0.1
        found = sim.topk(3).indices  # HERE
        hits.append((y[found] == y[rows, None]).any(1))
    print(torch.cat(hits).float().mean())
""",
    "one query at a time, with negated distances": """
    hits = 0.0
    for i in range(20):
        distance = (z - z[i]).pow(2).sum(dim=1)
        found = (-distance).topk(3).indices  # HERE
        hits += (y[found] == y[i]).float().mean().item()
    print(hits / 20)
""",
    "vectors that are computed twice, as queries and as a gallery": """
    def recall(queries, labels, gallery, known):
        q, g = F.normalize(model(queries), dim=1), F.normalize(model(gallery), dim=1)
        found = (q @ g.T).topk(3, dim=1).indices  # HERE
        return (known[found] == labels[:, None]).any(1).float().mean()
    print(recall(x, y, x, y))
""",
    "cosines of all pairs": """
    sim = F.cosine_similarity(z[:, None], z[None], dim=-1)
    _, found = sim.sort(dim=1, descending=True)  # HERE
    print((y[found[:, :4]] == y[:, None]).float().sum(1).div(4).mean())
""",
}
HEALTHY = {
    "one more, without the first": """
    found = (z @ z.T).topk(6, dim=1).indices[:, 1:]
    print((y[found] == y[:, None]).float().mean())
""",
    "the second of a sort": """
    found = torch.cdist(z, z).argsort(dim=1)[:, 1]
    print((y[found] == y).float().mean())
""",
    "the first hit left out": """
    hits = y[torch.cdist(z, z).argsort(dim=1)] == y[:, None]
    print(hits[:, 1:6].float().mean())
""",
    "the hit subtracted": """
    hits = (y[(z @ z.T).topk(6).indices] == y[:, None]).sum(1) - 1
    print((hits / 5).mean())
""",
    "the diagonal overwritten": """
    sim = z @ z.T
    sim.fill_diagonal_(-1)
    print((y[sim.topk(5).indices] == y[:, None]).float().mean())
""",
    "the diagonal overwritten through a view": """
    sim = z @ z.T
    sim.diagonal().fill_(-1)
    print((y[sim.topk(5).indices] == y[:, None]).float().mean())
""",
    "the diagonal masked": """
    sim = (z @ z.T).masked_fill(diagonal, float("-inf"))
    print((y[sim.argmax(1)] == y).float().mean())
""",
    "a large distance added": """
    far = torch.cdist(z, z) + 1e6 * diagonal
    print((y[far.topk(5, largest=False).indices] == y[:, None]).float().mean())
""",
    "the place of the query overwritten": """
    for i in range(20):
        sim = z @ z[i]
        sim[i] = -2
        print((y[sim.topk(3).indices] == y[i]).float().mean())
""",
    "queries and a gallery of other samples": """
    found = (z[:10] @ z[10:].T).topk(5).indices
    print((y[10:][found] == y[:10, None]).float().mean())
""",
    "two views": """
    found = (z @ g.T).topk(5).indices
    print((y[found] == y[:, None]).float().mean())
""",
    "one of two results changed through a view": """
    q, g = model(x), model(x)
    g[:, :2].zero_()
    print((y[(q @ g.T).topk(5).indices] == y[:, None]).float().mean())
""",
    "two lists of rows": """
    q, g = z[list(range(20))], z[list(range(20, 40))]
    own = y[:20]
    print((own[(q @ g.T).topk(5).indices] == own[:, None]).float().mean())
""",
    "two arrays of rows": """
    import numpy as np
    order = np.random.permutation(40)
    q, g = z[order[:20]], z[order[20:]]
    own = y[:20]
    print((own[(q @ g.T).topk(5).indices] == own[:, None]).float().mean())
""",
    "two halves of one split": """
    q, g = F.normalize(model(x), dim=1).split(20)
    own = y[:20]
    print((own[(q @ g.T).topk(5).indices] == own[:, None]).float().mean())
""",
    "two draws of dropout": """
    q, g = F.dropout(model(x)), F.dropout(model(x))
    print((y[(q @ g.T).topk(5).indices] == y[:, None]).float().mean())
""",
    "the nearest of a few prototypes": """
    chosen = torch.randperm(40)[:4]
    place = torch.cdist(z, z[chosen]).argmin(1)
    print((y[chosen][place] == y).float().mean())
""",
    "the farthest of the same set": """
    place = (z @ z.T).argmin(1)
    print((y[place] == y).float().mean())
""",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_sample_among_its_own_neighbours_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PROGRAM + FAULTS[name], CAUSE, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_neighbours_among_others_raise_no_alarm(name: str, tmp_path: Path) -> None:
    assert CAUSE not in {finding.cause for finding in alarms(HEAD + PROGRAM + HEALTHY[name], tmp_path)}
