"""Numbers that are read for a log, before data come in from outside: they are no way from a parameter to the loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

ENERGY = """
import numpy as np
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
data, total = np.random.randn(160, 2), 0.0
for i in range(8):
    x = {batch}.requires_grad_()
    score = torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]
    loss = (score + x.detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
"""
BATCHES = {
    "array": "torch.tensor(data[20 * i : 20 * i + 20], dtype=torch.float32)",
    "lists": "torch.as_tensor(data[20 * i : 20 * i + 20].tolist())",
    "noise": "(torch.from_numpy(data[20 * i : 20 * i + 20]).float() + 0.1 * torch.randn(20, 2))",
}


@pytest.mark.parametrize("name", BATCHES)
def test_the_last_bias_of_an_energy_is_not_cut_off_by_the_number_in_the_log(name: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + ENERGY.format(batch=BATCHES[name]), tmp_path)


LEFT = """
import numpy as np
first, second = nn.Linear(4, 1), nn.Linear(1, 1)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(6, 4)
    values = {values}
    loss = second(torch.tensor(values)[:, None]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
AS_NUMBERS = {
    "one by one": "np.array([2 * first(row).item() for row in x], dtype=np.float32)",
    "as a list": "np.array([2 * v for v in first(x)[:, 0].tolist()], dtype=np.float32)",
}


@pytest.mark.parametrize("name", AS_NUMBERS)
def test_an_array_of_as_many_numbers_as_have_left_is_told(name: str, tmp_path: Path) -> None:
    found = alarms(HEAD + LEFT.format(values=AS_NUMBERS[name]), tmp_path)
    assert [each.cause for each in found] == ["tensor_rewrap"]


WEIGHTED = """
net = nn.Linear(4, 3)
weights = nn.ParameterList(nn.Parameter(torch.zeros(())) for _ in range(3))
optimizer = torch.optim.SGD([*net.parameters(), *weights], lr=0.1)
for step in range(4):
    terms = net(torch.randn(6, 4)).square().mean(0)
    {lines}
    loss = (torch.exp(-s) * terms + s).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_weights_that_are_zero_are_followed_through_the_list_of_numbers(tmp_path: Path) -> None:
    assert_first_alarm(
        HEAD
        + WEIGHTED.format(lines="s = torch.tensor([each.item() for each in weights], dtype=torch.float32)  # HERE"),
        "tensor_rewrap",
        tmp_path,
    )


def test_zeros_that_were_written_are_no_weights(tmp_path: Path) -> None:
    lines = (
        "print([each.item() for each in weights])\n    s = torch.stack(list(weights)) + torch.tensor([0.0, 0.0, 0.0])"
    )
    assert not alarms(HEAD + WEIGHTED.format(lines=lines), tmp_path)
