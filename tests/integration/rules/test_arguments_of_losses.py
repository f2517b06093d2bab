"""Losses that get values which they do not expect, which the model cannot reach, or on which nothing depends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

TRAINING = """
x, other = torch.randn(16, 4), torch.randn(16, 4)
y = x @ torch.randn(4, 1)
model = nn.Linear(4, {outputs}){last}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{labels}
for step in range(4):
"""


def _script(loss: str, labels: str = "", outputs: int = 1, last: str = "") -> str:
    begin = HEAD + TRAINING.format(outputs=outputs, labels=labels, last="")
    if last:
        begin = begin.replace("model = nn.Linear(4, 1)", last)
    return begin + "".join(f"    {line}\n" for line in loss.splitlines()) + TRAIN


EXCLUDED = (
    _script("loss = nn.BCEWithLogitsLoss()(model(x), t)", "t = 2 * (y > 0).float() - 1  # HERE"),
    _script("loss = F.soft_margin_loss(model(x), t)  # HERE", "t = (y > 0).float()"),
    _script("loss = F.hinge_embedding_loss(model(x), t)  # HERE", "t = (y > 0).long()"),
    _script("loss = nn.CosineEmbeddingLoss()(model(x), model(other), t)  # HERE", "t = (y[:, 0] > 0).float()", 3),
    _script("loss = nn.NLLLoss()(model(x), t)  # HERE", "t = (y[:, 0] > 0).long()", 3),
    _script("loss = F.poisson_nll_loss(F.softplus(model(x)), t)  # HERE", "t = torch.poisson(y.abs())"),
    _script(
        "loss = F.ctc_loss(model(x)[:, None].log_softmax(-1), t, (16,), (3,))  # HERE",
        "t = torch.tensor([[0, 1, 2]])",
        3,
    ),
    _script(
        "loss = criterion(model(x)[:, None].log_softmax(-1), t, (16,), (3,))",
        "t, criterion = torch.tensor([[0, 1, 2]]), nn.CTCLoss()  # HERE",
        3,
    ),
    _script(
        'loss = F.kl_div(model(x).log_softmax(-1), t.log(), reduction="batchmean")  # HERE',
        "t = torch.randn(16, 3).softmax(-1)",
        3,
    ),
)


_SOME_MISSING = "t = (y > 0).float()\nt[torch.arange(16) % 4 == 0] = {missing}"
MISSING = (
    _script("loss = nn.BCEWithLogitsLoss()(model(x), t)  # HERE", _SOME_MISSING.format(missing=-1)),
    _script("loss = F.binary_cross_entropy_with_logits(model(x), t)  # HERE", _SOME_MISSING.format(missing=-100)),
)


@pytest.mark.parametrize("script", MISSING)
def test_labels_that_are_missing_are_told_at_the_loss(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "argument_out_of_range", tmp_path)
    assert "labels that are missing" in alarms(script, tmp_path)[0].fix


def test_labels_that_are_missing_and_left_out_are_right(tmp_path: Path) -> None:
    loss = "e = F.binary_cross_entropy_with_logits(model(x), t.clamp(min=0), reduction='none')\n"
    loss += "loss = (e * (t >= 0)).sum() / (t >= 0).sum()"
    assert not alarms(_script(loss, _SOME_MISSING.format(missing=-1)), tmp_path)


@pytest.mark.parametrize("script", EXCLUDED)
def test_values_that_the_documentation_excludes_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "argument_out_of_range", tmp_path)


ALLOWED = (
    _script("loss = nn.BCEWithLogitsLoss()(model(x), t)", "t = torch.where(y > 0, 1.1, -0.1)"),
    _script(
        'loss = F.binary_cross_entropy_with_logits(model(x), t, reduction="none")\nloss = loss[t >= 0].mean()',
        "t = torch.where(y > 0, 1.0, 0.0)\nt[0] = -1",
    ),
    _script("loss = F.margin_ranking_loss(model(x), model(other), t)", "t = torch.sign(y)\nt[0] = 0"),
    _script("loss = F.nll_loss(model(x).log_softmax(1), t)", "t = (y[:, 0] > 0).long()", 3),
    _script(
        "loss = F.kl_div(F.log_softmax(model(x), 1), t, log_target=True)", "t = torch.randn(16, 3).log_softmax(1)", 3
    ),
    _script("loss = F.poisson_nll_loss(F.softplus(model(x)), t, log_input=False)", "t = torch.poisson(y.abs())"),
    _script(
        "loss = F.ctc_loss(model(x)[:, None].expand(16, 2, 3).log_softmax(-1), t, (16, 16), (3, 1))",
        "t = torch.tensor([[1, 2, 1], [2, 0, 0]])",
        3,
    ),
)


@pytest.mark.parametrize("script", ALLOWED)
def test_values_that_the_documentation_allows_or_a_mask_leaves_out_are_right(script: str, tmp_path: Path) -> None:
    assert not alarms(script, tmp_path)


TWICE = (
    _script(
        "p = model(x).softmax(1)  # HERE\nd = torch.distributions.Categorical(logits=p)\nloss = -d.log_prob(t).mean()",
        "t = (y[:, 0] > 0).long()",
        3,
    ),
    _script(
        "p = torch.sigmoid(model(x))  # HERE\nloss = -torch.distributions.Bernoulli(logits=p).log_prob(t).mean()",
        "t = (y > 0).float()",
    ),
    _script(
        "p = model(x)[:, None].softmax(-1)  # HERE\nloss = F.ctc_loss(p, t, (16,), (3,))",
        "t = torch.tensor([[2, 1, 2]])",
        3,
    ),
)


@pytest.mark.parametrize("script", TWICE)
def test_distributions_and_alignments_of_probabilities_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "normalized_twice", tmp_path)


def test_a_distribution_of_probabilities_by_name_is_right(tmp_path: Path) -> None:
    loss = "loss = -torch.distributions.Categorical(probs=model(x).softmax(1)).log_prob(t).mean()"
    assert not alarms(_script(loss, "t = (y[:, 0] > 0).long()", 3), tmp_path)


UNREACHED = (
    _script("loss = F.mse_loss(model(x), 5 * y)", last="model = nn.Sequential(nn.Linear(4, 1), nn.Tanh())  # HERE"),
    _script("p = torch.relu(model(x))  # HERE\nloss = (p - y).pow(2).mean()"),
    _script("p = model(x).relu()  # HERE\nloss = F.cross_entropy(p, t)", "t = (y[:, 0] > 0).long()", 3),
    _script("p = model(x).clamp_min(0)  # HERE\nr = (p - y).squeeze(1)\nloss = r @ r / len(x)"),
    _script("p = F.threshold(model(x), 0.0, 0.0)  # HERE\nloss = torch.subtract(p, y).norm()"),
    _script("p = torch.erf(model(x))  # HERE\nloss = F.huber_loss(p, 5 * y)"),
    _script("p = model(x).clamp_(min=0)  # HERE\nloss = F.cross_entropy(p, t)", "t = (y[:, 0] > 0).long()", 3),
)


@pytest.mark.parametrize("script", UNREACHED)
def test_targets_beyond_the_last_operation_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "target_never_reached", tmp_path)


REACHED = (
    _script("loss = F.mse_loss(5 * torch.tanh(model(x)), 5 * y.tanh())"),
    _script("loss = ((torch.relu(model(x)) - t).pow(2) * (t >= 0)).mean()", "t = y.clone()"),
    _script("loss = F.l1_loss(F.softplus(model(x)), y.abs())"),
    _script("r = model(x).clamp_min(-9) - y\nloss = (r * r).mean()"),
    _script("loss = F.cross_entropy(model(x).clamp_min(-30), t)", "t = (y[:, 0] > 0).long()", 3),
    _script("loss = (model(x).abs().add(1e-3) - y.abs()).norm()"),
)


@pytest.mark.parametrize("script", REACHED)
def test_targets_within_range_or_behind_a_mask_are_right(script: str, tmp_path: Path) -> None:
    assert not [each for each in alarms(script, tmp_path) if each.cause == "target_never_reached"]


LINEAR = (
    _script("loss = (model(x) - y).mean()  # HERE"),
    _script("difference = y[step:] - model(x[step:])  # HERE\nloss = 0.5 * difference.mean(0).sum().abs()"),
)


@pytest.mark.parametrize("script", LINEAR)
def test_a_target_that_is_only_averaged_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "target_without_influence", tmp_path)


WITH_INFLUENCE = (
    _script("loss = (model(x) - y).square().mean()"),
    _script("loss = model(x).mean() - model(other).mean()"),
    _script("rate = F.softplus(model(x))\nloss = (rate - t * rate.log() + torch.lgamma(t + 1)).mean()", "t = y.abs()"),
    _script("difference = model(x) - y\nloss = (torch.exp(difference) - difference - 1).mean()"),
    _script(
        "mean, raw = model(x), model(other)\nlog_std = torch.tanh(raw) + 1\neps = torch.randn(16, 2)\n"
        "action = torch.tanh(mean + log_std.exp() * eps)\nlogp = -0.5 * eps.square() - log_std\n"
        "loss = (0.1 * logp.sum(-1, keepdim=True) - critic(action)).mean()",
        last="model, critic = nn.Linear(4, 2), nn.Linear(2, 1)",
    ),
)


@pytest.mark.parametrize("script", WITH_INFLUENCE)
def test_a_squared_target_a_critic_a_likelihood_and_linex_are_right(script: str, tmp_path: Path) -> None:
    assert not [each for each in alarms(script, tmp_path) if each.cause == "target_without_influence"]


LOGITS_FOR_CTC = (
    HEAD
    + """
model = nn.Linear(4, 6)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
targets = torch.randint(1, 6, (8, 3))
for step in range(60):
    logits = model(torch.randn(10, 8, 4) * 0.1)
    loss = F.ctc_loss({given}, targets, (10,) * 8, (3,) * 8)  # HERE
"""
    + TRAIN
)


def test_logits_that_ctc_loss_has_taught_to_be_negative_are_told_by_the_first_steps(tmp_path: Path) -> None:
    assert_first_alarm(LOGITS_FOR_CTC.format(given="logits"), "argument_out_of_range", tmp_path)
    assert not alarms(LOGITS_FOR_CTC.format(given="logits.log_softmax(-1)"), tmp_path)
