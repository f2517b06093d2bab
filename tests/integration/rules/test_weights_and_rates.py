"""Weights of a class, learning rates, factors of a schedule and clipped terms that do the opposite of what they are
for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CLASSIFIER = HEAD + "model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, {})).train()\n"
RATES = (
    CLASSIFIER.format(5) + "optimizer = torch.optim.{}\n"
    "for step in range(24):\n    x = torch.randn(32, 8)\n"
    "    loss = F.cross_entropy(model(x), x[:, :5].argmax(1))" + TRAIN
)


@pytest.mark.parametrize(
    "made",
    [
        "Adam(model.parameters(), lr=1.0)  # HERE",
        "AdamW([{'params': model[0].parameters()}, {'params': model[2].parameters()}], lr=2.0)  # HERE",
        "RMSprop(model.parameters(), 1.0)  # HERE",
    ],
)
def test_steps_as_large_as_the_weights_are_told_where_nothing_is_learned(made: str, tmp_path: Path) -> None:
    assert_first_alarm(RATES.format(made), "steps_too_large", tmp_path)


@pytest.mark.parametrize(
    "made", ["Adam(model.parameters(), lr=0.01)", "SGD(model.parameters(), lr=1.0)", "AdamW(model.parameters(), 0.05)"]
)
def test_steps_from_which_a_model_learns_are_right(made: str, tmp_path: Path) -> None:
    assert not alarms(RATES.format(made), tmp_path)


@pytest.mark.parametrize(
    "made",
    ["SGD(model.parameters(), lr=10.0)  # HERE", "SGD(model.parameters(), lr=5.0, momentum=0.9)  # HERE"],
)
def test_first_steps_that_replace_the_weights_are_told_where_nothing_is_learned(made: str, tmp_path: Path) -> None:
    assert_first_alarm(RATES.format(made), "steps_too_large", tmp_path)


DEEP = (
    HEAD
    + """
model = nn.Sequential(nn.Linear(20, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 5))
teacher = torch.randn(20, 5)
optimizer = torch.optim.{}
for step in range(32):
    x = torch.randn(64, 20)
    loss = {}
"""
)
FIT = "F.cross_entropy(model(x), (x @ teacher).argmax(1))"


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        ("NAdam(model.parameters(), lr=0.8 * 64 / 256)  # HERE", FIT),
        ("Adam(model.parameters(), lr=0.3)  # HERE", FIT),
        ("Adamax(model.parameters(), lr=0.3)  # HERE", "F.mse_loss(model(x), x @ teacher)"),
    ],
)
def test_steps_as_large_as_the_weights_are_told_where_the_loss_leaps(made: str, loss: str, tmp_path: Path) -> None:
    assert_first_alarm(DEEP.format(made, loss) + TRAIN, "steps_too_large", tmp_path)


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        ("Adam(model.parameters(), lr=0.03)", FIT),
        # The targets are larger at a later step: nothing is wrong with the rate.
        ("Adam(model.parameters(), lr=0.01)", "F.mse_loss(model(x), (1 + 9 * (step == 9)) * (x @ teacher))"),
        ("SGD(model.parameters(), lr=0.2)", FIT),
    ],
)
def test_usual_rates_are_right_also_where_the_loss_leaps(made: str, loss: str, tmp_path: Path) -> None:
    assert not alarms(DEEP.format(made, loss) + TRAIN, tmp_path)


WEIGHTED = (
    CLASSIFIER.format(1) + "optimizer = torch.optim.Adam(model.parameters())\n"
    "x = torch.randn(400, 8)\ny = (x.sum(1, keepdim=True) > 3).float()\n{}\n"
    "for step in range(8):\n    rows = torch.randint(0, 400, (64,))\n"
    "    loss = error(model(x[rows]), y[rows])" + TRAIN
)


@pytest.mark.parametrize(
    "error",
    [
        "ratio = y.mean() / (1 - y.mean())  # HERE\nerror = nn.BCEWithLogitsLoss(pos_weight=ratio)",
        "counts = y.long().flatten().bincount()\nweight = (counts[1] / counts[0]).reshape(1)  # HERE\n"
        "def error(out, target):\n    return F.binary_cross_entropy_with_logits(out, target, pos_weight=weight)",
    ],
)
def test_the_weight_of_a_class_that_is_turned_around_is_told(error: str, tmp_path: Path) -> None:
    assert_first_alarm(WEIGHTED.format(error), "rare_class_weighs_less", tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        "error = nn.BCEWithLogitsLoss(pos_weight=(1 - y).sum() / y.sum())",
        "error = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(0.5))",
        "error = nn.BCEWithLogitsLoss()",
    ],
)
def test_weights_that_help_the_rare_class_or_are_chosen_by_hand_are_right(error: str, tmp_path: Path) -> None:
    assert not alarms(WEIGHTED.format(error), tmp_path)


NOISY = (
    HEAD + "model = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))\n"
    "optimizer = torch.optim.Adam(model.parameters())\n"
    "betas = torch.linspace(1e-4, 0.02, 50)\nalpha_bar = (1 - betas).cumprod(0)\n{}\n"
    "for step in range(5):\n    x, t = torch.randn(16, 2), torch.randint(0, 50, (16,))\n"
    "    noise = torch.randn_like(x)\n    {}\n    out = model(torch.cat([noisy, t[:, None] / 50], 1))\n"
    "    loss = F.mse_loss(out, noise)" + TRAIN
)


@pytest.mark.parametrize(
    ("before", "mixed"),
    [
        ("", "noisy = alpha_bar[t, None] * x + (1 - alpha_bar[t, None]) * noise  # HERE"),
        (
            "keep, rest = alpha_bar.sqrt(), 1 - alpha_bar",
            "noisy = keep.gather(0, t).view(-1, 1) * x + rest.gather(0, t).view(-1, 1) * noise  # HERE",
        ),
        ("", "noisy = noise * (1 - alpha_bar[t][:, None]) ** 0.5 + alpha_bar[t][:, None] * x  # HERE"),
    ],
)
def test_data_and_noise_that_are_mixed_without_a_root_are_told(before: str, mixed: str, tmp_path: Path) -> None:
    assert_first_alarm(NOISY.format(before, mixed), "mixed_without_root", tmp_path)


@pytest.mark.parametrize(
    ("before", "mixed"),
    [
        ("", "noisy = alpha_bar[t, None].sqrt() * x + (1 - alpha_bar[t, None]).sqrt() * noise"),
        ("keep, rest = alpha_bar**0.5, (1 - alpha_bar) ** 0.5", "noisy = keep[t, None] * x + rest[t, None] * noise"),
        ("", "a = t[:, None] / 50\n    noisy = (1 - a) * x + a * noise"),
    ],
)
def test_roots_of_a_schedule_and_straight_paths_are_right(before: str, mixed: str, tmp_path: Path) -> None:
    assert not alarms(NOISY.format(before, mixed), tmp_path)


CLIPPED = (
    HEAD + "policy, critic = nn.Linear(4, 3), nn.Linear(4, 1)\n"
    "optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.05)\n"
    "x, a, adv, gain = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randn(16), torch.randn(16)\n"
    "with torch.no_grad():\n    old = policy(x).log_softmax(1)[torch.arange(16), a]\n    was = critic(x)[:, 0]\n"
    "for step in range(5):\n    now = policy(x).log_softmax(1)[torch.arange(16), a]\n"
    "    ratio, value = (now - old).exp(), critic(x)[:, 0]\n    {}" + TRAIN
)


@pytest.mark.parametrize(
    "loss",
    [
        "loss = -torch.max(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()  # HERE",
        "loss = torch.minimum(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()  # HERE",
        "near = was + (value - was).clamp(-0.2, 0.2)\n"
        "    worse = torch.min((value - gain) ** 2, (near - gain) ** 2)  # HERE\n"
        "    loss = 0.5 * worse.mean() - torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()",
    ],
)
def test_the_better_of_a_clipped_and_an_unclipped_term_is_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(CLIPPED.format(loss), "optimistic_clip", tmp_path)


@pytest.mark.parametrize(
    "loss",
    [
        "loss = torch.max(-adv * ratio, -adv * ratio.clamp(0.8, 1.2)).mean() + F.mse_loss(value, gain)",
        "near = was + (value - was).clamp(-0.2, 0.2)\n"
        "    error = torch.max((value - gain) ** 2, (near - gain) ** 2).mean()\n"
        "    loss = error - torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()",
        "loss = F.mse_loss(value, gain) - torch.min(ratio * adv, (ratio + 1) * adv).mean()",
    ],
)
def test_the_worse_of_two_terms_and_terms_without_a_clamp_are_right(loss: str, tmp_path: Path) -> None:
    assert not alarms(CLIPPED.format(loss), tmp_path)
