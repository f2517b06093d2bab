"""Averages of states that share the memory of one model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CLIENTS = (
    HEAD
    + """
from collections import OrderedDict
server = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
parts = [(torch.randn(30, 4) + k, torch.randint(0, 3, (30,))) for k in range(3)]
def train(net, x, y):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(3):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.state_dict()  # HERE
"""
)
DICTS = """
def average(states):
    return {key: sum(state[key] for state in states) / len(states) for key in states[0]}
"""
IN_PLACE = """
def average(states):
    mean = copy.deepcopy(states[0])
    for key in mean:
        for state in states[1:]:
            mean[key] += state[key]
        mean[key] = torch.div(mean[key], len(states))
    return mean
"""
STACKED = """
def average(states):
    return OrderedDict((key, torch.stack([each[key].float() for each in states]).mean(0)) for key in states[0])
"""
FROM_ZERO = """
def average(states):
    mean = {key: torch.zeros_like(value) for key, value in states[0].items()}
    for state in states:
        for key in mean:
            mean[key] += state[key] * (1 / len(states))
    return mean
"""
WEIGHTED = """
def average(states):
    shares = torch.tensor([0.2, 0.3, 0.5])
    return {key: sum(share * state[key] for share, state in zip(shares, states)) for key in states[0]}
"""
ROUNDS = """
for r in range(3):
    states = [train({net}, x, y) for x, y in parts]
    server.load_state_dict(average(states))
"""
KEPT = (
    HEAD
    + """
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(60, 4), torch.randint(0, 3, (60,))
states = []
for epoch in range(6):
    for i in torch.arange(60).split(20):
        loss = F.cross_entropy(net(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch >= 3:
        {keep}
final = nn.Linear(4, 3)
final.load_state_dict({{key: torch.stack([each[key] for each in states]).mean(0) for key in states[0]}})
print(F.cross_entropy(final(x), y))
"""
)
MOVING = (
    HEAD
    + """
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(60, 4), torch.randint(0, 3, (60,))
mean, count = {begin}, 1
for i in range(8):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean, count = {{key: {update} for key, value in net.state_dict().items()}}, count + 1
final = nn.Linear(4, 3)
final.load_state_dict(mean)
print(F.cross_entropy(final(x), y))
"""
)


@pytest.mark.parametrize("average", [DICTS, IN_PLACE, STACKED, FROM_ZERO, WEIGHTED])
def test_clients_that_train_one_model_are_told(average: str, tmp_path: Path) -> None:
    script = CLIENTS + average + ROUNDS.format(net="server")
    assert_first_alarm(script, "average_of_one_state", tmp_path)


@pytest.mark.parametrize("average", [DICTS, IN_PLACE, STACKED, FROM_ZERO, WEIGHTED])
def test_clients_with_copies_are_right(average: str, tmp_path: Path) -> None:
    assert not alarms(CLIENTS + average + ROUNDS.format(net="copy.deepcopy(server)"), tmp_path)


OF_PARAMETERS = (
    HEAD
    + """
server = nn.Linear(4, 3)
clients = {clients}
for r in range(3):
    for net in clients:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for i in range(2):
            loss = F.cross_entropy(net(torch.randn(20, 4)), torch.randint(0, 3, (20,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        for own, *others in zip(server.parameters(), *(net.parameters() for net in clients)):
            own.copy_(torch.stack(others).mean(0))  # HERE
"""
)


def test_one_model_in_a_list_of_clients_is_told(tmp_path: Path) -> None:
    assert_first_alarm(OF_PARAMETERS.format(clients="[server] * 3"), "average_of_one_state", tmp_path)
    right = "[nn.Linear(4, 3) for k in range(3)]"
    assert "average_of_one_state" not in {each.cause for each in alarms(OF_PARAMETERS.format(clients=right), tmp_path)}


def test_kept_states_without_a_copy_are_told(tmp_path: Path) -> None:
    script = KEPT.format(keep="states.append(net.state_dict())  # HERE")
    assert_first_alarm(script, "average_of_one_state", tmp_path)


@pytest.mark.parametrize(
    "keep",
    [
        "states.append(copy.deepcopy(net.state_dict()))",
        "states.append({key: value.clone() for key, value in net.state_dict().items()})",
    ],
)
def test_kept_copies_are_right(keep: str, tmp_path: Path) -> None:
    assert not alarms(KEPT.format(keep=keep), tmp_path)


@pytest.mark.parametrize(
    ("begin", "update"),
    [
        ("net.state_dict()", "0.9 * mean[key] + 0.1 * value"),
        ("copy.deepcopy(net.state_dict())", "(mean[key] * count + value) / (count + 1)"),
    ],
)
def test_moving_averages_are_right(begin: str, update: str, tmp_path: Path) -> None:
    assert not alarms(MOVING.format(begin=begin, update=update), tmp_path)


MADE_OF_ITSELF = (
    HEAD
    + """
x = torch.randn(40, 6)
small, head = {small}, nn.Linear(6, 3)
def train(net, given):
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
    for step in range(4):
        loss = F.cross_entropy(head({hidden}), torch.randint(0, 3, (40,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            {after}
train(small, {given})
{larger}
"""
)
KERNELS = """
large = nn.Conv3d(1, 6, 3, padding=1)
with torch.no_grad():
    large.weight.copy_(torch.stack([small.weight] * 3, dim=2) / 3)
train(large, torch.randn(40, 1, 3, 5, 5))
"""
WORDS = """
large = nn.Embedding(9, 6)
with torch.no_grad():
    large.weight.copy_(torch.cat([small.weight, small.weight.mean(0, keepdim=True)]))
train(large, torch.randint(0, 9, (40,)))
"""
DECAY = "[p.copy_(p.add(p.grad + 0.001 * p, alpha=-0.01)) for p in net.parameters()]"
MATRIX = {"small": "nn.Linear(6, 6, bias=False)", "hidden": "net(given)", "given": "x", "larger": ""}


@pytest.mark.parametrize(
    "parts",
    [
        {"after": "net.weight.copy_((net.weight + net.weight.T) / 2)", **MATRIX},
        {"after": "net.weight.data = 0.5 * (net.weight + net.weight.transpose(0, 1))", **MATRIX},
        {"after": DECAY, **MATRIX},
        {
            "small": "nn.Conv2d(1, 6, 3, padding=1)", "hidden": "net(given).relu().flatten(2).mean(2)", "after": "pass",
            "given": "torch.randn(40, 1, 5, 5)", "larger": KERNELS,
        },
        {
            "small": "nn.Embedding(8, 6)", "hidden": "net(given)", "after": "pass",
            "given": "torch.randint(0, 8, (40,))", "larger": WORDS,
        },
    ],
    ids=["symmetric", "symmetric data", "decay", "kernels of clips", "a row for new words"],
)  # fmt: skip
def test_a_parameter_that_is_made_of_itself_is_right(parts: dict[str, str], tmp_path: Path) -> None:
    found = {each.cause for each in alarms(MADE_OF_ITSELF.format(**parts), tmp_path)}
    assert "average_of_one_state" not in found
