"""Gradients that a program makes and clears itself, and hooks that return what they keep of a gradient."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

_BY_HAND = """\
w, b = torch.randn(1, 5).requires_grad_(), torch.zeros(1, requires_grad=True)
params = [w, b]
{start}
for step in range(5):
    x = torch.randn(16, 5)
    loss = (F.linear(x, w, b) - x[:, :1]).square().mean()
    {clear}
    loss.backward()
    with torch.no_grad():
        torch._foreach_add_(params, [p.grad for p in params], alpha=-0.05)
"""
_ZEROS = "for p in params: p.grad = torch.zeros_like(p)"
_FLAT = """\
flat = torch.zeros(6)
w.grad, b.grad = flat[:5].view(1, 5), flat[5:]"""

_HOOKED = """\
net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
sizes = {{name: torch.zeros_like(p) for name, p in net.named_parameters()}}
for name, p in net.named_parameters():
    p.register_hook({hook})
for step in range(4):
    x = torch.randn(16, 5)
    loss = (net(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FAULTS = {
    "gradients made of zeros, of which a list clears a part": (
        "missing_zero_grad",
        _BY_HAND.format(start=_ZEROS, clear="torch._foreach_zero_([p.grad for p in params if p.ndim > 1])  # HERE"),
    ),
    "gradients made of zeros, of which a product clears a part": (
        "missing_zero_grad",
        _BY_HAND.format(start=_ZEROS, clear="params[0].grad.mul_(0)  # HERE"),
    ),
    "gradients in one tensor that nothing clears": (
        "missing_zero_grad",
        _BY_HAND.format(start=_FLAT, clear="pass").replace("flat[5:]", "flat[5:]  # HERE"),
    ),
    "a lambda that returns an average of sizes": (
        "hook_alters_grad",
        _HOOKED.format(hook="lambda g, name=name: sizes[name].lerp_(g.abs(), 0.1)").replace(
            ")\nfor s", ")  # HERE\nfor s"
        ),
    ),
    "a lambda that returns an average of squares": (
        "hook_alters_grad",
        _HOOKED.format(hook="lambda g, name=name: sizes[name].mul_(0.9).addcmul_(g, g, value=0.1)").replace(
            ")\nfor s", ")  # HERE\nfor s"
        ),
    ),
    "a lambda that returns the largest sizes so far": (
        "hook_alters_grad",
        _HOOKED.format(hook="lambda g, name=name: torch.maximum(sizes[name], g.abs(), out=sizes[name])").replace(
            ")\nfor s", ")  # HERE\nfor s"
        ),
    ),
}

HEALTHY = {
    "a list clears all": _BY_HAND.format(start=_ZEROS, clear="torch._foreach_zero_([p.grad for p in params])"),
    "a product clears all": _BY_HAND.format(start=_ZEROS, clear="[p.grad.mul_(0) for p in params]"),
    "gradients in one tensor that is cleared": _BY_HAND.format(start=_FLAT, clear="flat.zero_()"),
    "a hook that keeps sizes and returns nothing": _HOOKED.format(
        hook="lambda g, name=name: sizes[name].lerp_(g.abs(), 0.1) is None"
    ).replace("is None", "and None if name == '' else None"),
    "a hook that returns an average of the gradient": _HOOKED.format(
        hook="lambda g, name=name: sizes[name].lerp_(g, 0.5).clone()"
    ),
    "a hook that keeps what is positive": _HOOKED.format(hook="lambda g: g.clamp(min=0)"),
    "a hook that turns a gradient around": _HOOKED.format(hook="lambda g: -g"),
}


@pytest.mark.parametrize(("cause", "script"), FAULTS.values(), ids=FAULTS)
def test_fault(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_healthy(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []


PRIVATE = """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
inputs = {{}}
def keep(module, args, out):
    inputs[module] = args[0].detach()
def per_sample(module, given, got):
    for p, of_each in zip(module.parameters(), (torch.einsum("ni,nj->nij", got[0], inputs[module]), got[0].clone())):
        {kept}
for layer in (net[0], net[2]):
    layer.register_forward_hook(keep)
    layer.register_full_backward_hook(per_sample)
for step in range(6):
    x = torch.randn(12, 6)
    loss = F.cross_entropy(net(x), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    for p in net.parameters():
        {given}
    optimizer.step()
"""
CLIPPED = """sizes = p.each.flatten(1).norm(dim=1).clamp(min=1)
        p.grad = (p.each.to(p.dtype).flatten(1) / sizes[:, None]).sum(0).view_as(p)"""


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize(
    ("kept", "given"),
    [
        ("p.each = of_each * 12", "p.grad = p.each.clamp(-1, 1).sum(0) / 12 + 0.01 * torch.randn_like(p)"),
        ("p.each = of_each", "p.grad = (p.each / p.each.flatten(1).norm(dim=1).max().clamp(min=1)).sum(0)"),
        ("p.each = of_each.sum(0)", "p.grad = p.each.sign() * p.each.abs().mean()"),
        ("p.each = of_each", CLIPPED),
    ],
)
def test_gradients_that_hooks_computed_during_the_backward_are_no_clears(kept: str, given: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + PRIVATE.format(kept=kept, given=given), tmp_path)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("given", ["p.grad = 0.01 * torch.randn_like(p)", "p.grad = torch.zeros_like(p.each)"])
def test_noise_in_the_place_of_gradients_clears_them(given: str, tmp_path: Path) -> None:
    found = alarms(HEAD + PRIVATE.format(kept="p.each = of_each.sum(0)", given=given), tmp_path)
    assert "missing_zero_grad" in [each.cause for each in found]


RAMP = """
body, task, domain = nn.Linear(4, 6), nn.Linear(6, 2), nn.Linear(6, 2)
optimizer = torch.optim.SGD([*body.parameters(), *task.parameters(), *domain.parameters()], lr=0.1)
for step in range(8):
    factor = {factor}
    features = body(torch.randn(16, 4)).tanh()
    shared = features.clone()
    shared.register_hook(lambda grad: -factor * grad)
    loss = F.cross_entropy(task(features), torch.randint(2, (16,)))
    loss = loss + F.cross_entropy(domain(shared), torch.randint(2, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_factor_that_grows_from_zero_is_no_hook_that_clears(tmp_path: Path) -> None:
    causes = {each.cause for each in alarms(HEAD + RAMP.format(factor="step / 7"), tmp_path)}
    assert "hook_alters_grad" not in causes
    causes = {each.cause for each in alarms(HEAD + RAMP.format(factor="0.0"), tmp_path)}
    assert "hook_alters_grad" in causes


def test_a_hook_that_shrinks_all_but_one_small_gradient_is_told(tmp_path: Path) -> None:
    script = """
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
[p.register_hook(lambda grad: grad.clamp(-1e-9, 1e-9)) for p in net.parameters()]  # HERE
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 4)
    y = net(x)
    loss = (y - y.mean() - x[:, :1]).square().mean()  # does not depend on the last bias
"""
    assert_first_alarm(HEAD + script + TRAIN, "hook_alters_grad", tmp_path)
