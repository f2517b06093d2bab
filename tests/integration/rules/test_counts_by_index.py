"""Neighbours that are counted by writing ones through an index: a position that is named twice still holds a one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

GRAPH = f"""{HEAD}
source, target = torch.randint(0, 30, (2, 90))
layer = nn.Linear(6, 3)
x, labels = torch.randn(30, 6), torch.randint(0, 3, (30,))
optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
for step in range(4):
    total = torch.zeros(30, 3).index_add(0, target, layer(x[source]))
    degree = torch.zeros(30)
    COUNT
    loss = F.cross_entropy(RESULT, labels)
{TRAIN}
"""
MEAN = "total / degree.clamp(min=1).unsqueeze(1)"


@pytest.mark.parametrize(
    ("count", "result"),
    [
        ("degree.scatter_(0, target, torch.ones(90))", MEAN),
        ("degree.scatter_(0, target, 1.0)", MEAN),
        ("degree[target] = 1", MEAN),
        ("degree[target] += 1", MEAN),
        ("degree.index_fill_(0, target, 1)", "total * (degree + 1e-6).pow(-0.5)[:, None]"),
        ("degree.index_put_((target,), torch.ones(90))", "total * degree.clamp(min=1).reciprocal().view(-1, 1)"),
    ],
)
def test_ones_that_overwrite_each_other_count_nothing(count: str, result: str, tmp_path: Path) -> None:
    script = GRAPH.replace("COUNT", f"{count}  # HERE").replace("RESULT", result)
    assert_first_alarm(script, "duplicate_index", tmp_path)


@pytest.mark.parametrize(
    ("count", "result"),
    [
        ("degree.scatter_add_(0, target, torch.ones(90))", MEAN),
        ("degree.index_put_((target,), torch.ones(90), accumulate=True)", MEAN),
        ("degree = torch.bincount(target, minlength=30).float()", MEAN),
        # Which nodes have a neighbour at all: a mask.
        ("degree[target] = 1", "total * degree[:, None]"),
        ("degree.scatter_(0, target, 1.0)", "degree[:, None] * total / 3"),
        ("degree[torch.arange(30)] = 1", MEAN),
    ],
)
def test_counts_and_masks_are_right(count: str, result: str, tmp_path: Path) -> None:
    script = GRAPH.replace("COUNT", count).replace("RESULT", result)
    assert alarms(script, tmp_path) == []
