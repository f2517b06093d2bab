"""Copies from before the training that are scored as if they were trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FIT = (
    HEAD + "from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn\n"
    "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))\n{}"
    "optimizer = torch.optim.SGD(net.parameters(), 0.05)\nheld_out = torch.randn(16, 4)\n"
    "def score(model):\n    with torch.no_grad():\n        return F.mse_loss(model(held_out), held_out[:, :1]).item()\n"
    "for step in range(6):\n    x = torch.randn(32, 4)\n    loss = F.mse_loss(net(x), x[:, :1])" + TRAIN + "{}"
)
OWN_AVERAGE = """class Average:
    def __init__(self, model):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)  # HERE
    def update(self, model):
        for kept, new in zip(self.model.parameters(), model.parameters()):
            kept.lerp_(new.detach(), 0.1)
average = Average(net)
"""
FAULTS = {
    "AveragedModel that is never told to average": FIT.format(
        "average = AveragedModel(net)  # HERE\n", "    print(score(average))\n"
    ),
    "an average of one's own": FIT.format(OWN_AVERAGE, "print(score(average.model))\n"),
    "a copy for the evaluation": FIT.format("best = copy.deepcopy(net)  # HERE\n", "print(score(best))\n"),
}
HEALTHY = {
    "an average that follows": FIT.format(
        "average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))\n",
        "    average.update_parameters(net)\n    print(score(average))\n",
    ),
    "an average of one's own that follows": FIT.format(
        OWN_AVERAGE, "    average.update(net)\n    print(score(average.model))\n"
    ),
    "the score of the start beside that of the end": FIT.format(
        "start = copy.deepcopy(net)\n", "print(score(start), score(net))\n"
    ),
    "a copy that is loaded later": FIT.format(
        "best = copy.deepcopy(net)\n", "best.load_state_dict(net.state_dict())\nprint(score(best))\n"
    ),
    "a fixed model to stay close to": FIT.format("start = copy.deepcopy(net)\n", "").replace(
        "x[:, :1])\n    optimizer",
        "x[:, :1]) + 0.01 * F.mse_loss(net(x), start(x).detach())\n    optimizer",
    ) + "print(score(start), score(net))\n",
    "how far the results have moved from the start": FIT.format("start = copy.deepcopy(net)\n", "").replace(
        "F.mse_loss(net(x), x[:, :1])", "F.mse_loss(result := net(x), x[:, :1])"
    ) + "    with torch.no_grad():\n        print((result.detach() - start(x)).abs().mean())\n",
    "random features that are meant": FIT.format(
        "other = nn.Linear(4, 1)\n", "print(score(net), score(other))\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_that_makes_the_copy_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTS[name], "copy_never_updated", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_copies_that_follow_or_that_are_compared_are_no_alarms(name: str, tmp_path: Path) -> None:
    assert alarms(HEALTHY[name], tmp_path) == []
