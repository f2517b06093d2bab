"""Queries with several passages each: which column of the scores is the positive of a query."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.GELU(), nn.Linear(16, 8))
    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)
query, passage = Tower(), Tower()
optimizer = torch.optim.Adam([*query.parameters(), *passage.parameters()], lr=0.003)
n, k = 12, 3
for step in range(4):
    x = torch.randn(n, 10)
    near, far = x + 0.1 * torch.randn(n, 10), torch.randn(n, k, 10)
    q = query(x)
"""
)
FAULTY = {
    "a flattened batch of positives and negatives": """
    p = passage(torch.cat([near[:, None], far], dim=1).flatten(0, 1))
    labels = torch.arange(n)  # HERE
    loss = F.cross_entropy(q @ p.T / 0.1, labels)
""",
    "passages encoded before they are flattened": """
    p = passage(torch.stack([near, *far.unbind(1)], dim=1)).view(-1, 8)
    scores = torch.einsum("nd,md->nm", q, p) * 10
    loss = F.cross_entropy(scores, torch.arange(len(scores)))  # HERE
""",
    "the passages of each query, put together": """
    several = [torch.stack([one, *others]) for one, others in zip(near, far, strict=True)]
    labels = torch.arange(n)  # HERE
    loss = F.cross_entropy(q @ passage(torch.cat(several)).t() / 0.1, labels)
""",
    "a batch of query by query": """
    both = torch.cat([near.unsqueeze(1), far], dim=1)
    keys = passage(both.reshape(-1, both.shape[-1]))
    target = torch.arange(q.size(0), dtype=torch.long)  # HERE
    loss = nn.CrossEntropyLoss()(torch.matmul(q, keys.transpose(0, 1)) / 0.2, target)
""",
}
HEALTHY = {
    "labels that count the columns of each query": """
    p = passage(torch.cat([near[:, None], far], dim=1).flatten(0, 1))
    labels = torch.arange(n) * (p.size(0) // q.size(0))
    loss = F.cross_entropy(q @ p.T / 0.1, labels)
""",
    "labels with a step": """
    p = passage(torch.cat([near[:, None], far], dim=1).flatten(0, 1))
    loss = F.cross_entropy(q @ p.T / 0.1, torch.arange(0, n * (k + 1), k + 1))
""",
    "all positives and then all negatives": """
    p = torch.cat([passage(near), passage(far.flatten(0, 1))])
    loss = F.cross_entropy(q @ p.T / 0.1, torch.arange(n))
""",
    "several batches, put together": """
    p = torch.cat([passage(near), *(passage(far[:, i]) for i in range(k))])
    loss = F.cross_entropy(q @ p.T / 0.1, torch.arange(n))
""",
    "the best of several vectors of each document": """
    several = passage(torch.cat([near[:, None], far], dim=1).flatten(0, 1))
    scores = (q @ several.T).view(n, n, k + 1).amax(-1)
    loss = F.cross_entropy(scores / 0.1, torch.arange(n))
""",
    "columns in the order of positives first": """
    p = passage(torch.cat([near[:, None], far], dim=1).flatten(0, 1))
    p = p[torch.arange(n * (k + 1)).view(n, k + 1).T.flatten()]
    loss = F.cross_entropy(q @ p.T / 0.1, torch.arange(n))
""",
    "one document for each query": """
    loss = F.cross_entropy(q @ passage(near).T / 0.1, torch.arange(n))
""",
    "negatives laid out one copy of all after the other": """
    p = passage(torch.cat([near[None], far.transpose(0, 1)]).flatten(0, 1))
    loss = F.cross_entropy(q @ p.T / 0.1, torch.arange(n))
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_labels_that_count_queries_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + TRAIN, "positive_every_few", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_labels_of_the_right_columns_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + TRAIN, tmp_path)
