"""Weights of edges and nodes that are normalized over all groups, and those that are normalized in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

GRAPH = """
layer, score, head = nn.Linear(4, 6), nn.Linear(12, {heads}), nn.Linear(6, 3)
modules = nn.ModuleList([layer, score, head])
optimizer = torch.optim.SGD(modules.parameters(), lr=0.1)
source, node = torch.randint(0, 9, (40,)), torch.arange(40) % 9
x, y = torch.randn(9, 4), torch.randint(0, 3, (9,))
for step in range(3):
    h = layer(x)
    e = F.leaky_relu(score(torch.cat([h[source], h[node]], 1)), 0.2)
    {total}
    loss = F.cross_entropy(head(F.elu(total)), y)"""
FAULTY = (
    "w = torch.softmax(e.squeeze(1), 0)  # HERE\n"
    "    total = torch.zeros(9, 6).index_add(0, node, w[:, None] * h[source])",
    "w = F.dropout(e.softmax(dim=0), 0.1)  # HERE\n"
    "    total = torch.zeros(9, 6).scatter_add_(0, node[:, None].expand(-1, 6), h[source] * w)",
    "w = F.softmax(e, dim=-2)  # HERE\n    total = torch.zeros(9, 6).index_add_(0, node, h[source].mul(w)).relu()",
)
HEALTHY = (
    # Normalized in each group, before or behind the sum.
    "w = torch.exp(e - e.max())\n    w = w / torch.zeros(9, 1).index_add(0, node, w)[node]\n"
    "    total = torch.zeros(9, 6).index_add(0, node, w * h[source])",
    "w = torch.softmax(e, 0)\n    total = torch.zeros(9, 6).index_add(0, node, w * h[source])\n"
    "    total = total / torch.zeros(9, 1).index_add(0, node, w)",
    # One group: the whole graph. Weights without a softmax. A softmax over the features.
    "w = torch.softmax(e, 0)\n    one = torch.zeros(40, dtype=torch.long)\n"
    "    total = torch.zeros(1, 6).index_add(0, one, w * h[source]).expand(9, 6)",
    "total = torch.zeros(9, 6).index_add(0, node, torch.sigmoid(e) * h[source])",
    "total = torch.zeros(9, 6).index_add(0, node, torch.sigmoid(e) * h[source].softmax(1))",
)


@pytest.mark.parametrize("total", FAULTY)
def test_a_softmax_over_all_edges_is_told(total: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + GRAPH.format(total=total, heads=1) + TRAIN, "softmax_over_all_groups", tmp_path)


@pytest.mark.parametrize("total", HEALTHY)
def test_weights_that_are_right_raise_no_alarm(total: str, tmp_path: Path) -> None:
    assert [each.cause for each in alarms(HEAD + GRAPH.format(total=total, heads=1) + TRAIN, tmp_path)] == []


def test_the_small_gradient_that_follows_is_not_told_beside_it(tmp_path: Path) -> None:
    script = """
class Layer(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.lin, self.bias = nn.Linear(n, m, bias=False), nn.Parameter(torch.zeros(m))
        self.a, self.b = nn.Parameter(torch.randn(m) / 4), nn.Parameter(torch.randn(m) / 4)

    def forward(self, x):
        h = self.lin(x)
        w = F.softmax(F.leaky_relu((h * self.a).sum(-1)[source] + (h * self.b).sum(-1)[node], 0.2), dim=0)  # HERE
        return torch.zeros_like(h).index_add_(0, node, w[:, None] * h[source]) + self.bias

source, node = torch.randint(0, 240, (2, 2400))
x, y = torch.randn(240, 8), torch.randint(0, 3, (240,))
one, two = Layer(8, 16), Layer(16, 3)
optimizer = torch.optim.Adam([*one.parameters(), *two.parameters()], lr=0.01)
for step in range(5):
    loss = F.cross_entropy(two(F.elu(one(x))), y)
"""
    found = alarms(HEAD + script + TRAIN, tmp_path)
    assert [each.cause for each in found] == ["softmax_over_all_groups"]
