"""``torch.autograd.grad()`` that finds no path to a tensor that required grad too late, and to one that was cut off or
left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

NETWORK = "net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))\n"
ONE_FUNCTION = """
x = torch.rand(16, 3)
u = net(x)  # HERE
x.requires_grad_(True)
(slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
"""
PAIRS = """
class Batch:
    def __init__(self, pos):
        close = torch.cdist(pos, pos) < 2
        self.pos, self.edges = pos, close.nonzero().t()
        self.vectors = pos[self.edges[1]] - pos[self.edges[0]]  # HERE
def forces(batch):
    batch.pos.requires_grad = True
    energy = net(batch.vectors)
    return -torch.autograd.grad(energy.sum(), batch.pos, create_graph=True)[0]
forces(Batch(torch.rand(5, 3))).square().mean().backward()
"""
INSIDE_OF_A_MODULE = """
class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net
    def forward(self, pos):
        d = pos[:, None] - pos[None]
        return self.net(d).sum()
model = Potential()
def forces(energy, pos):
    pos.requires_grad_()
    return torch.autograd.grad(energy, pos)[0]
pos = torch.rand(5, 3)
energy = model(pos)  # HERE
forces(energy, pos)
"""
JOINED = """
def joined(t, x):
    return torch.cat([t, x], 1)
def residual(t, x):
    z = joined(t, x)  # HERE
    for each in (t, x):
        each.requires_grad_()
    return torch.autograd.grad(net(z).sum(), (t, x))
residual(torch.rand(8, 1), torch.rand(8, 2))
"""
COPIED = """
x = torch.rand(16, 3)
copied = x.clone()  # HERE
u = net(copied)
x.requires_grad_(True)
torch.autograd.grad(u.sum(), x)
"""
SWITCHED_OFF_BETWEEN = """
x = torch.rand(16, 3, requires_grad=True)
torch.autograd.grad(net(x).sum(), x)
x.requires_grad_(False)
u = net(x)  # HERE
x.requires_grad_(True)
torch.autograd.grad(u.sum(), x)
"""
UNFROZEN_TOO_LATE = """
body = nn.Linear(4, 3).requires_grad_(False)
features = body(torch.randn(16, 4)).tanh()  # HERE
body.requires_grad_(True)
torch.autograd.grad(net(features).sum(), [*net.parameters(), *body.parameters()])
"""
DETACHED = """
x = torch.rand(16, 3)
values = x.detach()  # HERE
u = net(values)
x.requires_grad_(True)
torch.autograd.grad(u.sum(), x)
"""
UNDER_NO_GRAD = """
x = torch.rand(16, 3)
with torch.no_grad():  # HERE
    scaled = x * 2
u = net(scaled)
x.requires_grad_(True)
torch.autograd.grad(u.sum(), x)
"""
TOO_LATE = {
    "one function": ONE_FUNCTION, "a batch of pairs": PAIRS, "inside of a module": INSIDE_OF_A_MODULE,
    "joined": JOINED, "copied": COPIED, "switched off between": SWITCHED_OFF_BETWEEN,
    "unfrozen too late": UNFROZEN_TOO_LATE, "detached": DETACHED, "under no_grad": UNDER_NO_GRAD,
}  # fmt: skip


@pytest.mark.parametrize("program", TOO_LATE.values(), ids=TOO_LATE)
def test_the_line_that_computed_too_early_is_told(program: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + NETWORK + program, "read_before_grad", tmp_path)


def test_it_names_what_was_computed_and_the_line_of_requires_grad(tmp_path: Path) -> None:
    script = HEAD + NETWORK + PAIRS
    (found,) = (each for each in alarms(script, tmp_path) if each.cause == "read_before_grad")
    switch = next(number for number, line in enumerate(script.splitlines(), start=1) if "requires_grad = " in line)
    assert found.symptom_location is not None
    assert found.symptom_location.line == switch
    assert found.message.startswith("energy was computed from batch.pos at line ")
    assert found.fix.startswith("call requires_grad_() on it before line ")
    assert f"or compute batch.vectors anew behind line {switch}" in found.fix
    assert found.tensors == ("batch.pos",)


@pytest.mark.parametrize("program", [ONE_FUNCTION, PAIRS, DETACHED])
def test_the_error_is_not_told_again(program: str, tmp_path: Path) -> None:
    assert {each.cause for each in alarms(HEAD + NETWORK + program, tmp_path)} == {"read_before_grad"}


MENDED = {
    "requires grad sooner": ONE_FUNCTION.replace("u = net(x)", "x.requires_grad_()\nu = net(x)"),
    "requires grad in the batch": PAIRS.replace("        close", "        pos.requires_grad_()\n        close"),
    "computed anew": PAIRS.replace("(batch.vectors)", "(batch.pos[batch.edges[1]] - batch.pos[batch.edges[0]])"),
    "also computed early": ONE_FUNCTION.replace("True)\n(", "True)\nu = net(x) / u.detach()\n("),
    "inside of a module": INSIDE_OF_A_MODULE.replace("torch.rand(5, 3)", "torch.rand(5, 3, requires_grad=True)"),
    "not asked for": UNFROZEN_TOO_LATE.replace(", *body.parameters()", ""),
    "allowed": ONE_FUNCTION.replace("create_graph=True", "allow_unused=True"),
}  # fmt: skip


@pytest.mark.parametrize("program", MENDED.values(), ids=MENDED)
def test_a_tensor_that_is_reached_is_no_mistake(program: str, tmp_path: Path) -> None:
    found = [each for each in alarms(HEAD + NETWORK + program, tmp_path) if each.symptom == "raises"]
    assert found == []


CAUGHT = ONE_FUNCTION.replace("(slope,) =", "try:\n    (slope,) =") + "except RuntimeError:\n    slope = None\n"
ENDED_OTHERWISE = CAUGHT + "net(torch.ones(4, 7))\n"


@pytest.mark.parametrize("program", [CAUGHT, ENDED_OTHERWISE], ids=["caught", "caught, and ended by another"])
def test_an_error_that_the_program_catches_is_not_told(program: str, tmp_path: Path) -> None:
    assert alarms(HEAD + NETWORK + program, tmp_path) == []


CUT_OFF = "x = torch.rand(16, 3).requires_grad_()\n{cut}\ntorch.autograd.grad(net(y).sum(), x)\n"


@pytest.mark.parametrize(
    ("cause", "program"),
    [
        ("detached", CUT_OFF.format(cut="y = x.clone().detach()  # HERE")),
        ("detached", CUT_OFF.format(cut="y = x.detach().requires_grad_()  # HERE")),
        ("no_grad_block", CUT_OFF.format(cut="with torch.no_grad():  # HERE\n    y = x * 2")),
        ("detached", f"x = torch.rand(16, 3)\nmean = x.mean()\n{CUT_OFF.format(cut='y = x.detach() - mean  # HERE')}"),
        ("unused_parameter", "y, x = torch.rand(4, 3), torch.rand(4, 3)\nx.requires_grad_()\nu = net(y).sum()\n"
         "torch.autograd.grad(u, x)  # HERE\n"),
    ],
    ids=["copy", "new leaf", "no_grad", "read early, too", "not used"],
)  # fmt: skip
def test_what_is_cut_off_or_left_out_is_told_by_the_rule_that_knows_it(
    cause: str, program: str, tmp_path: Path
) -> None:
    script = HEAD + NETWORK + program
    assert_first_alarm(script, cause, tmp_path)
    assert {each.cause for each in alarms(script, tmp_path)} == {cause}
