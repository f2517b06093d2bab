"""Levels of quantiles along the targets of a loss: of all pairs, and of several quantiles for each of several days."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

NETWORK = """
net, slow = nn.Linear(4, 6), nn.Linear(4, 6)
slow.load_state_dict(net.state_dict())
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
tau = (torch.arange(6) + 0.5) / 6
for step in range(3):
    x, reward = torch.randn(10, 4), torch.rand(10, 1)
    now, level = net(x), torch.rand(10, 6) * 0.98 + 0.01
    with torch.no_grad():
        then = reward + 0.9 * slow(torch.randn(10, 4))
    {loss}
"""
ROWS = "e = then.unsqueeze(1) - now.unsqueeze(2)\n    "
COLUMNS = "e = then.unsqueeze(2) - now.unsqueeze(1)\n    "
HUBER = "h = torch.where(e.abs() <= 1, 0.5 * e.pow(2), e.abs() - 0.5)\n    "
FAULTY = (
    ROWS + HUBER + "w = torch.abs(tau - (e.detach() < 0).float())  # HERE\n    loss = (w * h).mean(2).sum(1).mean()",
    ROWS + HUBER + "w = (tau.view(1, 1, -1) - e.lt(0).to(e.dtype)).abs()  # HERE\n    loss = (w * h).sum(-1).mean()",
    COLUMNS + HUBER + "w = (tau[None, :, None] - (e < 0).float()).abs()  # HERE\n    loss = (w * h).sum(1).mean()",
    ROWS + "w = torch.where(e < 0, 1 - tau, tau)  # HERE\n    loss = (w.detach() * e.abs()).mean(2).sum(1).mean()",
    ROWS + "loss = torch.maximum(tau * e, (tau - 1) * e).mean(2).sum(1).mean()  # HERE",
    # Levels that were drawn for each sample.
    "e = then[:, None] - now[..., None]\n    h = F.smooth_l1_loss(e, torch.zeros_like(e), reduction='none')\n"
    "    w = (level[:, None] - (e < 0).float()).abs()  # HERE\n    loss = (w * h).mean(2).sum(1).mean()",
    "one, other = then[:, None].expand(-1, 6, -1), now[:, :, None].expand(-1, -1, 6)\n    e = one - other\n"
    "    w = (tau - (e.detach() < 0).float()).abs()  # HERE\n    loss = (w * e.abs()).mean(2).sum(1).mean()",
)
HEALTHY = (
    ROWS + HUBER + "w = torch.abs(tau[:, None] - (e.detach() < 0).float())\n    loss = (w * h).mean(2).sum(1).mean()",
    COLUMNS + HUBER + "w = torch.abs(tau - (e.detach() < 0).float())\n    loss = (w * h).mean(1).sum(1).mean()",
    COLUMNS + "loss = torch.maximum(tau * e, (tau - 1) * e).mean(1).sum(1).mean()",
    "e = now[:, None] - then[..., None]\n    w = torch.where(e > 0, 1 - level[:, None], level[:, None])\n"
    "    loss = (w * e.abs()).mean(1).sum(1).mean()",
    # One target for each sample.
    "e = then[:, :1] - now\n    loss = torch.maximum(tau * e, (tau - 1) * e).sum(1).mean()",
    # Weights of the targets, of which no sign is subtracted.
    ROWS + "share = tau / tau.sum()\n    loss = (share * e.abs()).sum(2).mean()",
)


@pytest.mark.parametrize("loss", FAULTY)
def test_levels_along_the_targets_are_told(loss: str, tmp_path: Path) -> None:
    script = HEAD + NETWORK.format(loss=loss) + TRAIN
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [each for each in alarms(script, tmp_path) if each.cause == "levels_along_targets"]
    assert [each.location and each.location.line for each in found] == [here]


@pytest.mark.parametrize("loss", HEALTHY)
def test_levels_along_the_predictions_are_left_alone(loss: str, tmp_path: Path) -> None:
    found = alarms(HEAD + NETWORK.format(loss=loss) + TRAIN, tmp_path)
    assert "levels_along_targets" not in [each.cause for each in found]


MAPPED = """
def of_one(now, then):
    {errors}
    {weights}
    return (w * e.abs()).mean({targets}).sum()
loss = torch.func.vmap(of_one)(now, then).mean()"""
LOWER = "w = torch.where(e.detach() < 0, 1 - tau{view}, tau{view})"
TARGET_FIRST = {"errors": "e = then[None, :] - now[:, None]", "targets": 1}
TARGET_LAST = {"errors": "e = now[:, None] - then[None, :]", "targets": 1}
IN_COLUMNS = {"errors": "e = then[:, None] - now[None, :]", "targets": 0}


@pytest.mark.parametrize(
    ("errors", "weights", "is_right"),
    [
        (TARGET_FIRST, LOWER.format(view=""), False),
        (TARGET_FIRST, "w = (tau - (e < 0).float()).abs()", False),
        (TARGET_LAST, "w = torch.where(e > 0, 1 - tau, tau)", False),
        (IN_COLUMNS, LOWER.format(view="[:, None]"), False),
        (TARGET_FIRST, LOWER.format(view="[:, None]"), True),
        (TARGET_FIRST, "w = (tau[:, None] - (e < 0).float()).abs()", True),
        (TARGET_LAST, "w = (tau[:, None] - e.gt(0).float()).abs()", True),
        (IN_COLUMNS, LOWER.format(view=""), True),
    ],
)
def test_levels_inside_of_vmap(errors: dict[str, str], weights: str, is_right: bool, tmp_path: Path) -> None:
    mapped = MAPPED.format(**errors, weights=f"{weights}  # HERE").replace("\n", "\n    ")
    script = HEAD + NETWORK.format(loss=mapped) + TRAIN
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [each for each in alarms(script, tmp_path) if each.cause == "levels_along_targets"]
    assert [each.location and each.location.line for each in found] == ([] if is_right else [here])


FORECASTS = """
{model}
tau, days = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9]), torch.arange(5.0)
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    x = torch.randn(12, 6)
    y = x[:, :1] + days + 0.1 * torch.randn(12, 5)
    {loss}
"""
LAYER = "model = nn.Sequential(nn.Linear(6, 25), nn.Unflatten(1, (5, 5)))"
LAYERS = "model = nn.ModuleList(nn.Linear(6, 5) for _ in range(5))"
MEMBERS = "w = nn.Parameter(torch.randn(5, 6, 5) / 9)\nmodel = nn.ParameterList([w])"
DECODER = "model = nn.ModuleList([nn.GRUCell(6, 8), nn.Linear(8, 5)])"
TURNS = (
    "h, turns = None, []\n    for _ in range(5):\n        h = model[0](x, h)\n        turns.append(model[1](h))\n"
    "    e = {}[:, None] - torch.stack(turns, 1)  # HERE\n    "
)
CROSSED = "e = y.unsqueeze(1) - model(x)  # HERE\n    "
STRAIGHT = "e = y.unsqueeze(-1) - model(x)\n    "
LARGER = "loss = torch.maximum(tau * e, (tau - 1) * e).mean()"
IN_ROWS = "q = tau[:, None]{}\n    loss = torch.maximum(q * e, (q - 1) * e).mean()"
SCORE = "\n    with torch.no_grad():\n        inside = (y >= model(x){}).float().mean()"
CROSSED_DAYS = {
    "the larger of two products": (LAYER, CROSSED + LARGER),
    "predictions minus targets": (
        LAYER,
        "e = model(x) - y[:, None]  # HERE\n    loss = torch.max((1 - tau) * e, -tau * e).mean()",
    ),
    "the larger one of a stack": (
        LAYER,
        CROSSED + "loss = torch.stack([tau * e, (tau - 1) * e]).max(0).values.mean()",
    ),
    "a condition, and targets that are expanded": (
        LAYER,
        "out = model(x)\n    e = y[:, None].expand_as(out) - out  # HERE\n"
        "    loss = (torch.where(e > 0, tau, 1 - tau) * e.abs()).mean()",
    ),
    "expectiles, and copies of the targets": (
        LAYER,
        "both = torch.stack([y] * 5, 1)\n    e = both - model(x)  # HERE\n"
        "    loss = ((tau - (e.detach() < 0).float()).abs() * e**2).mean()",
    ),
    "two parts": (LAYER, CROSSED + "loss = (tau * e.relu() + (1 - tau) * (-e).relu()).mean()"),
    "a tilted size": (LAYER, CROSSED + "loss = (e.abs() / 2 + (tau - 0.5) * e).mean()"),
    "levels that were drawn": (
        LAYER,
        CROSSED + "q = torch.rand(12, 1, 5) * 0.9 + 0.05\n    loss = torch.maximum(q * e, (q - 1) * e).mean()",
    ),
    "a layer for each level": (LAYERS, CROSSED.replace("model(x)", "torch.stack([f(x) for f in model], -1)") + LARGER),
    "a decoder": (DECODER, TURNS.format("y") + LARGER),
    "quantiles in rows, with targets in columns": (
        LAYER,
        "e = y[..., None] - model(x)  # HERE\n    " + IN_ROWS.format("") + SCORE.format("[:, 0]"),
    ),
    "quantiles in columns, with levels in rows": (
        LAYER,
        STRAIGHT + IN_ROWS.format("  # HERE") + SCORE.format("[..., 0]"),
    ),
    "quantiles in rows, with levels in columns": (
        LAYER,
        CROSSED.replace("  # HERE", "") + LARGER + "  # HERE" + SCORE.format("[:, 0]"),
    ),
}
STRAIGHT_DAYS = {
    "quantiles in columns": (LAYER, STRAIGHT + LARGER),
    "quantiles in rows": (LAYER, CROSSED + IN_ROWS.format("")),
    "two parts": (LAYER, STRAIGHT + "loss = (tau * e.relu() + (1 - tau) * (-e).relu()).mean()"),
    "targets that are repeated": (
        LAYER,
        "e = y.repeat_interleave(5, 1).view(12, 5, 5) - model(x)\n    " + LARGER,
    ),
    "a level for each of several products": (LAYERS, "e = y - model[0](x)\n    " + LARGER),
    "the same of members side by side": (
        LAYERS,
        CROSSED.replace("model(x)", "torch.stack([f(x) for f in model], 1)") + LARGER,
    ),
    "the same of members in one matrix": (
        MEMBERS,
        CROSSED.replace("model(x)", "torch.einsum('bi,mio->bmo', x, w)") + LARGER,
    ),
    "quantiles of a teacher": (
        "teacher = nn.Linear(6, 5)\n" + LAYER,
        "with torch.no_grad():\n        y = teacher(x)\n    " + CROSSED + LARGER,
    ),
    "days that count less": (LAYER, CROSSED + "loss = (0.9 ** (days + 1) * e.abs()).mean()"),
}


@pytest.mark.parametrize("name", CROSSED_DAYS)
def test_targets_along_the_levels_are_told(name: str, tmp_path: Path) -> None:
    model, loss = CROSSED_DAYS[name]
    script = HEAD + FORECASTS.format(model=model, loss=loss) + TRAIN
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [each for each in alarms(script, tmp_path) if each.cause == "levels_along_targets"]
    assert [each.location and each.location.line for each in found] == [here]


@pytest.mark.parametrize("name", STRAIGHT_DAYS)
def test_targets_that_all_levels_meet_are_left_alone(name: str, tmp_path: Path) -> None:
    model, loss = STRAIGHT_DAYS[name]
    found = alarms(HEAD + FORECASTS.format(model=model, loss=loss) + TRAIN, tmp_path)
    assert "levels_along_targets" not in [each.cause for each in found]


@pytest.mark.parametrize(
    ("targets", "levels", "read", "advice"),
    [
        ("y[:, None]", "tau", "[..., 0]", "put the targets along axis 1: target.unsqueeze(2)"),
        ("y[:, None]", "tau", "[:, 0]", "put the levels along axis 1: tau.view(1, -1, 1)"),
        ("y[..., None]", "tau[:, None]", "[:, 0]", "put the targets along axis 2: target.unsqueeze(1)"),
        ("y[..., None]", "tau[:, None]", "[:, :, 0]", "put the levels along axis 2: tau.view(1, 1, -1)"),
        ("y[..., None]", "tau[:, None]", ".select(2, 0)", "put the levels along axis 2: tau.view(1, 1, -1)"),
    ],
)
def test_the_advice_moves_what_the_score_contradicts(
    targets: str, levels: str, read: str, advice: str, tmp_path: Path
) -> None:
    loss = f"e, q = {targets} - model(x), {levels}\n    loss = torch.maximum(q * e, (q - 1) * e).mean()"
    script = HEAD + FORECASTS.format(model=LAYER, loss=loss + SCORE.format(read)) + TRAIN
    found = [each for each in alarms(script, tmp_path) if each.cause == "levels_along_targets"]
    assert [each.fix for each in found] == [advice]
