"""Cosines that are too small for a softmax, overlaps of logits, several classes in one softmax, and gradient penalties
with one norm for a whole batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


PAIRS = """
encoder, scale = nn.Linear(8, 4), nn.Parameter(torch.tensor(0.07))
optimizer = torch.optim.SGD([*encoder.parameters(), scale], lr=0.1)
temperature = torch.tensor(0.07)
for step in range(3):
    x = torch.randn(16, 8)
    a, b = encoder(x), encoder(x + 0.1 * torch.randn_like(x))
    {loss}
"""
SMALL = (
    "z = F.normalize(torch.cat([a, b]), dim=1)\n"
    "    scores = z @ z.t() * 0.1  # HERE\n"
    "    scores = scores.masked_fill(torch.eye(32, dtype=torch.bool), float('-inf'))\n"
    "    loss = F.cross_entropy(scores, (torch.arange(32) + 16) % 32)",
    "logits = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T * 0.07  # HERE\n"
    "    loss = F.cross_entropy(logits, torch.arange(16))",
    "a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True).clamp(min=1e-6)\n"
    "    logits = torch.einsum('id,jd->ij', a, b) * temperature  # HERE\n"
    "    loss = F.nll_loss(F.log_softmax(logits, dim=1), torch.arange(16))",
    "close = torch.rsub(torch.cdist(F.normalize(a), F.normalize(b)).square(), 2).div(2)\n"
    "    loss = F.cross_entropy(close.mul(0.1), torch.arange(16))  # HERE",
    "a, b = a * a.square().sum(1, keepdim=True).rsqrt(), b * b.norm(dim=1, keepdim=True).reciprocal()\n"
    "    loss = F.cross_entropy(-torch.cdist(a, b) / 4, torch.arange(16))  # HERE",
    "logits = F.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=2) / 10  # HERE\n"
    "    loss = F.cross_entropy(logits, torch.arange(16))",
)
LARGE_ENOUGH = (
    "z = F.normalize(torch.cat([a, b]), dim=1)\n"
    "    scores = (z @ z.t() / 0.1).masked_fill(torch.eye(32, dtype=torch.bool), float('-inf'))\n"
    "    loss = F.cross_entropy(scores, (torch.arange(32) + 16) % 32)",
    "loss = F.cross_entropy(F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / 0.07, torch.arange(16))",
    "loss = F.cross_entropy(F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / temperature, torch.arange(16))",
    "loss = F.cross_entropy(F.normalize(a, dim=1) @ F.normalize(b, dim=1).T * scale.exp(), torch.arange(16))",
    "loss = F.cross_entropy(a @ b.T * 0.07, torch.arange(16))",
    "loss = F.cross_entropy(-10 * torch.cdist(F.normalize(a), F.normalize(b)).square(), torch.arange(16))",
    "loss = F.cross_entropy(-0.1 * torch.cdist(a, b), torch.arange(16))",
    "loss = F.cross_entropy(5 * (torch.cdist(F.normalize(a), F.normalize(b)) - 1).neg(), torch.arange(16))",
    "loss = F.cross_entropy(F.normalize(a, dim=1) @ F.normalize(b, dim=1)[:2].T * 0.5, torch.arange(16) % 2)",
    "loss = 1 - 0.07 * (F.normalize(a, dim=1) @ F.normalize(b, dim=1).T).diagonal().mean()",
)


@pytest.mark.parametrize("loss", SMALL)
def test_cosines_that_are_multiplied_by_a_temperature_are_too_close(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PAIRS.format(loss=loss) + TRAIN, "scores_too_close", tmp_path)


@pytest.mark.parametrize("loss", LARGE_ENOUGH)
def test_divided_or_learned_factors_and_other_products_are_right(loss: str, tmp_path: Path) -> None:
    assert "scores_too_close" not in causes(HEAD + PAIRS.format(loss=loss) + TRAIN, tmp_path)


AREAS = """
def soft_dice(p, target):
    {dice}

model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    image = torch.randn(4, 1, 6, 6)
    target = (image > 0).float()
    loss = soft_dice({given}, target)
"""
DICE = (
    "common = (p * target).sum((1, 2, 3))  # HERE\n"
    "    return 1 - ((2 * common + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)).mean()",
    "p, target = p.flatten(), target.flatten()\n    both = (p * target).sum()  # HERE\n"
    "    return 1 - both / (p.sum() + target.sum() - both + 1e-6)",
    "both = torch.einsum('nchw,nchw->n', p, target)  # HERE\n"
    "    return 1 - (2 * both * (torch.einsum('nchw->n', p) + target.sum((1, 2, 3)) + 1).reciprocal()).mean()",
)


@pytest.mark.parametrize("dice", DICE)
@pytest.mark.parametrize("given", ["model(image)", "torch.sigmoid(model(image))", "model(image).clamp(0, 1)"])
def test_an_overlap_is_one_of_probabilities(given: str, dice: str, tmp_path: Path) -> None:
    script = HEAD + AREAS.format(given=given, dice=dice) + TRAIN
    if given == "model(image)":
        assert_first_alarm(script, "overlap_of_logits", tmp_path)
    else:
        assert causes(script, tmp_path) == set()


@pytest.mark.parametrize(
    "squares", ["(p * p).sum((2, 3))", "torch.einsum('nchw->nc', p.square())", "(p**2).sum((2, 3))"]
)
@pytest.mark.parametrize("given", ["F.log_softmax({}, 1)", "F.logsigmoid({})", "F.softmax({}, 1)", "{}"])
def test_a_ratio_with_squares_is_wrong_for_logarithms(given: str, squares: str, tmp_path: Path) -> None:
    """With squares, it is largest where numbers of any sign equal the target; those below zero never do."""
    dice = (
        "both = torch.einsum('nchw,nchw->nc', p, target)\n"
        f"    return 1 - ((2 * both + 1) / ({squares} + target.sum((2, 3)) + 1)).mean()"
    )
    logits = "torch.cat([model(image), -model(image)], 1)"
    script = AREAS.format(given=given.format(logits), dice=dice)
    script = HEAD + script.replace(
        "target = (image > 0).float()", "target = torch.cat([image > 0, image <= 0], 1).float()"
    )
    if "log" in given.partition("(")[0]:
        script = ", target)  # HERE\n".join(script.rsplit(", target)\n", 1))  # where the function gets them
        assert_first_alarm(script + TRAIN, "overlap_of_logits", tmp_path)
    else:
        assert "overlap_of_logits" not in causes(script + TRAIN, tmp_path)


@pytest.mark.parametrize("dice", DICE)
def test_a_line_that_gives_logits_to_a_function_of_probabilities_is_told(dice: str, tmp_path: Path) -> None:
    script = AREAS.replace("    loss =", "    logits = model(image)\n    loss =")
    script = script.format(given="logits", dice=dice.replace("  # HERE", "")).rstrip() + "  # HERE\n"
    assert_first_alarm(HEAD + script + TRAIN, "overlap_of_logits", tmp_path)


def test_a_ratio_of_other_sums_is_no_overlap(tmp_path: Path) -> None:
    weighted = "weights = target + 1\n    return (p * weights).sum() / (weights.sum() + 1) + (p * p).mean()"
    correlation = "return -(p * target).sum() / ((p * p).sum() * (target * target).sum()).sqrt()"
    for dice in (weighted, correlation):
        script = HEAD + AREAS.format(given="model(image)", dice=dice) + TRAIN
        assert "overlap_of_logits" not in causes(script, tmp_path)


CLASSES = """
model = nn.Linear(6, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(16, 6)
    one_hot = F.one_hot(torch.randint(0, 5, (16,)), 5).float()
    several = torch.cat([x[:, :3] > -1, x[:, 3:5] > 0], dim=1).float()
    {loss}
"""


def test_a_softmax_has_no_room_for_several_classes(tmp_path: Path) -> None:
    loss = "loss = F.cross_entropy(model(x), several)  # HERE"
    assert_first_alarm(HEAD + CLASSES.format(loss=loss) + TRAIN, "argument_out_of_range", tmp_path)


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(model(x), one_hot)",
        "loss = F.cross_entropy(model(x), 0.4 * one_hot + 0.6 * one_hot.flip(0))",
        "loss = F.cross_entropy(model(x), one_hot, label_smoothing=0.1)",
        "loss = F.cross_entropy(model(x), several / several.sum(1, keepdim=True).clamp(min=1))",
        "loss = F.binary_cross_entropy_with_logits(model(x), several)",
    ],
)
def test_one_class_mixtures_and_separate_answers_are_right(loss: str, tmp_path: Path) -> None:
    assert causes(HEAD + CLASSES.format(loss=loss) + TRAIN, tmp_path) == set()


PENALTY = """
critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(16, 3).requires_grad_()
    out = critic(x)
    g, = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)
    {penalty}
    loss = critic(torch.randn(16, 3)).mean() - critic(1 + torch.randn(16, 3)).mean() + 10 * penalty
"""
OF_ALL = (
    "penalty = (g.norm(2) - 1) ** 2  # HERE",
    "penalty = (torch.linalg.vector_norm(g) - 1).square()  # HERE",
    "norm = g.view(16, -1).norm()  # HERE\n    penalty = (1.0 - norm).pow(2)",
)
OF_EACH = (
    "penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()",
    "penalty = ((g.view(16, -1).norm(dim=-1) - 1) ** 2).mean()",
    "penalty = g.square().sum(1).mean()",
    "penalty = g.norm() ** 2 / 16",
)


@pytest.mark.parametrize("penalty", OF_ALL)
def test_a_norm_of_all_samples_is_no_slope(penalty: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PENALTY.format(penalty=penalty) + TRAIN, "one_norm_for_all_samples", tmp_path)


@pytest.mark.parametrize("penalty", OF_EACH)
def test_a_norm_of_each_sample_and_sums_of_squares_are_right(penalty: str, tmp_path: Path) -> None:
    assert "one_norm_for_all_samples" not in causes(HEAD + PENALTY.format(penalty=penalty) + TRAIN, tmp_path)


def test_the_norm_of_the_gradient_of_one_parameter_is_meant(tmp_path: Path) -> None:
    script = """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    error = (model(torch.randn(8, 4)) - torch.randn(8, 2)).square().mean()
    g, = torch.autograd.grad(error, model.weight, create_graph=True)
    loss = error + 0.1 * (g.norm() - 1) ** 2
"""
    assert "one_norm_for_all_samples" not in causes(HEAD + script + TRAIN, tmp_path)


MIXTURES = """
model, second = nn.Linear(4, 3), nn.Linear(4, 3)
optimizer = torch.optim.SGD([*model.parameters(), *second.parameters()], lr=0.1)
def error(out, y):
    return F.cross_entropy(out, y){mark}
for step in range(3):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    order = torch.randperm(8)
    a, b = model(0.7 * x + 0.3 * x[order]), second(x)
    y_b = y[order]
    {loss}
"""
TWICE = "loss = 0.7 * error(a, y) + 0.3 * error(a.view(8, 3), y) + error(b, y)"
ONCE = (
    "loss = 0.7 * error(a, y) + 0.3 * error(a, y_b) + error(b, y)",
    "loss = error(a, y) + F.cross_entropy(a, y, label_smoothing=0.1) + error(b, y)",
    "table, own = a @ b.T, torch.arange(8)\n    loss = error(table, own) + error(table.T, own)",
    "loss = error(a[:4], y[:4]) + error(a[4:], y[4:]) + error(b, y)",
    "both = torch.cat([a, b])\n    loss = error(both[:8], y) + error(both[8:], y)",
)


def test_a_term_that_a_loss_has_twice_is_told(tmp_path: Path) -> None:
    script = MIXTURES.format(loss=TWICE, mark="  # HERE")
    assert_first_alarm(HEAD + script + TRAIN, "same_term_twice", tmp_path)


@pytest.mark.parametrize("loss", ONCE)
def test_terms_with_other_targets_predictions_or_options_are_right(loss: str, tmp_path: Path) -> None:
    assert "same_term_twice" not in causes(HEAD + MIXTURES.format(loss=loss, mark="") + TRAIN, tmp_path)


QUEUE = """
encoder, queue = nn.Linear(6, 4), torch.randn(20, 4)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 6)
    q, k = encoder(x), encoder(x + 0.1 * torch.randn(8, 6)).detach()
    own, others = torch.einsum("nc,nc->n", q, k).unsqueeze(-1), q @ queue.T
    {logits}
    loss = F.cross_entropy(logits / 0.5, labels)
"""


@pytest.mark.parametrize(
    "logits",
    [
        "logits, labels = torch.cat([others, own], dim=1), torch.zeros(8, dtype=torch.long)  # HERE",
        "logits = torch.cat((own, others), 1)  # HERE\n    labels = torch.full((8,), 20)",
    ],
)
def test_labels_that_name_a_negative_are_told(logits: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + QUEUE.format(logits=logits) + TRAIN, "positive_elsewhere", tmp_path)


@pytest.mark.parametrize(
    "logits",
    [
        "logits, labels = torch.cat([own, others], dim=1), torch.zeros(8, dtype=torch.long)",
        "logits, labels = torch.cat([others, own], dim=1), torch.full((8,), 20)",
        "logits, labels = torch.cat([others, own], dim=1), torch.randint(0, 21, (8,))",
    ],
)
def test_labels_that_name_the_positive_are_right(logits: str, tmp_path: Path) -> None:
    assert "positive_elsewhere" not in causes(HEAD + QUEUE.format(logits=logits) + TRAIN, tmp_path)


ITEMS = """
users, items = nn.Embedding(50, 8), nn.Embedding(20, 8)
optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.01)
counts = torch.bincount(torch.randint(0, 20, (500,)) ** 2 // 20, minlength=20) + 1.0
log_share = (counts / counts.sum()).log()
for step in range(3):
    user, item = torch.randint(0, 50, (16,)), torch.randint(0, 20, (16,))
    scores = F.normalize(users(user)) @ F.normalize(items(item)).T / 0.1
    {logits}
    loss = F.cross_entropy(logits, {labels})
"""
FREQUENCY_ADDED = (
    "logits = scores + log_share[item]  # HERE",
    "logits = scores.add(log_share.index_select(0, item).unsqueeze(0))  # HERE",
    "cost = -log_share[item]\n    logits = scores - cost[None, :]  # HERE",
    "scores = scores + log_share[item]  # HERE\n    same = item[:, None] == item[None]\n"
    "    logits = scores.masked_fill(same & ~torch.eye(16, dtype=torch.bool), -1e9)",
)
FREQUENCY_RIGHT = (
    ("logits = scores - log_share[item]", "torch.arange(16)"),
    ("cost = -log_share[item]\n    logits = scores + cost[None, :]", "torch.arange(16)"),
    # A classifier of all items whose prior is added, and removed when it is used.
    ("logits = users(user) @ items.weight.T + log_share", "item"),
    ("same = (item[:, None] == item[None]).float() - torch.eye(16)\n    logits = scores + (1 - same).log()",
     "torch.arange(16)"),
    ("logits = scores + 0.1 * counts[item].sqrt()", "torch.arange(16)"),
)  # fmt: skip


@pytest.mark.parametrize("logits", FREQUENCY_ADDED)
def test_a_frequency_that_is_added_is_told(logits: str, tmp_path: Path) -> None:
    script = HEAD + ITEMS.format(logits=logits, labels="torch.arange(16)") + TRAIN
    assert_first_alarm(script, "frequency_added", tmp_path)


@pytest.mark.parametrize(("logits", "labels"), FREQUENCY_RIGHT)
def test_a_frequency_that_is_taken_away_and_other_terms_are_right(logits: str, labels: str, tmp_path: Path) -> None:
    assert "frequency_added" not in causes(HEAD + ITEMS.format(logits=logits, labels=labels) + TRAIN, tmp_path)
