"""Gradient reversals that more than the adversary's error passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ADVERSARY = """
class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.factor * gradient, None

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.task, self.domain = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 2)

    def forward(self, x):
        h = torch.relu(self.features(x))
        {forward}

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x, y, where_from = torch.randn(12, 4), torch.randint(3, (12,)), torch.randint(2, (12,))
    scores, judged = net(x)
    loss = {loss}
"""
BOTH = "F.cross_entropy(scores, y) + F.cross_entropy(judged, where_from)"
FOR_ALL = (
    ("h.register_hook(lambda g: -0.3 * g)  # HERE\n        return self.task(h), self.domain(h)", BOTH),
    ("h = Reversal.apply(h, 0.5)  # HERE\n        return self.task(h), self.domain(h)", BOTH),
    (
        "h = Reversal.apply(h, 1.0)  # HERE\n        return self.task(h), self.domain(h)",
        "F.nll_loss(scores.log_softmax(1), y) + 0.2 * (judged[:, 0] - where_from).square().mean()",
    ),
)
FOR_THE_ADVERSARY = (
    ("turned = Reversal.apply(h, 0.5)\n        return self.task(h), self.domain(turned)", BOTH),
    (
        "turned = h.view_as(h)\n        turned.register_hook(lambda g: -g)\n"
        "        return self.task(h), self.domain(turned)",
        BOTH,
    ),
    # An encoder that is only to forget: it has no task.
    (
        "h = Reversal.apply(h, 1.0)\n        return self.task(x.repeat(1, 2)), self.domain(h)",
        "F.cross_entropy(judged, where_from) + F.cross_entropy(scores, y)",
    ),
    # Two adversaries behind one reversal, beside a task that does not pass it.
    (
        "turned = Reversal.apply(h, 0.5)\n        return self.task(h), (self.domain(turned), self.task(turned))",
        "F.cross_entropy(scores, y) + F.cross_entropy(judged[0], where_from) + 0.1 * judged[1].square().mean()",
    ),
)


@pytest.mark.parametrize(("forward", "loss"), FOR_ALL)
def test_a_reversal_that_the_task_passes_too_is_told(forward: str, loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + ADVERSARY.format(forward=forward, loss=loss) + TRAIN, "reversed_for_all", tmp_path)


@pytest.mark.parametrize(("forward", "loss"), FOR_THE_ADVERSARY)
def test_a_reversal_for_the_adversary_alone_is_no_finding(forward: str, loss: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + ADVERSARY.format(forward=forward, loss=loss) + TRAIN, tmp_path)
