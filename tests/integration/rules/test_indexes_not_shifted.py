"""Batches of graphs whose edges are joined with and without the numbers of the nodes before them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

GRAPHS = (
    HEAD
    + """
from torch.utils.data import DataLoader
def graph(n):
    ring = torch.arange(n)
    return torch.randn(n, 5), torch.stack([ring, ring.roll(1)]), float(n)
data = [graph(4 + i % 4) for i in range(24)]
{collate}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 8), nn.Linear(8, 1)
    def forward(self, x, edges, owner, count):
        h = self.first(x).relu()
{layer}
        return self.last(torch.zeros(count, 8).index_add(0, owner, h)).squeeze(1)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for x, edges, owner, sizes in DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate):
    loss = F.mse_loss(net(x, edges, owner, len(sizes)), sizes)
"""
    + TRAIN
)
COLLATE = """
def collate(graphs):
    xs, edges, sizes = zip(*graphs)
    counts = torch.tensor([len(x) for x in xs])
    owner = torch.arange(len(xs)).repeat_interleave(counts)
    {edges}
    return torch.cat(xs), joined, owner, torch.tensor(sizes)
"""
ADD = "        h = h + torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])"
AS_THEY_ARE = COLLATE.format(edges="joined = torch.cat(edges, dim=1)  # HERE")
FAULTY = {
    "edges as they are": GRAPHS.format(collate=AS_THEY_ARE, layer=ADD),
    "rows of edges, and scatter": GRAPHS.format(
        collate=COLLATE.format(edges="joined = torch.hstack([each for each in edges]).t().contiguous()  # HERE"),
        layer="        to, which = edges[:, 1:].expand(-1, 8), edges[:, 0]\n"
        "        h = h + torch.zeros_like(h).scatter_add(0, to, h.index_select(0, which))",
    ),
    "one tensor for each end": GRAPHS.format(
        collate=COLLATE.format(
            edges="joined = torch.cat([each[0] for each in edges]), torch.cat([each[1] for each in edges])  # HERE"
        ),
        layer="        source, target = edges\n        h = h + torch.zeros_like(h).index_add(0, target, h[source])",
    ),
}
RANDOM = "ring = torch.arange(n)\n    return torch.randn(n, 5), torch.stack([ring, ring.roll(1)]), float(n)"
FAULTY["edges that leave out some nodes"] = FAULTY["edges as they are"].replace(
    RANDOM, "return torch.randn(n, 5), torch.randint(n - 1, (2, 2 * n)) + 1, float(n)"
)
FAULTY["graphs without edges"] = FAULTY["edges as they are"].replace(
    RANDOM, "return torch.randn(n, 5), torch.randint(n, (2, 2 * n * (n > 4))), float(n)"
)
HEALTHY = {
    "edges with offsets": GRAPHS.format(
        collate=COLLATE.format(
            edges="starts = counts.cumsum(0) - counts\n"
            "    joined = torch.cat([each + start for each, start in zip(edges, starts)], dim=1)"
        ),
        layer=ADD,
    ),
    "offsets added behind": GRAPHS.format(
        collate=COLLATE.format(
            edges="starts = counts.cumsum(0) - counts\n    joined = torch.cat(edges, dim=1)\n"
            "    joined = joined + starts.repeat_interleave(torch.tensor([each.size(1) for each in edges]))"
        ),
        layer=ADD,
    ),
    "edges that leave out some nodes, with offsets": GRAPHS.format(
        collate=COLLATE.format(
            edges="starts = counts.cumsum(0) - counts\n"
            "    joined = torch.cat([each + start for each, start in zip(edges, starts)], dim=1)"
        ),
        layer=ADD,
    ).replace(RANDOM, "return torch.randn(n, 5), torch.randint(n - 1, (2, 2 * n)) + 1, float(n)"),
    "positions of packed sequences": HEAD
    + """
table, tokens, head = nn.Parameter(torch.randn(32, 8)), nn.Embedding(20, 8), nn.Linear(8, 20)
optimizer = torch.optim.Adam([table, *tokens.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    ids = torch.cat([torch.randint(0, 20, (8,)) for part in range(4)])
    places = torch.cat([torch.arange(8) for part in range(4)])
    loss = F.cross_entropy(head(tokens(ids) + table[places]), (ids + places) % 20)
"""
    + TRAIN,
    "classes of all samples in one table": HEAD
    + """
table = nn.Parameter(torch.randn(12, 3))
optimizer = torch.optim.Adam([table], lr=0.01)
for step in range(4):
    rows = torch.cat([table[:4], table[4:8], table[8:]])
    which = torch.cat([torch.randint(0, 12, (5,)) for part in range(3)])
    loss = (rows[which] - 1).square().mean()
"""
    + TRAIN,
}


@pytest.mark.parametrize("name", FAULTY)
def test_the_line_that_joins_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "indexes_not_shifted", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_alike_and_is_right_is_quiet(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
