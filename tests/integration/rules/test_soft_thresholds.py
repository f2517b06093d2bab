"""Custom functions that take a sign and are smooth, and hooks that ask one graph again and again."""

from __future__ import annotations

from pathlib import Path

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

THRESHOLD = (
    HEAD
    + """
class Shrink(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, theta):
        kept = x.abs() > theta
        ctx.save_for_backward(x, kept)
        return torch.where(kept, x - theta * torch.sign(x), 0.0)

    @staticmethod
    def backward(ctx, grad):
        x, kept = ctx.saved_tensors
        passed = grad * kept
        return passed, SLOPE  # HERE

layer, theta = nn.Linear(4, 6), nn.Parameter(torch.full((6,), 0.1))
optimizer = torch.optim.SGD([*layer.parameters(), theta], lr=0.1)
for step in range(4):
    x = torch.randn(16, 4)
    loss = (Shrink.apply(layer(x), theta) - x[:, :1]).square().mean()
"""
    + TRAIN
)


def test_a_slope_without_the_sign_is_told(tmp_path: Path) -> None:
    assert_first_alarm(THRESHOLD.replace("SLOPE", "-passed.sum(0)"), "custom_function_wrong_backward", tmp_path)


def test_a_slope_with_the_sign_is_right(tmp_path: Path) -> None:
    assert not alarms(THRESHOLD.replace("SLOPE", "-(passed * torch.sign(x)).sum(0)"), tmp_path)


def test_the_estimate_of_a_sign_that_is_scaled_is_left_alone(tmp_path: Path) -> None:
    binary = (
        THRESHOLD.replace("torch.where(kept, x - theta * torch.sign(x), 0.0)", "torch.sign(x) * x.abs().mean() * theta")
        .replace("passed = grad * kept", "passed = grad * (x.abs() < 1)")
        .replace("SLOPE", "(grad * torch.sign(x)).sum(0)")
    )
    assert "custom_function_wrong_backward" not in {each.cause for each in alarms(binary, tmp_path)}


FIXED_POINT = (
    HEAD
    + """
class Equilibrium(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        nn.init.normal_(self.inner.weight, std=0.1)

    def f(self, z, x):
        return torch.tanh(self.inner(z) + x)

    def forward(self, x):
        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(20):
                z = self.f(z, x)
        z = self.f(z, x)
        start = z.detach().requires_grad_()
        again = self.f(start, x.detach())
        def solved(grad):
            y = grad
            for _ in range(6):
                y = torch.autograd.grad(again, start, yKEEP)[0] + grad  # HERE
            return y
        z.register_hook(solved)
        return z

first, net = nn.Linear(3, 4), Equilibrium()
optimizer = torch.optim.SGD([*first.parameters(), *net.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(8, 3)
    loss = (net(first(x)) - x[:, :1]).square().mean()
"""
    + TRAIN
)


def test_a_hook_that_asks_a_freed_graph_is_told_at_the_line_that_asks(tmp_path: Path) -> None:
    script = FIXED_POINT.replace("KEEP", "")
    assert_first_alarm(script, "graph_freed", tmp_path)
    (told, *_) = alarms(script, tmp_path)
    assert "retain_graph=True" in (told.fix or "")


def test_a_hook_that_keeps_the_graph_is_right(tmp_path: Path) -> None:
    assert not alarms(FIXED_POINT.replace("KEEP", ", retain_graph=True"), tmp_path)
