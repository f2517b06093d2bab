"""Models and their optimizers in two orders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

MEMBERS = """
models = {{"wide": nn.Linear(4, 8), "deep": nn.Linear(4, 3), "flat": nn.Linear(4, 1)}}
made = {{name: torch.optim.Adam(model.parameters(), lr=0.1) for name, model in models.items()}}
for step in range(4):
    x = torch.randn(8, 4)
    for model, optimizer in {pairs}:
        {clear}
        model(x).square().mean().backward()
        optimizer.step()  # HERE
        {after}
"""
OWN = "optimizer.zero_grad()"
ALL = "[each.zero_grad() for each in made.values()]"
SORTED = "zip([models[name] for name in sorted(models)], made.values())"
TURNED = "zip(reversed(models.values()), list(made.values()))"
TWO = "zip(list(models.values())[:2], list(made.values())[1::-1])"
PAIRED = "zip(models.values(), made.values())"


@pytest.mark.parametrize(("pairs", "clear"), [(SORTED, OWN), (SORTED, ALL), (TURNED, ALL), (TWO, OWN)])
def test_optimizers_of_other_models_are_told_where_they_step(pairs: str, clear: str, tmp_path: Path) -> None:
    script = HEAD + MEMBERS.format(pairs=pairs, clear=clear, after="pass")
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [(each.cause, each.location and each.location.line) for each in alarms(script, tmp_path)]
    assert found == [("wrong_optimizer", here)]


@pytest.mark.parametrize(
    ("pairs", "clear", "after"),
    [
        (PAIRED, OWN, "pass"),
        (PAIRED, "pass", OWN),
        # One round later, each gradient is used after all.
        (TWO, "pass", OWN),
    ],
)
def test_optimizers_that_use_their_gradients_are_right(pairs: str, clear: str, after: str, tmp_path: Path) -> None:
    found = alarms(HEAD + MEMBERS.format(pairs=pairs, clear=clear, after=after), tmp_path)
    assert "wrong_optimizer" not in {each.cause for each in found}


def test_steps_right_after_clearing_belong_to_their_own_backward(tmp_path: Path) -> None:
    script = MEMBERS.format(pairs=PAIRED, clear="pass", after="pass").replace(
        "optimizer.step()", "optimizer.zero_grad(); optimizer.step()"
    )
    assert "wrong_optimizer" not in {each.cause for each in alarms(HEAD + script, tmp_path)}


PLAYERS = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
G, D = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)), nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2))
D.append(nn.Linear(16, 1))
MADE
for_d = torch.optim.Adam(D.parameters(), lr=1e-3)
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(6):
    real, fake = 1 + torch.randn(32, 2), G(torch.randn(32, 4))
    D_LOSS
    for_d.zero_grad()
    d_loss.backward()
    for_d.step()
    fake = G(torch.randn(32, 4))
    G_LOSS
    for_g.zero_grad()
    g_loss.backward()
    for_g.step()
"""
BOTH = "for_g = torch.optim.Adam([*G.parameters(), *D.parameters()], lr=1e-3)"
GROUPS = "for_g = torch.optim.SGD([{'params': G.parameters()}, {'params': D.parameters()}], lr=1e-3)"
ONLY_G = "for_g = torch.optim.Adam(G.parameters(), lr=1e-3)"
D_LOSSES = (
    "entropy = F.binary_cross_entropy_with_logits\n"
    "    d_loss = entropy(D(real), ones) + entropy(D(fake.detach()), zeros)",
    "d_loss = F.relu(1 - D(real)).mean() + F.relu(1 + D(fake.detach())).mean()",
    "d_loss = (D(real) - 1).square().mean() + D(fake.detach()).square().mean()",
)
G_LOSSES = (
    "g_loss = F.binary_cross_entropy_with_logits(D(fake), ones)",
    "g_loss = -D(fake).mean()",
    "g_loss = (D(fake) - 1).square().mean()",
)


LOSSES = list(zip(D_LOSSES, G_LOSSES, strict=True))


@pytest.mark.parametrize("made", [BOTH, GROUPS], ids=["a list", "groups"])
@pytest.mark.parametrize(("d_loss", "g_loss"), LOSSES, ids=["entropy", "hinge", "squares"])
def test_the_discriminator_in_the_optimizer_of_the_generator_is_told(
    made: str, d_loss: str, g_loss: str, tmp_path: Path
) -> None:
    script = PLAYERS.replace("MADE", f"{made}  # HERE").replace("D_LOSS", d_loss).replace("G_LOSS", g_loss)
    assert_first_alarm(script, "two_optimizers", tmp_path)


@pytest.mark.parametrize(("d_loss", "g_loss"), LOSSES, ids=["entropy", "hinge", "squares"])
def test_players_with_their_own_optimizers_are_right(d_loss: str, g_loss: str, tmp_path: Path) -> None:
    script = PLAYERS.replace("MADE", ONLY_G).replace("D_LOSS", d_loss).replace("G_LOSS", g_loss)
    assert not alarms(script, tmp_path)


def test_a_shared_network_that_both_losses_ask_for_the_same_is_left_alone(tmp_path: Path) -> None:
    script = PLAYERS.replace("MADE", BOTH).replace("D_LOSS", "d_loss = (D(real) - 1).square().mean()")
    script = script.replace("G_LOSS", "g_loss = (D(fake) - 1).square().mean()")
    assert "two_optimizers" not in {each.cause for each in alarms(script, tmp_path)}
