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
