"""Two players that step after the losses of both: a critic and its actor, a discriminator and its generator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

PLAYERS = """
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2), nn.Tanh())
critic = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
level = torch.zeros(1, requires_grad=True)
of_actor = torch.optim.Adam(actor.parameters(), 1e-3)
of_critic = torch.optim.Adam(critic.parameters(), 1e-3)
of_level = torch.optim.Adam([level], 1e-3)
def value(state, action):
    return critic(torch.cat([state, action], 1))
def clear():
    of_actor.zero_grad()
    of_critic.zero_grad()
    of_level.zero_grad()
def step():
    of_critic.step()
    of_actor.step()
one, none = torch.ones(32, 1), torch.zeros(32, 1)
for _ in range(5):
    state, action, returned = torch.randn(32, 4), torch.rand(32, 2) * 2 - 1, torch.randn(32, 1)
"""
APPLY = "def apply(optimizer, loss):\n    loss.backward()  # HERE\n    optimizer.step()\n    optimizer.zero_grad()\n"
OF_CRITIC = "F.mse_loss(value(state, action), returned)"
OF_ACTOR = "-value(state, actor(state)).mean()"
JUDGED = "F.binary_cross_entropy_with_logits(value(state, made.detach()), none) - value(state, action).mean()"
JUDGED_WITH_HISTORY = JUDGED.replace(".detach()", "")
FOOLS = "F.binary_cross_entropy_with_logits(value(state, made), one)"
FAULTY = (
    f"clear()\n({OF_CRITIC}).backward()\n({OF_ACTOR}).backward()  # HERE\nstep()",
    f"first, second = {OF_CRITIC}, {OF_ACTOR}\nclear()\nsecond.backward()\nfirst.backward()  # HERE\nstep()",
    f"clear()\nloss = {OF_CRITIC} + 0.5 * ({OF_ACTOR})\nloss.backward()  # HERE\nstep()",
    f"clear()\n({OF_CRITIC}).backward()\nchosen = actor(state)\n"
    "((level.exp().detach() * chosen.square().sum(1, keepdim=True)) - value(state, chosen)).mean().backward()  # HERE\n"
    "(-level * (chosen.detach().square().mean() - 0.5)).sum().backward()\n"
    "for each in (of_critic, of_actor, of_level):\n    each.step()",
    f"clear()\nmade = actor(state)\nloss = {JUDGED}\n(loss + {FOOLS}).backward()  # HERE\nstep()",
    # Both losses have the history of what is judged, and ask the opposite of one score.
    f"clear()\nmade = actor(state)\nloss = {JUDGED_WITH_HISTORY}\n(loss + {FOOLS}).backward()  # HERE\nstep()",
    f"{APPLY}apply(of_critic, {OF_CRITIC})\napply(of_actor, {OF_ACTOR})",
    f"clear()\nfor loss in ({OF_CRITIC}, {OF_ACTOR}):\n    loss.backward()  # HERE\nstep()",
)
HEALTHY = (
    f"clear()\n({OF_CRITIC}).backward()\nof_critic.step()\nclear()\n({OF_ACTOR}).backward()\nof_actor.step()",
    f"clear()\n({OF_ACTOR}).backward()\nof_critic.zero_grad()\n({OF_CRITIC}).backward()\nstep()",
    # The critic is frozen for the actor.
    f"clear()\ncritic.requires_grad_(False)\nsecond = {OF_ACTOR}\ncritic.requires_grad_(True)\n"
    f"({OF_CRITIC} + second).backward()\nstep()",
    f"clear()\n({OF_CRITIC}).backward()\n({OF_ACTOR}).backward(inputs=list(actor.parameters()))\nstep()",
    f"{APPLY}clear()\napply(of_critic, {OF_CRITIC})\napply(of_actor, {OF_ACTOR})",
    f"{APPLY}apply(of_critic, {OF_CRITIC})\napply(of_critic, {OF_CRITIC})\n"
    "apply(of_actor, F.mse_loss(actor(state), action))",
    # Domain adaptation: the features are to be told apart by one loss, and to keep what another one needs.
    "clear()\nmade = actor(state)\n"
    "(F.binary_cross_entropy_with_logits(value(state, made), one) + made.square().mean()).backward()\nstep()",
    # A score of two samples, of which one should be larger.
    "clear()\n(value(state, actor(state + 1)) - value(state, actor(state))).sigmoid().mean().backward()\nstep()",
    # Both learn to fit one thing.
    "clear()\nguess = value(state, actor(state))\n"
    "(F.mse_loss(value(state, action), returned) + F.mse_loss(guess, returned)).backward()\nstep()",
)


def _script(training: str) -> str:
    return HEAD + PLAYERS + "".join(f"    {line}\n" for line in training.splitlines())


@pytest.mark.parametrize("training", FAULTY)
def test_a_player_that_steps_on_the_loss_of_the_other_is_told(training: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(training), "missing_zero_grad", tmp_path)


@pytest.mark.parametrize("training", HEALTHY)
def test_players_that_are_trained_apart_are_left_alone(training: str, tmp_path: Path) -> None:
    assert not alarms(_script(training), tmp_path)
