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


ROD = """
import math
class Rod(nn.Module):
    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        self.log_nu, self.log_k = nn.Parameter(torch.tensor({start})), nn.Parameter(torch.tensor({start}))
    @property
    def nu(self):
        return {nu}
    @property
    def k(self):
        return math.exp(2 * self.log_k)
    def forward(self, x):
        return self.field(x)
    def residual(self, x):
        u = self(x)
        return {residual}
model = Rod()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(32, 2)
    loss = (model(x)[:, 0] - x.sum(1)).square().mean() + model.residual(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {log}
"""
READ = "math.exp(self.log_nu.item())  # HERE"
NUMBERS_OF_PARAMETERS = {
    "one that is 1": {"nu": READ, "start": "0.0"},
    "one with many digits": {"nu": READ, "start": "0.3"},
    "by tolist()": {"nu": "1 + self.log_nu.tolist()  # HERE", "start": "0.0"},
    "on its line": {"residual": "1.5 * u - math.exp(self.log_nu.item()) * u.cos()  # HERE", "start": "0.0"},
    "two for one call": {"nu": READ, "residual": "u.clamp(-self.nu, self.nu) - u.cos()", "start": "0.0"},
}
IN_GRAPH = {
    "nu": "self.log_nu.exp()",
    "residual": "self.nu * u - u.cos() + 0.1 * self.log_k",
    "start": "0.0",
    "log": "",
}
AS_NUMBER = {"residual": "self.nu * u - u.cos()", "log": ""}


@pytest.mark.parametrize("name", NUMBERS_OF_PARAMETERS)
def test_a_parameter_that_a_property_reads_as_a_number_is_cut_off_there(name: str, tmp_path: Path) -> None:
    changes = {"nu": "self.log_nu.exp()", **AS_NUMBER, **NUMBERS_OF_PARAMETERS[name]}
    assert_first_alarm(HEAD + ROD.format(**changes), "tensor_rewrap", tmp_path)


def test_who_reads_a_parameter_as_a_number_is_told_to_compute_in_torch(tmp_path: Path) -> None:
    (found,) = [
        each
        for each in alarms(HEAD + ROD.format(nu=READ, start="0.0", **AS_NUMBER), tmp_path)
        if each.cause == "tensor_rewrap"
    ]
    assert "torch.exp(p) for math.exp(p.item())" in found.fix
    assert found.why == "a Python number has no history: for the operation that takes it, it is a constant"


HEALTHY_RODS = {
    "in the graph": {},
    "also printed": {"log": "print(model.nu.item(), math.exp(model.log_nu.item()), 1.0 * x.mean())"},
    "with literals": {"residual": "1.0 * (self.nu * u) - 0.5 * u.cos() + 0.1 * self.log_k"},
    "one that chooses": {"residual": "self.nu * (u if self.log_nu.item() < 9 else 0.5 * u) + 0.1 * self.log_k"},
}


@pytest.mark.parametrize("name", HEALTHY_RODS)
def test_a_number_that_is_read_beside_the_graph_cuts_nothing_off(name: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + ROD.format(**{**IN_GRAPH, **HEALTHY_RODS[name]}), tmp_path)


def test_the_temperature_of_an_actor_may_be_a_number_where_its_own_loss_trains_it(tmp_path: Path) -> None:
    residual = "self.nu * u - u.cos()"
    log = (
        "own = (model.log_nu.exp() * (loss.detach() - 1) + 0.1 * model.log_k).sum()\n    "
        "model.zero_grad()\n    own.backward()\n    optimizer.step()"
    )
    script = HEAD + ROD.format(nu="math.exp(self.log_nu.item())", residual=residual, start="0.0", log=log)
    assert not [each for each in alarms(script, tmp_path) if each.cause == "tensor_rewrap"]


UNKNOWN_FUNCTION = "math.erf(self.log_nu.item()) + 3.7  # HERE"


def test_a_parameter_that_is_only_read_as_a_number_is_told_at_that_line(tmp_path: Path) -> None:
    script = HEAD + ROD.format(nu=UNKNOWN_FUNCTION, start="0.0", **AS_NUMBER)
    assert_first_alarm(script, "unused_parameter", tmp_path)
    assert [(each.tensors, "only its number is read" in each.message) for each in alarms(script, tmp_path)] == [
        (("model.log_nu",), True), (("model.log_k",), False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("notes", "log"),
    [
        ("pass", "print(model.log_nu.item())"),
        ("self.notes = {'nu': self.log_nu.item()}", ""),
        ("print(self.log_nu.item())", ""),
        ("self.notes = self.log_nu.item()", ""),
    ],
)
def test_a_parameter_whose_number_is_only_logged_is_told_where_it_is_made(notes: str, log: str, tmp_path: Path) -> None:
    noted = f"0\n    def noted(self, u):\n        {notes}\n        return u.square()"
    script = HEAD + ROD.format(nu=noted, start="0.0", residual="self.noted(u) - u.cos()", log=log)
    (found,) = alarms(script, tmp_path)
    assert (found.cause, found.location and found.location.line) == ("unused_parameter", 13)
    assert "nothing is ever computed from them" in found.message


METER = """
class Meter:
    def __init__(self):
        self.last, self.total, self.values = 0.0, 0.0, []
    def update(self, value):
        BODY
class Logger:
    def __init__(self):
        self.meters = {}
    def track(self, name, value, on_epoch=False):
        if on_epoch:
            value = self.meters.setdefault(name, Meter()).update(value)
        return value

net, head = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
log, meter = Logger(), Meter()
for step in range(4):
    x = torch.randn(6, 4)
    fit = log.track("fit", F.mse_loss(net(x), x[:, :3]))
    second = F.mse_loss(head(x), x[:, 3:].square())
    USE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TRACKED = 'loss = fit + 0.4 * log.track("second", second, on_epoch=True)'
KEPT = "\n        ".join(("self.last = value.item()", "self.total += self.last", "return self.last"))
LISTED = "\n        ".join(("number = float(value.detach())", "self.values.append(number)", "return number"))


@pytest.mark.parametrize(
    ("body", "use"),
    [
        (KEPT + "  # HERE", TRACKED),
        (LISTED + "  # HERE", "loss = fit + meter.update(second)"),
        (KEPT.replace("item()", "item()  # HERE"), "meter.update(second); loss = fit + meter.last"),
        ("value = value.item()  # HERE\n        self.values.append(value)\n        return value", TRACKED),
        ("self.total += value.item()\n        return value.item()  # HERE", TRACKED),
    ],
    ids=["kept in an attribute", "added to a list", "read from the attribute", "the argument itself", "read again"],
)
def test_a_meter_that_returns_the_number_it_keeps_is_told_at_its_return(body: str, use: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + METER.replace("BODY", body).replace("USE", use), "tensor_rewrap", tmp_path)


def test_a_meter_beside_the_loss_is_right(tmp_path: Path) -> None:
    for body, use in (
        (KEPT, "loss = fit + second; meter.update(loss)"),
        (KEPT.replace("return self.last", "return value"), TRACKED),
    ):
        assert not alarms(HEAD + METER.replace("BODY", body).replace("USE", use), tmp_path)
