"""Temperatures of one side only, advantages with the wrong sign, means that count what a mask hid, and pictures whose
pixels are viewed as channels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


DISTILLATION = """
teacher, student = nn.Linear(6, 4), nn.Linear(6, 4)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
T = 3.0
for step in range(3):
    x = torch.randn(8, 6)
    with torch.no_grad():
        answers = teacher(x)
    {loss}
"""
OF_ONE_SIDE = (
    "loss = F.kl_div(F.log_softmax(student(x), 1), F.softmax(answers / T, 1), reduction='batchmean') * T * T  # HERE",
    "own = student(x).log_softmax(dim=-1)  # HERE\n    soft = (answers / T).softmax(dim=-1)\n"
    "    loss = F.kl_div(own, soft, reduction='sum') / 8",
    "loss = F.cross_entropy(student(x), F.softmax(answers * 0.25, dim=1))  # HERE",
    "own = student(x)\n    own = own - own.logsumexp(-1, keepdim=True)  # HERE\n    a = answers / T\n"
    "    soft = (a - a.logsumexp(-1, keepdim=True)).exp()\n    loss = -torch.einsum('nc,nc->n', soft, own).mean()",
    "soft = (answers / T).exp()\n    soft = soft / soft.sum(1, keepdim=True)\n"
    "    loss = -(soft * student(x).log_softmax(1)).sum(1).mean()  # HERE",
    "soft = torch.log_softmax(answers / T, 1).exp()\n"
    "    soft = torch.stack([soft[i] for i in range(8)])\n"
    "    loss = F.kl_div(student(x).log_softmax(1), soft, reduction='batchmean')  # HERE",
)
OF_THE_STUDENT = (
    "p = teacher(x).softmax(1).detach()  # HERE\n"
    "    loss = F.kl_div(F.log_softmax(student(x) / 4, 1), p, reduction='batchmean') * 4 * 4",
    "p = torch.softmax(teacher(x).detach(), 1)  # HERE\n    loss = 16 * F.cross_entropy(student(x).div(4.0), p)",
)
OF_BOTH_SIDES = (
    "loss = F.kl_div(F.log_softmax(student(x) / T, 1), F.softmax(answers / T, 1), reduction='batchmean')",
    "loss = F.kl_div(F.log_softmax(student(x), 1), F.softmax(answers, 1), reduction='batchmean')",
    "loss = F.cross_entropy(student(x), F.softmax(answers / 0.5, dim=1))",
    "own = student(x) / T\n    own = own - own.logsumexp(-1, keepdim=True)\n    a = answers / T\n"
    "    soft = (a - a.logsumexp(-1, keepdim=True)).exp()\n    loss = -torch.einsum('nc,nc->n', soft, own).mean()",
    "soft = answers.exp()\n    soft = soft / soft.sum(1, keepdim=True)\n"
    "    loss = -(soft * student(x).log_softmax(1)).sum(1).mean()",
    "weight = (answers / T).exp()\n    weight = weight / answers.abs().sum(1, keepdim=True)\n"
    "    loss = -(weight * student(x).log_softmax(1)).sum(1).mean()",
    "loss = F.cross_entropy(student(x) / 0.1, F.softmax(answers / 2, dim=1))",
    "loss = F.cross_entropy(student(x), answers.argmax(1))",
    # A temperature of the trained logits alone, as of cosines, without the square that goes with a teacher's.
    "loss = F.kl_div(F.log_softmax(student(x) / 2, 1), teacher(x).softmax(1).detach(), reduction='batchmean')",
)


@pytest.mark.parametrize("loss", (*OF_ONE_SIDE, *OF_THE_STUDENT))
def test_a_temperature_of_one_side_is_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + DISTILLATION.format(loss=loss) + TRAIN, "other_temperature", tmp_path)


@pytest.mark.parametrize("loss", OF_BOTH_SIDES)
def test_temperatures_of_both_none_and_sharpened_targets_are_right(loss: str, tmp_path: Path) -> None:
    assert causes(HEAD + DISTILLATION.format(loss=loss) + TRAIN, tmp_path) == set()


ACTOR_CRITIC = """
policy, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*policy.parameters(), *critic.parameters()], lr=0.1)
table = torch.randn(4, 3)
for step in range(3):
    states = torch.randn(16, 4)
    distribution = torch.distributions.Categorical(logits=policy(states))
    actions = distribution.sample()
    returns = (states @ table).gather(1, actions[:, None]).squeeze(1)
    value = critic(states).squeeze(1)
    score = distribution.log_prob(actions)
    {loss}
"""
REVERSED = (
    "advantage = value.detach() - returns  # HERE\n"
    "    loss = -(score * advantage).mean() + 0.5 * F.mse_loss(value, returns)",
    "advantage = (value - returns).detach()  # HERE\n"
    "    loss = F.smooth_l1_loss(value, returns) - (score * advantage).sum()",
    "with torch.no_grad():\n        a = value - returns  # HERE\n        a = (a - a.mean()) / (a.std() + 1e-8)\n"
    "    loss = (value - returns).pow(2).mean() - (a * score).mean()",
    "a = torch.sub(value, returns).detach()  # HERE\n"
    "    nll = F.cross_entropy(distribution.logits, actions, reduction='none')\n"
    "    loss = torch.dot(nll, a) / 16 + F.smooth_l1_loss(value, returns)",
    "nll = -score\n    a = -(returns - value.detach())  # HERE\n"
    "    loss = (nll * a).mean() + F.l1_loss(value, returns)",
    "gap = (value - returns).detach()  # HERE\n    a = F.layer_norm(gap, gap.shape)\n"
    "    loss = F.mse_loss(value, returns) - (a * score).mean()",
    "a = torch.add(value.detach(), returns, alpha=-1)  # HERE\n    off = value - returns\n"
    "    loss = off.dot(off) / 16 - torch.einsum('b,b->', score, a) / 16",
)
AS_MEANT = (
    "advantage = returns - value.detach()\n    loss = -(score * advantage).mean() + F.mse_loss(value, returns)",
    "a = (returns - value).detach()\n    nll = F.cross_entropy(distribution.logits, actions, reduction='none')\n"
    "    loss = torch.dot(nll, a) / 16 + F.smooth_l1_loss(value, returns)",
    "nll = -score\n    a = -(value.detach() - returns)\n    loss = (nll * a).mean() + F.l1_loss(value, returns)",
    "a = torch.add(value.detach(), returns, alpha=-1)\n    off = value - returns\n"
    "    loss = off.dot(off) / 16 + torch.einsum('b,b->', score, a) / 16",
    "regret = value.detach() - returns\n    loss = (score * regret).mean() + F.mse_loss(value, returns)",
    "advantage = returns - returns.mean()\n    loss = -(score * advantage).mean() + F.mse_loss(value, returns)",
)


@pytest.mark.parametrize("loss", REVERSED)
def test_a_value_minus_its_target_is_no_advantage(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + ACTOR_CRITIC.format(loss=loss) + TRAIN, "advantage_reversed", tmp_path)


@pytest.mark.parametrize("loss", AS_MEANT)
def test_advantages_and_regrets_with_their_signs_are_right(loss: str, tmp_path: Path) -> None:
    assert "advantage_reversed" not in causes(HEAD + ACTOR_CRITIC.format(loss=loss) + TRAIN, tmp_path)


POOLING = """
embed, head = nn.Embedding(9, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    real = torch.arange(7) < torch.randint(2, 8, (6, 1))
    h, mask = embed(torch.randint(0, 9, (6, 7))), real.float().unsqueeze(-1)
    {pooled}
    loss = F.cross_entropy(head(h), torch.randint(0, 2, (6,)))
"""


@pytest.mark.parametrize(
    "pooled",
    [
        "h = (h * mask).mean(dim=1)  # HERE",
        "h = h * real[:, :, None]\n    h = torch.mean(h, 1)  # HERE",
        "h *= mask\n    h = h.mean(-2)  # HERE",
        "h = torch.einsum('btd,btk->bd', h, mask) / h.size(1)  # HERE",
        "h = F.adaptive_avg_pool1d((h * mask).transpose(1, 2), 1).flatten(1)  # HERE",
        "h = h.mT.masked_fill(~real[:, None], 0.0)\n    h = nn.AvgPool1d(7)(h).squeeze(-1)  # HERE",
        "h = torch.where(real[:, None], h.permute(0, 2, 1), 0)\n    h = F.avg_pool1d(h, h.shape[-1])[..., 0]  # HERE",
        "h = (h * mask).movedim(1, 2).mean(-1)  # HERE",
    ],
)
def test_a_mean_that_counts_what_is_hidden_is_told(pooled: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + POOLING.format(pooled=pooled) + TRAIN, "mean_over_hidden", tmp_path)


@pytest.mark.parametrize(
    "pooled",
    [
        "h = (h * mask).sum(dim=1) / mask.sum(dim=1)",
        "h = h.mean(dim=1)",
        "h = (h * mask).mean(dim=1) * 7 / mask.sum(dim=1)",
        "h = (h * mask).mean(dim=1) / mask.mean(dim=1)",
        "h = (h * (torch.rand(6, 7, 1) < 0.9).float()).mean(dim=1)",
        "h = (h * torch.tensor([1.0, 0.0] * 4)).mean(dim=1)",
        "h = F.adaptive_avg_pool1d((h * mask).mT, 1).flatten(1) * 7 / mask.sum(dim=1)",
        "h = F.adaptive_avg_pool1d(h.mT, 1).flatten(1)",
        "h = F.avg_pool1d((h * mask).mT, 3).amax(-1)",
        "h = (h * mask).mT.mean(1) @ torch.ones(7, 8)",
    ],
)
def test_means_of_what_counts_and_random_masks_are_right(pooled: str, tmp_path: Path) -> None:
    assert "mean_over_hidden" not in causes(HEAD + POOLING.format(pooled=pooled) + TRAIN, tmp_path)


PICTURES = """
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pictures = torch.rand(12, 8, 10, 3)
{before}
for step in range(3):
    {batch}
    loss = F.cross_entropy(model(x), torch.randint(0, 2, (4,)))
"""


@pytest.mark.parametrize(
    ("before", "batch"),
    [
        ("", "x = pictures[step * 4 : step * 4 + 4].view(4, 3, 8, 10)  # HERE"),
        ("pictures = pictures.reshape(12, 3, 8, 10) - 0.5  # HERE", "x = pictures[step * 4 : step * 4 + 4]"),
    ],
)
def test_pictures_that_are_viewed_as_channels_are_told(before: str, batch: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PICTURES.format(before=before, batch=batch) + TRAIN, "axes_mixed_up", tmp_path)


@pytest.mark.parametrize(
    ("before", "batch"),
    [
        ("", "x = pictures[step * 4 : step * 4 + 4].permute(0, 3, 1, 2)"),
        ("pictures = torch.rand(12, 240)", "x = pictures[step * 4 : step * 4 + 4].view(4, 3, 8, 10)"),
        ("pictures = torch.rand(12, 8, 8, 8)[..., :3]", "x = pictures[:4].permute(0, 3, 1, 2).contiguous()"),
    ],
)
def test_pictures_whose_axes_are_exchanged_are_right(before: str, batch: str, tmp_path: Path) -> None:
    assert "axes_mixed_up" not in causes(HEAD + PICTURES.format(before=before, batch=batch) + TRAIN, tmp_path)
