"""Inputs that are mixed with other samples, and what becomes of their targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FIT = (
    HEAD + "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))\n"
    "optimizer = torch.optim.SGD(net.parameters(), 0.05)\ndata = torch.randn(160, 4)\nlabels = data[:, :3].argmax(1)\n"
    "for x, y in zip(data.split(32), labels.split(32)):\n{}" + TRAIN
)
MIX = (
    "    share = {}\n    order = torch.randperm(len(x))\n    mixed = share * x + (1 - share) * x[order]\n"
    "    out = net(mixed)\n    loss = {}"
)
BETA = "torch.distributions.Beta(0.4, 0.4).sample()"
BOTH = "share * F.cross_entropy(out, y) + (1 - share) * F.cross_entropy(out, y[order])"
SOFT = "F.cross_entropy(out, share * one_hot + (1 - share) * one_hot[order])"
FAULTS = {
    "labels of the first sample only": FIT.format(MIX.format(BETA, "F.cross_entropy(out, y)  # HERE")),
    "a number for each sample": FIT.format(
        MIX.format("torch.rand(len(x), 1)", "F.cross_entropy(out, y)  # HERE")
    ),
    "a Python number": FIT.format(MIX.format("float(torch.rand(()))", "F.cross_entropy(out, y)  # HERE")),
    "numbers of the losses exchanged": FIT.format(
        MIX.format(BETA, "(1 - share) * F.cross_entropy(out, y) + share * F.cross_entropy(out, y[order])  # HERE")
    ),
    "numbers of the targets exchanged": FIT.format(
        "    one_hot = F.one_hot(y, 3).float()\n"
        + MIX.format(BETA, "F.cross_entropy(out, (1 - share) * one_hot + share * one_hot[order])  # HERE")
    ),
}  # fmt: skip
HEALTHY = {
    "both losses": FIT.format(MIX.format(BETA, BOTH)),
    "mixed targets": FIT.format("    one_hot = F.one_hot(y, 3).float()\n" + MIX.format(BETA, SOFT)),
    "a little of another sample": FIT.format(MIX.format("0.9", "F.cross_entropy(out, y)")),
    "a reconstruction of what is behind the mix": FIT.format(MIX.format("0.5", "F.mse_loss(out, x[:, :3])")),
    "predictions of the mix that should be mixed": FIT.format(
        "    first = net(x).softmax(1).detach()\n"
        + MIX.format(BETA, "F.cross_entropy(out, share * first + (1 - share) * first[order])")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_of_the_loss_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTS[name], "labels_mixed_otherwise", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_mixes_with_their_targets_are_no_alarms(name: str, tmp_path: Path) -> None:
    assert alarms(HEALTHY[name], tmp_path) == []
