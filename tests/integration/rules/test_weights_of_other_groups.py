"""Weights of the edges of a graph: by which end they are normalized, and by which end they are added up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
def softmax_by(scores, index, n):
    e = (scores - scores.max()).exp()
    return e / (torch.zeros(n, *scores.shape[1:]).index_add(0, index, e)[index] + 1e-16)

lin, score, head = nn.Linear(4, 8, bias=False), nn.Linear(16, 1), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*lin.parameters(), *score.parameters(), *head.parameters()], lr=0.01)
x, y = torch.randn(20, 4), torch.randint(0, 3, (20,))
edge_index = torch.cat([torch.randint(0, 20, (2, 90)), torch.arange(20).repeat(2, 1)], dim=1)
for step in range(5):
    h = lin(x)
    ENDS
    logits = F.leaky_relu(score(torch.cat([h[src], h[dst]], dim=1)), 0.2)
    WEIGHTS
    loss = F.cross_entropy(head(out), y)
"""
    + TRAIN
)
ENDS = {"unpacked": "src, dst = edge_index", "rows": "src, dst = edge_index[0], edge_index[1]"}
FAULTY = {
    "a function": "alpha = softmax_by(logits, src, 20)  # HERE\n"
    "    out = torch.zeros_like(h).index_add_(0, dst, alpha * h[src])",
    "scattered": "e = logits.squeeze(1).exp()\n    total = torch.zeros(20).scatter_add(0, src, e)  # HERE\n"
    "    message = h[src] * (e / total[src])[:, None]\n"
    "    out = torch.zeros(20, 8).scatter_add(0, dst[:, None].expand(-1, 8), message)",
    "with dropout": "alpha = F.dropout(softmax_by(logits, src, 20), 0.1)  # HERE\n"
    "    out = torch.zeros(20, 8).index_add(0, dst, h[src] * alpha)",
}
HEALTHY = {
    "the same end": "alpha = softmax_by(logits, dst, 20)\n"
    "    out = torch.zeros_like(h).index_add_(0, dst, alpha * h[src])",
    "divided at the end": "e = logits.exp()\n    out = torch.zeros(20, 8).index_add(0, dst, e * h[src])\n"
    "    out = out / torch.zeros(20, 1).index_add(0, dst, e)",
    "the other direction": "alpha = softmax_by(logits, src, 20)\n"
    "    out = torch.zeros_like(h).index_add_(0, src, alpha * h[dst])",
    "a walk that leaves each node": "ones = torch.ones(len(src), 1)\n"
    "    p = ones / torch.zeros(20, 1).index_add(0, src, ones)[src]\n"
    "    out = torch.zeros(20, 8).index_add(0, dst, p * h[src] * logits.sigmoid())",
}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", FAULTY)
def test_weights_normalized_by_the_other_end_of_the_edges_are_told(name: str, ends: str, tmp_path: Path) -> None:
    script = SCRIPT.replace("ENDS", ENDS[ends]).replace("WEIGHTS", FAULTY[name])
    assert_first_alarm(script, "weights_of_other_groups", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_weights_of_edges_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(SCRIPT.replace("ENDS", ENDS["unpacked"]).replace("WEIGHTS", HEALTHY[name]), tmp_path)
