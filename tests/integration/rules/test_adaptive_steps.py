"""Steps by hand that divide by a running average, as Adam does: what the average is of, its root, its correction."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms

BEGIN = (
    HEAD
    + """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
params = list(model.parameters())
m, v = [torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params]
lr, one, two, eps = 0.01, 0.9, 0.99, 1e-8
for t in range(1, 6):
    x = torch.randn(16, 4)
    loss = F.mse_loss(model(x), x[:, :1])
"""
)
LOOP = """
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for i, p in enumerate(params):
            g = p.grad
"""
LISTS = """
    grads = list(torch.autograd.grad(loss, params))
    with torch.no_grad():
"""
FAULTY = {
    "the average of gradients": LOOP
    + """
            m[i].mul_(one).add_(g, alpha=1 - one)
            v[i].mul_(two).add_(g, alpha=1 - two)  # HERE
            p -= lr * (m[i] / (1 - one**t)) / ((v[i] / (1 - two**t)).abs().sqrt() + eps)
""",
    "of new tensors": LOOP
    + """
            m[i] = one * m[i] + (1 - one) * g
            v[i] = two * v[i] + (1 - two) * g  # HERE
            p.sub_(lr * m[i] / (v[i].clamp(min=0).sqrt() + eps))
""",
    "of lists": LISTS
    + """
        torch._foreach_lerp_(m, grads, 1 - one)
        torch._foreach_lerp_(v, grads, 1 - two)  # HERE
        below = torch._foreach_add(torch._foreach_sqrt(torch._foreach_abs(v)), eps)
        torch._foreach_addcdiv_(params, m, below, value=-lr)
""",
    "without momentum": LOOP
    + """
            v[i].lerp_(g, 1 - two)  # HERE
            p.data = p.data - lr * g / (v[i].abs().sqrt() + eps)
""",
    "no root": LOOP
    + """
            m[i] = one * m[i] + (1 - one) * g
            v[i] = two * v[i] + (1 - two) * g * g
            p -= lr * (m[i] / (1 - one**t)) / (v[i] / (1 - two**t) + eps)  # HERE
""",
    "no root of a sum of squares": LOOP
    + """
            v[i].addcmul_(g, g)
            p.addcdiv_(g, v[i] + 1e-10, value=-lr)  # HERE
""",
    "no root of lists": LISTS
    + """
        torch._foreach_mul_(v, two)
        torch._foreach_addcmul_(v, grads, grads, value=1 - two)
        moves = torch._foreach_div(grads, torch._foreach_add(v, eps))  # HERE
        torch._foreach_add_(params, moves, alpha=-lr)
""",
    "corrected as the other average": LOOP
    + """
            m[i].lerp_(g, 1 - one)
            v[i].lerp_(g.square(), 1 - two)
            above, below = m[i] / (1 - one**t), v[i] / (1 - one**t)  # HERE
            p.addcdiv_(above, below.sqrt().add_(eps), value=-lr)
""",
    "corrected outside of the root": LISTS
    + """
        for p, g, a, b in zip(params, grads, m, v):
            a.mul_(one).add_(g, alpha=1 - one)
            b.mul_(two).addcmul_(g, g, value=1 - two)
            below = (b.sqrt() / math.sqrt(1 - one**t)).add_(eps)  # HERE
            p.addcdiv_(a, below, value=-lr / (1 - one**t))
""",
    "factors that are not 1 together": LOOP
    + """
            m[i].mul_(one).add_(g, alpha=1 - one)
            v[i].mul_(two).addcmul_(g, g, value=1 - one)  # HERE
            p.addcdiv_(m[i] / (1 - one**t), (v[i] / (1 - two**t)).sqrt().add_(eps), value=-lr)
""",
    "the whole gradient": LOOP
    + """
            m[i].mul_(one).add_(g)  # HERE
            v[i] = two * v[i] + (1 - two) * (g * g)
            p -= lr * (m[i] / (1 - one**t)) / ((v[i] / (1 - two**t)).sqrt() + eps)
""",
}
HEALTHY = {
    "Adam": LOOP
    + """
            g = g + 0.01 * p
            m[i].mul_(one).add_(g, alpha=1 - one)
            v[i].mul_(two).addcmul_(g, g, value=1 - two)
            p -= lr * (m[i] / (1 - one**t)) / ((v[i] / (1 - two**t)).sqrt() + eps)
""",
    "Adam with corrected root": LOOP
    + """
            m[i].lerp_(g, 1 - one)
            v[i].mul_(two).add_((1 - two) * g**2)
            p.addcdiv_(m[i], (v[i].sqrt() / math.sqrt(1 - two**t)).add_(eps), value=-lr / (1 - one**t))
""",
    "Adam of lists": LISTS
    + """
        torch._foreach_lerp_(m, grads, 1 - one)
        torch._foreach_mul_(v, two)
        torch._foreach_addcmul_(v, grads, grads, value=1 - two)
        torch._foreach_addcdiv_(params, m, torch._foreach_add(torch._foreach_sqrt(v), eps), value=-lr)
""",
    "RMSprop with a centre": LOOP
    + """
            m[i].lerp_(g, 1 - two)
            v[i].lerp_(g * g, 1 - two)
            p -= lr * g / ((v[i] - m[i] ** 2).clamp(min=0).sqrt() + eps)
""",
    "surprise": LOOP
    + """
            m[i].mul_(one).add_(g, alpha=1 - one)
            v[i].mul_(two).add_((g - m[i]).square(), alpha=1 - two)
            p -= lr * m[i] / (v[i].sqrt() + eps)
""",
    "Adagrad": LOOP
    + """
            v[i] += g**2
            p -= lr * g / (v[i] + 1e-10).sqrt()
""",
    "a natural gradient": LOOP
    + """
            v[i].lerp_(g * g, 1 - two)
            p -= lr * g / (v[i] + 1e-3)
""",
    "a bounded second order step": LOOP
    + """
            m[i].lerp_(g, 1 - one)
            v[i].lerp_(g * g, 1 - two)
            p -= lr * (m[i] / v[i].clamp(min=1e-12)).clamp(-1, 1)
""",
    "a soft sign": LOOP
    + """
            m[i].lerp_(g, 1 - one)
            p -= lr * m[i] / (m[i].abs() + eps)
""",
    "the largest": LOOP
    + """
            m[i].lerp_(g, 1 - one)
            v[i] = torch.maximum(two * v[i], g.abs())
            p -= lr * m[i] / (v[i] + eps)
""",
    "a ratio that is only printed": LOOP
    + """
            m[i].lerp_(g, 1 - one)
            v[i].lerp_(g * g, 1 - two)
            print((m[i] ** 2 / (v[i] + eps)).mean(), (g / (m[i].abs() + eps)).mean())
            p -= lr * m[i] / (v[i].sqrt() + eps)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_divisor_that_is_no_size_of_gradients_is_told(name: str, tmp_path: Path) -> None:
    script = "import math" + BEGIN + FAULTY[name]
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    # Steps without a scale also saturate what follows them, which is told, too.
    lines = [found.location and found.location.line for found in alarms(script, tmp_path) if found.code == "GV777"]
    assert lines == [here]


@pytest.mark.parametrize("name", HEALTHY)
def test_other_divisors_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms("import math" + BEGIN + HEALTHY[name], tmp_path)
