"""Values of each sample that broadcasting spreads along the time, which is as long as the batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

NETWORK = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(8, 8), nn.Linear(3, 3)
        self.gate, self.embed = nn.Linear(3, 3), nn.Embedding(20, 3)
        self.place = nn.Parameter(torch.randn(8, 3))

    def forward(self, x):
        {forward}

torch.manual_seed(1)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(3):
    x, y = {data}
    loss = F.mse_loss(net(x), y)
"""
SERIES = "torch.randn(8, 8, 3), torch.randn(8, 8, 3)"
TOKENS = "torch.randint(1, 20, (8, 8)), torch.randn(8, 8, 3)"
FAULTY = (
    ("mean = x.mean(1)  # HERE\n        return self.head(x - mean) + mean[:, None]", SERIES),
    (
        "mean = x.mean(dim=1, keepdim=True).detach()\n"
        "        std = torch.sqrt(x.var(1, unbiased=False) + 1e-5)  # HERE\n"
        "        return self.mix(((x - mean) / std).transpose(1, 2)).transpose(1, 2)",
        SERIES,
    ),
    # The last value, put back behind a network that mixes the times.
    (
        "last = x[:, -1]  # HERE\n        z = self.mix((x - x[:, -1:]).permute(0, 2, 1)).permute(0, 2, 1)\n"
        "        return self.head(z) + last",
        SERIES,
    ),
    ("gate = torch.sigmoid(self.gate(x.mean(1)))\n        return self.head(x) * gate  # HERE", SERIES),
    (
        "h = self.embed(x)\n        scores = h @ h.transpose(1, 2)\n"
        "        scores = scores.masked_fill(x < 5, -1e9)  # HERE\n        return self.head(scores.softmax(-1) @ h)",
        TOKENS,
    ),
    (
        "h = self.embed(x)\n        weight = torch.softmax(self.gate(h)[..., 0], dim=1)\n"
        "        summary = torch.einsum('bt,btc->bc', weight, h)\n        return self.head(h + summary)  # HERE",
        TOKENS,
    ),
)
HEALTHY = (
    ("return self.head(x - x.mean(1, keepdim=True))", SERIES),
    ("mean, std = x.mean(1), x.std(1)\n        return self.head((x - mean[:, None]) / std.unsqueeze(1))", SERIES),
    # One mean for each time, and places that are added to each sample.
    ("return self.head(x - x.mean(0) + self.place)", SERIES),
    ("return self.head(self.embed(x) + self.embed(torch.arange(8)))", TOKENS),
    # The batch is the second axis.
    ("return self.head(x - x.mean(0)) + x[-1]", SERIES),
    # All pairs of samples, with what belongs to the second one.
    (
        "z = self.head(x[:, 0])\n        pairs = z[:, None] - z[None]\n        return (pairs + z) * z.std(0)",
        SERIES,
    ),
    ("h = self.embed(x)\n        hidden = (x < 5)[:, None]\n        scores = h @ h.transpose(1, 2)\n"
     "        return self.head(scores.masked_fill(hidden, -1e9).softmax(-1) @ h)", TOKENS),
    # A hidden future.
    ("h = self.head(x)\n        hidden = torch.ones(8, 8).triu(1).bool()\n"
     "        return (h @ h.transpose(1, 2)).masked_fill(hidden, -1e9).softmax(-1) @ h", SERIES),
)  # fmt: skip


@pytest.mark.parametrize(("forward", "data"), FAULTY)
def test_values_of_samples_along_the_time_are_told(forward: str, data: str, tmp_path: Path) -> None:
    script = HEAD + NETWORK.format(forward=forward, data=data) + TRAIN
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [each for each in alarms(script, tmp_path) if each.cause == "samples_meet_times"]
    assert [each.location and each.location.line for each in found] == [here]


@pytest.mark.parametrize(("forward", "data"), HEALTHY)
def test_values_along_their_own_axis_are_left_alone(forward: str, data: str, tmp_path: Path) -> None:
    found = alarms(HEAD + NETWORK.format(forward=forward, data=data) + TRAIN, tmp_path)
    assert "samples_meet_times" not in [each.cause for each in found]


def test_times_in_front_are_left_alone(tmp_path: Path) -> None:
    script = """
net, head = nn.GRU(3, 3), nn.Linear(3, 3)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.05)
for step in range(3):
    x = torch.randn(8, 8, 3)
    states, last = net(x)
    loss = (head(states * last[-1]) + states.mean(0) - x).square().mean()
"""
    assert "samples_meet_times" not in [each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)]
