"""``autograd.grad()`` for what the loss was not computed from."""

from __future__ import annotations

from pathlib import Path

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ADAPTED = (
    HEAD
    + """
from torch.func import functional_call
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.value, self.size = nn.Linear(1, 8), nn.Linear(8, 1), nn.Linear(8, 1)
    def forward(self, x):
        h = self.body(x).tanh()
        RESULTS
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(12, 1)
    y = 2 * x.sin()
    inner = dict(net.named_parameters())
    guess, *_ = functional_call(net, inner, (x,))
    grads = torch.autograd.grad(F.mse_loss(guess, y), tuple(inner.values()), create_graph=True)  # GRAD
    inner = {name: p - 0.01 * g for (name, p), g in zip(inner.items(), grads)}
    guess, size = functional_call(net, inner, (x,))
    loss = F.mse_loss(guess, y) + (size - 2).square().mean()
"""
    + TRAIN
)


def test_a_head_that_another_loss_needs_is_told_where_its_gradient_is_asked_for(tmp_path: Path) -> None:
    script = ADAPTED.replace("RESULTS", "return self.value(h), self.size(h.mean(0))").replace("# GRAD", "# HERE")
    assert_first_alarm(script, "unused_parameter", tmp_path)
    (told,) = alarms(script, tmp_path)
    assert "net.size.weight and net.size.bias" in told.message
    assert "allow_unused=True" in (told.fix or "")


def test_a_result_that_forward_leaves_out_is_told_where_it_is_computed(tmp_path: Path) -> None:
    lines = "size = self.size(h.mean(0))  # HERE\n        return self.value(h), h"
    assert_first_alarm(ADAPTED.replace("RESULTS", lines), "unused_parameter", tmp_path)
