"""Margins that nothing cuts off, networks that only have to agree with themselves, residual connections without their
input, and factors of a schedule that are learning rates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


TRIPLETS = """
encoder, scorer = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *scorer.parameters()], lr=0.01)
labels, margin = torch.tensor([1.0, -1.0] * 4), torch.tensor(0.3)
for step in range(3):
    a, p, n = (encoder(torch.randn(8, 6)) for _ in range(3))
    {loss}
"""
WITHOUT_CLAMP = (
    "loss = (F.pairwise_distance(a, p) - F.pairwise_distance(a, n) + 0.5).mean()  # HERE",
    "gap = 0.2 + (a - p).norm(dim=1) - (a - n).norm(dim=1)  # HERE\n    loss = gap.mean()",
    "near, far = (a - p).square().sum(1), (a - n).square().sum(1)\n    loss = ((near - far) + 1.0).sum() / 8  # HERE",
    "loss = torch.mean(1 - labels * a[:, 0])  # HERE",
    "loss = torch.add(torch.linalg.vecdot(a, n) - torch.linalg.vecdot(a, p), 0.3).mean()  # HERE",
    "good, bad = torch.einsum('nd,nd->n', a, p), torch.einsum('nd,nd->n', a, n)\n"
    "    loss = (bad - (good - margin)).mean()  # HERE",
    "loss = torch.sub((a * n).sum(1), (a * p).sum(1)).add_(margin).mean()  # HERE",
    "loss = (scorer(n) - scorer(p) + 0.4).mean()  # HERE",
    "loss = (torch.bmm(a[:, None], n[..., None]) - torch.bmm(a[:, None], p[..., None])).add(0.4).mean()  # HERE",
)
CUT_OFF = (
    "loss = (F.pairwise_distance(a, p) - F.pairwise_distance(a, n) + 0.5).relu().mean()",
    "loss = torch.clamp((a - p).norm(dim=1) - (a - n).norm(dim=1) + 0.2, min=0).mean()",
    "loss = F.softplus((a - p).norm(dim=1) - (a - n).norm(dim=1) + 0.2).mean()",
    "loss = F.triplet_margin_loss(a, p, n)",
    "loss = (1 - labels * a[:, 0]).clamp(min=0).mean()",
    "loss = (1 - F.cosine_similarity(a, p.detach())).mean()",
    "loss = (a - p.detach()).square().mean() + 1.0",
    "loss = a.mean() - p.mean() + 0.1 * a.square().mean()",
    "loss = torch.add(torch.linalg.vecdot(a, n) - torch.linalg.vecdot(a, p), 0.3).relu().mean()",
    "good, bad = (a * p).sum(1), (a * n).sum(1)\n    loss = F.relu(bad - (good - margin)).mean()",
    "loss = (scorer(n) - scorer(p) + 1e-8).mean() + a.square().mean()",
    "loss = 0.5 * (1 + scorer(a) - scorer(p) - scorer(a).exp() / scorer(p).exp()).mul(-1).mean()",
    "base = p.detach().norm()\n    loss = ((a - p).norm(dim=1) - (a - n).norm(dim=1) + base).mean()",
)


@pytest.mark.parametrize("loss", WITHOUT_CLAMP)
def test_a_margin_that_nothing_cuts_off_is_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + TRIPLETS.format(loss=loss) + TRAIN, "margin_without_clamp", tmp_path)


@pytest.mark.parametrize("loss", CUT_OFF)
def test_what_is_cut_off_or_has_no_margin_is_right(loss: str, tmp_path: Path) -> None:
    assert "margin_without_clamp" not in causes(HEAD + TRIPLETS.format(loss=loss) + TRAIN, tmp_path)


VIEWS = """
encoder, predictor = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), nn.Linear(3, 3)
optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.01)
def apart(p, z):
    return -F.cosine_similarity(p, z, dim=1).mean(){mark}
for step in range(3):
    x = torch.randn(8, 6)
    a, b = encoder(x + 0.1 * torch.randn(8, 6)), encoder(x + 0.1 * torch.randn(8, 6))
    {loss}
"""
COLLAPSES = (
    "loss = apart(predictor(a), b) / 2 + apart(predictor(b), a) / 2",
    "loss = F.mse_loss(a, b)  # HERE",
    "loss = (predictor(a) - b).pow(2).sum(dim=1).mean()  # HERE",
    "a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)\n    loss = -(a * b).sum(1).mean()  # HERE",
    "loss = torch.stack([a, b]).var(dim=0, correction=0).sum(1).mean()  # HERE",
    "z = predictor(torch.cat([a, b])).unflatten(0, (2, 8))\n    loss = z.std(0).mean()  # HERE",
    "loss = torch.cdist(a, b).mean()  # HERE",
    "loss = torch.stack([a, b], 1).sub(torch.stack([a, b], 1).mean(1, keepdim=True)).square().mean()  # HERE",
)
KEPT_APART = (
    "loss = apart(predictor(a), b.detach()) / 2 + apart(predictor(b), a.detach()) / 2",
    "loss = F.mse_loss(a, b) + F.relu(1 - a.std(0)).mean()",
    "loss = F.mse_loss(a, b) - 0.1 * F.mse_loss(a, b.roll(1, 0))",
    "loss = F.mse_loss(a, b) + F.cross_entropy(predictor(a), torch.randint(0, 3, (8,)))",
    "loss = F.mse_loss(a, torch.rand(8, 3) + 0.9 * b)",
    "loss = F.mse_loss(predictor(a), x[:, :3])",
    "loss = torch.stack([a, b]).var(0).mean() + F.relu(1 - a.std(0)).mean()",
    "loss = torch.stack([a, b]).var(0).mean() - 0.1 * a.var(0).mean()",
    "loss = torch.stack([(each - x[:, :3]).square().mean() for each in (a, b)]).var(0)",
    "loss = -F.pdist(a).mean()",
)


@pytest.mark.parametrize("loss", COLLAPSES)
def test_a_loss_that_one_constant_makes_perfect_is_told(loss: str, tmp_path: Path) -> None:
    script = VIEWS.format(loss=loss, mark="" if "HERE" in loss else "  # HERE")
    assert_first_alarm(HEAD + script + TRAIN, "nothing_keeps_apart", tmp_path)


@pytest.mark.parametrize("loss", KEPT_APART)
def test_something_that_keeps_results_apart_or_still_is_right(loss: str, tmp_path: Path) -> None:
    assert "nothing_keeps_apart" not in causes(HEAD + VIEWS.format(loss=loss, mark="") + TRAIN, tmp_path)


def test_a_residual_of_an_equation_is_no_similarity(tmp_path: Path) -> None:
    script = """
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    t = torch.rand(8, 1).requires_grad_()
    u = 1 + t * model(t)
    du, = torch.autograd.grad(u.sum(), t, create_graph=True)
    loss = F.mse_loss(du, -u)
"""
    assert "nothing_keeps_apart" not in causes(HEAD + script + TRAIN, tmp_path)


BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        {forward}
model = nn.Sequential(Block(), Block(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = (model(torch.randn(8, 4)) - torch.randn(8, 1)).square().mean()
"""


@pytest.mark.parametrize(
    "add",
    [
        "return F.relu(x + x)",
        "x += x",
        "return torch.add(x, x)",
        "return torch._foreach_add([x], [x])[0]",
        "return torch.stack([x, x]).sum(0)",
        "return sum([x, x])",
    ],
)
def test_a_residual_connection_without_its_input_is_told(add: str, tmp_path: Path) -> None:
    forward = f"x = F.relu(self.first(x))\n        x = self.second(x)\n        {add}  # HERE\n        return x"
    assert_first_alarm(HEAD + BLOCK.format(forward=forward) + TRAIN, "added_to_itself", tmp_path)


@pytest.mark.parametrize(
    "forward",
    [
        "return x + self.second(F.relu(self.first(x)))",
        "x = x + self.first(x)\n        return x + self.second(x)",
        "h = self.second(F.relu(self.first(x)))\n        return 2 * h + x * x",
        "x = self.first(x)\n        return torch.cat([x, x], dim=1)[:, :4] + self.second(x)",
        "return torch._foreach_add([x, x], [self.second(x), self.first(x)])[0]",
        "h = self.first(x)\n        return torch.stack([h, self.second(h)]).sum(0) + sum([h])",
        "h = self.first(x)\n        return x + torch.stack([h, h]).sum(1).mean()",
    ],
)
def test_sums_with_the_input_and_doubled_results_are_right(forward: str, tmp_path: Path) -> None:
    assert "added_to_itself" not in causes(HEAD + BLOCK.format(forward=forward) + TRAIN, tmp_path)


SCHEDULE = """
import math
model, rate = nn.Linear(4, 1), 1e-3
optimizer = torch.optim.Adam(model.parameters(), lr=rate)
schedule = torch.optim.lr_scheduler.{schedule}  # HERE
for step in range(5):
    loss = (model(torch.randn(8, 4)) - torch.randn(8, 1)).square().mean()
"""
STEP = TRAIN + "    schedule.step()\n"


@pytest.mark.parametrize(
    "factor",
    [
        "rate * 0.95**n",
        "max(1e-3, 1e-9 * n)",
        "rate * (n + 1) / 3 if n < 3 else rate * 0.9 ** (n - 2)",
        "min(1, n / 2) * 1e-3",
        "rate * math.sin(math.pi * (n + 0.51) / 5)",
    ],
)
def test_a_factor_that_is_the_learning_rate_makes_its_square(factor: str, tmp_path: Path) -> None:
    schedule = f"LambdaLR(optimizer, lambda n: {factor})"
    assert_first_alarm(HEAD + SCHEDULE.format(schedule=schedule) + STEP, "rate_multiplied_twice", tmp_path)


@pytest.mark.parametrize(
    "schedule",
    [
        "LambdaLR(optimizer, lambda n: 0.95**n)",
        "LambdaLR(optimizer, lambda n: min(1, (n + 1) / 100))",
        "LambdaLR(optimizer, lambda n: min(1, (n + 1) / 1000))",
        "LambdaLR(optimizer, lambda n: min(1, n / 5000))",
        "LambdaLR(optimizer, lambda n: min(n / 2, 0.5 * 0.9**n))",
        "LambdaLR(optimizer, lambda n: rate * min(1.0, (n + 1) / 7))",
        "SequentialLR(optimizer, [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: (n + 1) / 3), "
        "torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)], [2])",
        "StepLR(optimizer, 2)",
        "ExponentialLR(optimizer, 0.9)",
        "MultiplicativeLR(optimizer, lambda n: 0.9)",
    ],
)
def test_factors_of_one_and_warm_ups_are_right(schedule: str, tmp_path: Path) -> None:
    assert "rate_multiplied_twice" not in causes(HEAD + SCHEDULE.format(schedule=schedule) + STEP, tmp_path)


CLASSES = """
embed, centres = nn.Linear(8, 6), nn.Parameter(torch.randn(5, 6))
optimizer = torch.optim.SGD([*embed.parameters(), centres], lr=0.1)
for step in range(3):
    x, y = torch.randn(32, 8), torch.randint(0, 5, (32,))
    cos = F.linear(F.normalize(embed(x)), F.normalize(centres)).clamp(-0.999, 0.999)
    {loss}
"""
IN_FAVOUR = (
    "loss = F.cross_entropy(16 * (cos + 0.3 * F.one_hot(y, 5)), y)  # HERE",
    "margin = torch.zeros_like(cos).scatter_(1, y[:, None], 0.35)\n"
    "    loss = F.cross_entropy((cos + margin) * 30, y)  # HERE",
    "right = torch.cos(torch.acos(cos) - 0.5)  # HERE\n"
    "    loss = F.cross_entropy(30 * torch.where(F.one_hot(y, 5).bool(), right, cos), y)",
    "hot = F.one_hot(y, 5).float()\n    right = (cos.acos() - 0.4).cos()  # HERE\n"
    "    loss = F.cross_entropy(30 * (hot * right + (1 - hot) * cos), y)",
    "own = cos.gather(1, y[:, None])\n    sin = (1 - own.square()).sqrt()\n"
    "    larger = own * 0.92 + sin * 0.39  # HERE\n"
    "    loss = F.cross_entropy(16 * cos.scatter(1, y[:, None], larger), y)",
    "rows = torch.arange(32)\n    larger = torch.cos(cos[rows, y].acos() - 0.5)  # HERE\n    scores = cos.clone()\n"
    "    scores[rows, y] = larger\n    loss = F.cross_entropy(16 * scores, y)",
    "own = torch.take_along_dim(cos, y.unsqueeze(1), 1)\n    larger = torch.add(own, 0.3)  # HERE\n"
    "    loss = F.cross_entropy(torch.mul(cos.clone().scatter_(1, y.unsqueeze(1), larger), 16), y)",
    "rows = torch.arange(32)\n    larger = cos[rows, y].acos().sub(0.4).cos()  # HERE\n"
    "    loss = F.cross_entropy(16 * cos.index_put((rows, y), larger), y)",
)
AGAINST = (
    "loss = F.cross_entropy(16 * (cos - 0.3 * F.one_hot(y, 5)), y)",
    "margin = torch.zeros_like(cos).scatter_(1, y[:, None], -0.35)\n    loss = F.cross_entropy((cos + margin) * 30, y)",
    "right = torch.cos(torch.acos(cos) + 0.5)\n"
    "    loss = F.cross_entropy(30 * torch.where(F.one_hot(y, 5).bool(), right, cos), y)",
    "hot = F.one_hot(y, 5).float()\n    right = (cos.acos() + 0.4).cos()\n"
    "    loss = F.cross_entropy(30 * (hot * right + (1 - hot) * cos), y)",
    "own = cos.gather(1, y[:, None])\n    smaller = own * 0.92 - (1 - own.square()).sqrt() * 0.39\n"
    "    loss = F.cross_entropy(16 * cos.scatter(1, y[:, None], smaller), y)",
    "rows = torch.arange(32)\n    scores = cos.clone()\n    scores[rows, y] = cos[rows, y] - 0.3\n"
    "    loss = F.cross_entropy(16 * scores, y)",
    # Scores of another class than the right one are raised.
    "other = ((y + 1) % 5)[:, None]\n    larger = cos.gather(1, other) + 0.3\n"
    "    loss = F.cross_entropy(16 * cos.scatter(1, other, larger), y)",
    # The frequencies of classes, for all samples alike.
    "loss = F.cross_entropy(8 * cos + torch.tensor([0.5, 0.2, 0.1, 0.1, 0.1]).log(), y)",
)


@pytest.mark.parametrize("loss", IN_FAVOUR)
def test_a_margin_in_favour_of_the_right_class_is_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + CLASSES.format(loss=loss) + TRAIN, "margin_in_favour", tmp_path)


@pytest.mark.parametrize("loss", AGAINST)
def test_a_margin_against_the_right_class_is_no_finding(loss: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + CLASSES.format(loss=loss) + TRAIN, tmp_path)
