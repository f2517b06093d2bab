"""Gradients that the loss of one player leaves in the other one, and that the other one's next step uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

ADVERSARY = """
model, task = nn.Sequential(nn.Linear(6, 12), nn.ReLU()), nn.Linear(12, 1)
adversary = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))
of_model = torch.optim.Adam([*model.parameters(), *task.parameters()], 3e-3)
of_adversary = torch.optim.Adam(adversary.parameters(), 3e-3)
loss_of = F.binary_cross_entropy_with_logits
def apply(optimizer, loss):
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
for _ in range(4):
    x, y, group = torch.randn(32, 6), torch.rand(32, 1).round(), torch.rand(32, 1).round()
"""
SEEN = "with torch.no_grad():\n    seen = model(x)\n"
HIDDEN = "h = model(x)\nloss = loss_of(task(h), y) - loss_of(adversary(h), group)\n"
ROUND = (
    SEEN
    + "for inner in range({inner}):\n    loss_of(adversary(seen), group).backward(){here}\n    of_adversary.step()\n"
)
OWN_LAST = "    of_adversary.zero_grad()\n"

STEPS = (
    # Each clears only its own gradients, and only after its step: the adversary steps more often.
    ROUND.format(inner=3, here="  # HERE") + OWN_LAST + HIDDEN
    + "loss.backward()\nof_model.step()\nof_model.zero_grad()",
    ROUND.format(inner=2, here="  # HERE") + OWN_LAST
    + "for turn in range(2):\n    h = model(x)\n    loss = loss_of(task(h), y) - loss_of(adversary(h), group)\n"
    "    loss.backward()\n    of_model.step()\n    of_model.zero_grad()",
    # Its own loss is in two backward calls.
    "of_model.zero_grad()\n" + HIDDEN + "loss.backward()\nof_model.step()\n" + SEEN
    + "loss_of(adversary(seen[:16]), group[:16]).backward()  # HERE\n"
    "loss_of(adversary(seen[16:]), group[16:]).backward()\nof_adversary.step()\nof_adversary.zero_grad()",
)  # fmt: skip
CLEARED = (
    ROUND.format(inner=3, here="") + OWN_LAST + HIDDEN
    + "loss.backward()\nof_model.step()\nof_model.zero_grad()\nof_adversary.zero_grad()",
    HIDDEN + "of_model.zero_grad()\nloss.backward()\nof_model.step()\n" + SEEN
    + "for inner in range(2):\n    of_adversary.zero_grad()\n    loss_of(adversary(seen), group).backward()\n"
    "    of_adversary.step()",
    # One optimizer's loss in several backward calls, and gradients that are collected on purpose.
    SEEN + "for part in range(4):\n    (loss_of(adversary(seen[part::4]), group[part::4]) / 4).backward()\n"
    "of_adversary.step()\nof_adversary.zero_grad()\nh = model(x)\nloss_of(task(h), y).backward()\nof_model.step()\n"
    "of_model.zero_grad()",
)  # fmt: skip


def _script(head: str, training: str) -> str:
    return HEAD + head + "".join(f"    {line}\n" for line in training.splitlines())


@pytest.mark.parametrize("training", STEPS)
def test_gradients_that_the_models_round_left_in_its_adversary_are_told(training: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(ADVERSARY, training), "missing_zero_grad", tmp_path)


@pytest.mark.parametrize("training", CLEARED)
def test_an_adversary_whose_gradients_are_cleared_is_left_alone(training: str, tmp_path: Path) -> None:
    assert not alarms(_script(ADVERSARY, training), tmp_path)


def test_one_function_that_calls_backward_for_both_is_told_with_the_caller(tmp_path: Path) -> None:
    training = (
        SEEN + "for inner in range(2):\n    apply(of_adversary, loss_of(adversary(seen), group))\n"
        + HIDDEN + "apply(of_model, loss)"
    )  # fmt: skip
    script = _script(ADVERSARY, training)
    lines = [line.strip() for line in script.splitlines()]
    places = [(each.cause, each.location, each.symptom_location) for each in alarms(script, tmp_path)]
    told = [(cause, *(place and lines[place.line - 1] for place in both)) for cause, *both in places]
    assert told == [("missing_zero_grad", "loss.backward()", "apply(of_model, loss)")]


GENERATED = """
generator = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
of_generator = torch.optim.Adam(generator.parameters(), 1e-3)
of_judge = torch.optim.Adam(judge.parameters(), 1e-3)
bce, mse = F.binary_cross_entropy_with_logits, F.mse_loss
one, none = torch.ones(32, 1), torch.zeros(32, 1)
def clear():
    of_generator.zero_grad()
    of_judge.zero_grad()
for _ in range(4):
    real, noise = torch.randn(32, 2) + 2, torch.randn(32, 4)
"""
LOSSES = {
    "cross entropy": ("bce(judge(real), one) + bce(judge(made), none)", "bce(judge(made), one)"),
    "squares": ("mse(judge(real), one) + mse(judge(made), none)", "(judge(made) - 1).square().mean()"),
    "hinge": ("F.relu(1 - judge(real)).mean() + F.relu(1 + judge(made)).mean()", "-judge(made).mean()"),
    "means": ("judge(made).mean() - judge(real).mean()", "judge(made).neg().mean()"),
    "softplus of both": (
        "(F.softplus(-judge(real)) + F.softplus(judge(made))).mean()",
        "F.softplus(-judge(made)).mean()",
    ),
    "logarithms": (
        "-(torch.log(torch.sigmoid(judge(real))) + torch.log(1 - torch.sigmoid(judge(made)))).mean()",
        "-F.logsigmoid(judge(made)).mean()",
    ),
}  # fmt: skip


@pytest.mark.parametrize("losses", LOSSES.values(), ids=LOSSES)
def test_a_discriminators_loss_that_goes_into_the_generator_is_told(losses: tuple[str, str], tmp_path: Path) -> None:
    own, fooled = losses
    training = (
        f"clear()\nmade = generator(noise)\nloss = {own}  # HERE\nloss.backward(retain_graph=True)\nof_judge.step()\n"
        f"({fooled}).backward()\nof_generator.step()"
    )
    assert_first_alarm(_script(GENERATED, training), "missing_zero_grad", tmp_path)


OPPOSED = (
    # New samples for each; each optimizer is cleared right after its step.
    "made = generator(noise)\nloss = bce(judge(real), one) + bce(judge(made), none)  # HERE\nloss.backward()\n"
    "of_judge.step()\nof_judge.zero_grad()\nbce(judge(generator(noise)), one).backward()\nof_generator.step()\n"
    "of_generator.zero_grad()\nof_judge.zero_grad()",
    # The generator steps first.
    "of_judge.zero_grad()\nbce(judge(generator(noise)), one).backward()\nof_generator.step()\n"
    "of_generator.zero_grad()\nof_judge.zero_grad()\nbce(judge(real), one).backward()\nfake = judge(generator(noise))\n"
    "bce(fake, none).backward()  # HERE\nof_judge.step()",
    # Several steps of the critic.
    "of_generator.zero_grad()\nfor inner in range(3):\n    of_judge.zero_grad()\n    made = generator(noise)\n"
    "    loss = judge(made).mean() - judge(real).mean()  # HERE\n    loss.backward()\n    of_judge.step()\n"
    "(-judge(generator(noise)).mean()).backward()\nof_generator.step()",
)  # fmt: skip
APART = (
    "clear()\nmade = generator(noise)\n(bce(judge(real), one) + bce(judge(made.detach()), none)).backward()\n"
    "of_judge.step()\nbce(judge(made), one).backward()\nof_generator.step()",
    "of_judge.zero_grad()\n(bce(judge(real), one) + bce(judge(generator(noise)), none)).backward()\nof_judge.step()\n"
    "of_generator.zero_grad()\nbce(judge(generator(noise)), one).backward()\nof_generator.step()",
    # Both want the same: a code that is read out again.
    "clear()\nmade = generator(noise)\nmse(judge(made), noise[:, :1]).backward(retain_graph=True)\nof_judge.step()\n"
    "mse(judge(made), noise[:, :1]).backward()\nof_generator.step()",
    # The first loss is for both, and both step.
    "clear()\nmade = generator(noise)\nmse(judge(made), one).backward()\nof_judge.step()\nof_generator.step()\n"
    "clear()\nmse(judge(generator(noise)), none).backward()\nof_generator.step()",
)  # fmt: skip


@pytest.mark.parametrize("training", OPPOSED)
def test_other_orders_of_opposed_losses_are_told(training: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(GENERATED, training), "missing_zero_grad", tmp_path)


@pytest.mark.parametrize("training", APART)
def test_players_whose_gradients_stay_apart_are_left_alone(training: str, tmp_path: Path) -> None:
    assert not [each for each in alarms(_script(GENERATED, training), tmp_path) if each.code == "GV601"]


PLAYERS = """
maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
of_maker, of_judge = (torch.optim.Adam(each.parameters(), 1e-3) for each in (maker, judge))
def judge_learns(real):
    loss = F.softplus(-judge(real)).mean() + F.softplus(judge(maker(torch.randn(8, 4)).detach())).mean()
    loss.backward()  # HERE
    of_judge.step()
def maker_learns():
    of_maker.zero_grad()
    F.softplus(-judge(maker(torch.randn(8, 4)))).mean().backward()
    of_maker.step()
for step in range(6):
    judge_learns(torch.randn(8, 4) + 2)
    maker_learns()
"""


def test_gradients_that_only_the_function_of_the_other_player_clears_are_told_where_they_are_used(
    tmp_path: Path,
) -> None:
    assert_first_alarm(HEAD + PLAYERS, "missing_zero_grad", tmp_path)
    cleared = PLAYERS.replace("    loss.backward()", "    of_judge.zero_grad()\n    loss.backward()")
    assert not alarms(HEAD + cleared, tmp_path)
