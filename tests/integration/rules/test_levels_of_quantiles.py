"""Levels of quantiles along the targets of a loss of all pairs."""

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
