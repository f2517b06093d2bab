"""Divergences between two distributions, over the axis of the classes or over another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

TAGGERS = """
student, teacher = nn.Linear(7, 4), nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 4)).eval()
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(4):
    x, tags = torch.randn(8, 6, 7), torch.randint(0, 4, (8, 6))
    s = student(x)
    with torch.no_grad():
        t = teacher(x)
"""

FAULTS = {
    "kl_div beside a cross entropy": """
    log_q = F.log_softmax(s / 2, dim=1)  # HERE
    loss = 4 * F.kl_div(log_q, F.softmax(t / 2, dim=1), reduction="batchmean")
    loss = loss + F.cross_entropy(s.transpose(1, 2), tags)""",
    "by hand, with an accuracy of the teacher": """
    q = torch.softmax(s, 1)  # HERE
    p = t.softmax(1)
    loss = -(torch.log(q + 1e-9) * p).sum() / 48
    print((t.argmax(-1) == tags).float().mean())""",
}

HEALTHY = {
    "over the classes": """
    log_q = F.log_softmax(s / 2, dim=-1)
    loss = 4 * F.kl_div(log_q, F.softmax(t / 2, dim=-1), reduction="batchmean")
    loss = loss + F.cross_entropy(s.transpose(1, 2), tags)""",
    "scores with the classes in front of the times": """
    s, t = student(x).transpose(1, 2), t.transpose(1, 2)
    loss = F.kl_div(s.log_softmax(1), t.softmax(1), reduction="batchmean") + F.cross_entropy(s, tags)""",
    "over the times on purpose, and summed over them": """
    loss = (t.softmax(1) * (t.log_softmax(1) - s.log_softmax(1))).sum(1).mean()
    loss = loss + F.cross_entropy(s.flatten(0, 1), tags.flatten())""",
    "weights of times": """
    weights = s.softmax(1)
    pooled = (weights * t).sum(1)
    loss = (pooled - x[:, 0, :4]).square().mean() + F.cross_entropy(s.flatten(0, 1), tags.flatten())""",
    "nothing tells the axis": """
    loss = F.kl_div(s.log_softmax(1), t.softmax(1), reduction="batchmean")""",
}


@pytest.mark.parametrize("script", FAULTS.values(), ids=FAULTS)
def test_the_softmax_over_another_axis_is_found(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + TAGGERS + script + TRAIN, "wrong_axis", tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_a_softmax_over_the_meant_axis_raises_no_alarm(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + TAGGERS + script + TRAIN, tmp_path) == []


ACTIONS = (
    HEAD
    + """
network = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for step in range(4):
    states, actions, rewards = torch.randn(20, 4), torch.randint(0, 3, (20,)), torch.randn(20)
    q = network(states)
    chosen = q.gather(1, actions.unsqueeze(1)).squeeze(1)
    TOTAL
    loss = F.mse_loss(chosen, rewards) + gap
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "total",
    [
        "gap = torch.logsumexp(q, dim=0).mean() - chosen.mean()  # HERE",
        "gap = q.logsumexp(0).mean() - q.gather(-1, actions[:, None]).mean()  # HERE",
    ],
)
def test_a_total_over_the_samples_beside_chosen_actions_is_told(total: str, tmp_path: Path) -> None:
    assert_first_alarm(ACTIONS.replace("TOTAL", total), "wrong_axis", tmp_path)


@pytest.mark.parametrize(
    "total",
    [
        "gap = (torch.logsumexp(q, dim=1) - chosen).mean()",
        "gap = torch.logsumexp(q, dim=1).mean() - chosen.mean() + 0.01 * torch.logsumexp(q, dim=0).mean()",
        "gap = 0.01 * torch.logsumexp(q.flatten(), dim=0)",
    ],
    ids=["over the actions", "over both", "over all"],
)
def test_totals_over_the_actions_are_right(total: str, tmp_path: Path) -> None:
    assert not alarms(ACTIONS.replace("TOTAL", total), tmp_path)


SCORED = (
    HEAD
    + """
model = nn.Linear(5, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(60, 5)
y = x[:, :3].argmax(1)
for step in range(3):
    loss = F.cross_entropy(model(x[:40]), y[:40])
"""
    + TRAIN
    + """
with torch.no_grad():
    scores = model(x[40:])
    LINE
print(accuracy)
"""
)


def test_a_softmax_over_the_samples_of_an_evaluation_is_told(tmp_path: Path) -> None:
    line = "accuracy = (F.softmax(scores, dim=0).argmax(1) == y[40:]).float().mean()  # HERE"
    assert_first_alarm(SCORED.replace("LINE", line), "wrong_axis", tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "accuracy = (F.softmax(scores, dim=1).argmax(1) == y[40:]).float().mean()",
        "accuracy = (F.softmax(scores, dim=0).argmax(0) == 3).float().mean()",
        "accuracy = F.softmax(scores, dim=0).topk(2, dim=1).values.mean()",
        "accuracy = (F.softmax(scores @ scores.T, dim=0).argmax(1) == torch.arange(20)).float().mean()",
    ],
    ids=["over the classes", "the best sample of each class", "not compared", "pairs of samples"],
)
def test_other_choices_of_an_evaluation_are_left_alone(line: str, tmp_path: Path) -> None:
    assert alarms(SCORED.replace("LINE", line), tmp_path) == []


BAGS = """
import torch
from torch import nn
torch.manual_seed(0)
score, value, out = nn.Linear(6, 1), nn.Linear(6, 5), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*score.parameters(), *value.parameters(), *out.parameters()], lr=0.01)
for step in range(6):
    bags = torch.randn(8, 7, 6)
    y = (bags.amax(1)[:, 0] > 1).float()
    weights = torch.softmax(score(bags).squeeze(2), dim=AXIS)  # HERE
    pooled = POOLED
    loss = nn.functional.binary_cross_entropy_with_logits(out(pooled).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
POOLED = (
    "torch.einsum('np,npd->nd', weights, value(bags))",
    "torch.bmm(weights[:, None], value(bags)).squeeze(1)",
    "(weights.unsqueeze(1) @ value(bags)).squeeze(1)",
)


@pytest.mark.parametrize("pooled", POOLED)
def test_weights_over_the_samples_that_pool_the_parts_of_each_are_told(pooled: str, tmp_path: Path) -> None:
    script = BAGS.replace("POOLED", pooled)
    assert_first_alarm(script.replace("AXIS", "0"), "wrong_axis", tmp_path)
    assert alarms(script.replace("AXIS", "1"), tmp_path) == []


def test_shares_of_clusters_divided_by_their_sums_raise_no_alarm(tmp_path: Path) -> None:
    script = """
import torch
x, centers = torch.randn(32, 3), torch.nn.Parameter(torch.randn(4, 3))
optimizer = torch.optim.Adam([centers], lr=0.01)
for step in range(6):
    difference = x[None] - centers[:, None]
    shares = torch.softmax(-difference.square().sum(-1), dim=0)
    shift = torch.einsum("kn,knd->kd", shares, difference) / shares.sum(1, keepdim=True)
    optimizer.zero_grad()
    shift.square().sum().backward()
    optimizer.step()
"""
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []
