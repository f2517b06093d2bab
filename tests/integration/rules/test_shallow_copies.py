"""Lists of gradients that are copied without their tensors, which are then changed in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

SCRIPT = """
body, one, two = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 1)
params = list(body.parameters())
optimizer = torch.optim.SGD([*params, *one.parameters(), *two.parameters()], lr=0.1)
def flat(loss):
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, params, retain_graph=True)])
def project(grads):
{project}
    return sum(new)
for step in range(4):
    x, y, t = torch.randn(32, 8), torch.randint(3, (32,)), torch.randn(32, 1)
    h = torch.tanh(body(x))
    losses = [F.cross_entropy(one(h), y), F.mse_loss(two(h), t)]
    total = project([flat(loss) for loss in losses])
    optimizer.zero_grad()
    sum(losses).backward()
    for p, part in zip(params, total.split([p.numel() for p in params])):
        p.grad.copy_(part.view_as(p))
    optimizer.step()
"""
BY_INDEX = """
    new = {copied}
    for i in range(2):
        other = 1 - i
        dot = (new[i] @ grads[other]).clamp(max=0)
        new[i] -= dot / (grads[other] @ grads[other]) * grads[other]
"""
BY_ELEMENT = """
    new = {copied}
    for g, o in zip(new, reversed(grads)):
        g.sub_(o * ((g * o).sum().clamp(max=0) / o.square().sum()))
"""
OUT_OF_PLACE = BY_INDEX.replace("new[i] -= dot", "new[i] = new[i] - dot")


def _script(project: str, copied: str) -> str:
    return HEAD + SCRIPT.format(project=project.strip("\n").format(copied=copied))


@pytest.mark.parametrize("project", [BY_INDEX, BY_ELEMENT])
@pytest.mark.parametrize(
    "copied", ["list(grads)", "grads[:]", "copy.copy(grads)", "grads.copy()", "[g for g in grads]"]
)
def test_tensors_of_a_copied_list_that_change_in_place_are_told(project: str, copied: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(project, f"{copied}  # HERE"), "shallow_copy_changed", tmp_path)


@pytest.mark.parametrize(
    ("project", "copied"),
    [
        (BY_INDEX, "[g.clone() for g in grads]"),
        (BY_ELEMENT, "copy.deepcopy(grads)"),
        (OUT_OF_PLACE, "list(grads)"),
        ("    new = {copied}\n    for g in new:\n        g.mul_(0.5)", "list(grads)"),
    ],
)
def test_copied_tensors_and_new_ones_are_left_alone(project: str, copied: str, tmp_path: Path) -> None:
    assert not alarms(_script(project, copied), tmp_path)


META = """
net = nn.Linear(3, 1)
slow = SLOW
def error(params):
    x = torch.randn(16, 3)
    return (torch.func.functional_call(net, dict(zip(("weight", "bias"), params)), x) - x[:, :1]).square().mean()
for step in range(4):
    fast = COPIED
    for _ in range(2):
        grads = torch.autograd.grad(error(OF_FAST), OF_FAST)
        with torch.no_grad():
            torch._foreach_sub_(OF_FAST, grads, alpha=0.1)
    with torch.no_grad():
        MOVE
"""
LIST = META.replace("SLOW", "[p.detach().clone().requires_grad_() for p in net.parameters()]")
LIST = LIST.replace("OF_FAST", "fast")
DICT = META.replace(
    "SLOW", "{name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}"
).replace("OF_FAST", "list(fast.values())")
MIXED = [
    (LIST, "slow[:]", "torch._foreach_lerp_(slow, fast, 0.2)"),
    (LIST, "[*slow]", "for s, f in zip(slow, fast):\n            s.lerp_(f, 0.2)"),
    (LIST, "list(slow)", "for s, f in zip(slow, fast):\n            s += 0.2 * (f - s)"),
    (DICT, "dict(slow)", "for name, s in slow.items():\n            s.lerp_(fast[name], 0.2)"),
    (DICT, "{name: p for name, p in slow.items()}", "for n in slow:\n            slow[n].lerp_(fast[n], 0.2)"),
]
COPIES = [
    (LIST, "[p.detach().clone().requires_grad_() for p in slow]", "torch._foreach_lerp_(slow, fast, 0.2)"),
    (LIST, "copy.deepcopy(slow)", "for s, f in zip(slow, fast):\n            s.lerp_(f, 0.2)"),
    # What is called slow is only another name for the results.
    (LIST, "slow[:]", "print(len(slow), fast[0].norm())"),
    # Each is compared with all others.
    (LIST.replace("= COPIED", "= COPIED\n    gaps = [a - b for a in slow for b in fast if a.shape == b.shape]"),
     "[p.detach().clone().requires_grad_() for p in slow]", "torch._foreach_lerp_(slow, fast, 0.2)"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "copied", "move"), MIXED)
def test_tensors_that_are_mixed_with_themselves_are_told(script: str, copied: str, move: str, tmp_path: Path) -> None:
    script = HEAD + script.replace("COPIED", f"{copied}  # HERE").replace("MOVE", move)
    assert_first_alarm(script, "shallow_copy_changed", tmp_path)


@pytest.mark.parametrize(("script", "copied", "move"), COPIES)
def test_copies_that_are_mixed_are_left_alone(script: str, copied: str, move: str, tmp_path: Path) -> None:
    found = alarms(HEAD + script.replace("COPIED", copied).replace("MOVE", move), tmp_path)
    assert "shallow_copy_changed" not in [each.cause for each in found]
