"""Gradients of one loss that are kept without a copy, and that the backward of the next loss overwrites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

NETS = """
body, one, two = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 1)
params = list(body.parameters())
optimizer = torch.optim.SGD([*params, *one.parameters(), *two.parameters()], lr=0.1)
def losses():
    x, y, t = torch.randn(32, 8), torch.randint(3, (32,)), torch.randn(32, 1)
    h = torch.tanh(body(x))
    return F.cross_entropy(one(h), y), F.mse_loss(two(h), t)
def grads_of(module):
    return [p.grad.view(-1) for p in module.parameters()]
def combine(left, right):
    for p, a, b in zip(params, left, right):
        a, b = a.flatten(), b.flatten()
        scale = torch.cosine_similarity(a, b, dim=0)
        p.grad = (a * scale + b).view_as(p)
"""
FAULTY = (
    """
for step in range(4):
    first, second = losses()
    optimizer.zero_grad(set_to_none=False)
    first.backward(retain_graph=True)
    left = [p.grad for p in params]  # HERE
    body.zero_grad(set_to_none=False)
    second.backward()
    right = [p.grad for p in params]
    combine(left, right)
    optimizer.step()
""",
    """
for step in range(4):
    optimizer.zero_grad(set_to_none=False)
    kept = []
    for index in range(2):
        body.zero_grad(set_to_none=False)
        losses()[index].backward()
        kept.append([p.grad for p in params])  # HERE
    combine(*kept)
    optimizer.step()
""",
    """
for step in range(4):
    optimizer.zero_grad()
    first, second = losses()
    first.backward(retain_graph=True)
    left = grads_of(body)  # HERE
    second.backward()
    combine(left, [p.grad - g.view_as(p) for p, g in zip(params, left)])
    optimizer.step()
""",
    """
for step in range(4):
    optimizer.zero_grad(set_to_none=False)
    by_loss = {}
    for index in range(2):
        for p in params:
            if p.grad is not None:
                p.grad.zero_()
        losses()[index].backward()
        by_loss[index] = {n: p.grad for n, p in body.named_parameters()}  # HERE
    for name, p in body.named_parameters():
        both = torch.stack([by_loss[0][name], by_loss[1][name]])
        p.grad = both.mean(0) / (1 + both.std(0))
    optimizer.step()
""",
    """
before = {}
for step in range(5):
    optimizer.zero_grad(set_to_none=False)
    sum(losses()).backward()
    for name, p in body.named_parameters():
        if name in before:
            moved = p.grad - before[name]
            p.grad.add_(moved, alpha=0.5)
    for name, p in body.named_parameters():
        before[name] = p.grad  # HERE
    optimizer.step()
""",
    """
def gradients():
    kept = []
    for index in range(2):
        losses()[index].backward()
        kept.append([p.grad.ravel() for p in params])  # HERE
        if index == 0:
            torch._foreach_zero_([p.grad for p in params])
    return params, kept
for step in range(4):
    optimizer.zero_grad()
    combine(*gradients()[1])
    optimizer.step()
""",
    """
class Kept:
    def collect(self):
        self.kept = {}
        for index in range(2):
            losses()[index].backward()
            self.kept[index] = [p.grad for p in params]  # HERE
            if index == 0:
                body.zero_grad(set_to_none=False)
    def apply(self):
        combine(self.kept[0], self.kept[1])
both = Kept()
for step in range(4):
    optimizer.zero_grad()
    both.collect()
    both.apply()
    optimizer.step()
""",
)
HEALTHY = (
    FAULTY[5].replace("p.grad.ravel() for", "p.grad.ravel().clone() for"),
    FAULTY[5].replace("torch._foreach_zero_([p.grad for p in params])", "body.zero_grad()"),
    FAULTY[6].replace("p.grad for", "p.grad + 0 for"),
    # What a function returns is read once, and nothing else is kept.
    """
def gradients(loss):
    loss.backward()
    kept = [p.grad for p in params]
    return kept
for step in range(4):
    optimizer.zero_grad(set_to_none=False)
    found = gradients(sum(losses()))
    torch._foreach_div_(found, 1 + sum(g.norm() for g in found))
    optimizer.step()
""",
    FAULTY[0].replace("p.grad for", "p.grad.clone() for"),
    # Clearing with None leaves the tensors to those who keep them.
    FAULTY[0].replace("set_to_none=False", "set_to_none=True"),
    FAULTY[1].replace("p.grad for", "p.grad.detach().clone() for"),
    FAULTY[4].replace("= p.grad  #", "= p.grad.clone()  #"),
    # What is kept is what is meant: the sum of all losses.
    """
for step in range(4):
    optimizer.zero_grad()
    for index in range(2):
        losses()[index].backward()
        kept = [p.grad for p in params]
    norm = torch.sqrt(sum(g.square().sum() for g in kept))
    for g in kept:
        g.div_(1 + norm)
    optimizer.step()
""",
    """
kept = None
for step in range(4):
    optimizer.zero_grad(set_to_none=False)
    sum(losses()).backward()
    if kept is None:
        kept = [p.grad for p in params]
    torch._foreach_mul_(kept, 0.5)
    optimizer.step()
""",
)


@pytest.mark.parametrize("training", FAULTY)
def test_gradients_that_are_kept_without_a_copy_are_told(training: str, tmp_path: Path) -> None:
    assert_first_alarm(f"{HEAD}{NETS}{training}", "gradients_overwritten", tmp_path)


@pytest.mark.parametrize("training", HEALTHY)
def test_copies_and_sums_are_left_alone(training: str, tmp_path: Path) -> None:
    assert not alarms(f"{HEAD}{NETS}{training}", tmp_path)
