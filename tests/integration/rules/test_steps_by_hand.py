"""Weight decay of steps by hand, and gradients that are set to zero to freeze parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

FAULTS = {
    "steps by hand with alpha by the number of axes": (
        "decay_of_wrong_group",
        """\
net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 1))
decay = {k: 0.1 if p.ndim == 1 else 0.0 for k, p in net.named_parameters()}
for step in range(4):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for k, p in net.named_parameters():
            p -= 0.05 * p.grad.add(p, alpha=decay[k])  # HERE
""",
    ),
    "steps by hand that shrink the vectors only": (
        "decay_of_wrong_group",
        """\
net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 1))
for step in range(4):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            if p.dim() < 2:
                p.mul_(0.99)  # HERE
            p.sub_(p.grad, alpha=0.05)
""",
    ),
    "steps by hand with a product": (
        "decay_of_wrong_group",
        """\
net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 1))
for step in range(4):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            change = p.grad
            if not p.ndim > 1:
                change = change + 0.1 * p  # HERE
            p.copy_(p - 0.05 * change)
""",
    ),
    "gradients that are set to zero to freeze layers": (
        "frozen_still_moves",
        """\
body, head = nn.Linear(6, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
for step in range(8):
    x = torch.randn(16, 6)
    loss = (head(body(x).tanh()) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if step >= 4:
        for p in body.parameters():
            p.grad.zero_()  # HERE
    optimizer.step()
""",
    ),
    "new gradients of zeros, with weight decay": (
        "frozen_still_moves",
        """\
body, head = nn.Linear(6, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01, weight_decay=0.1)
for step in range(8):
    x = torch.randn(16, 6)
    loss = (head(body(x).tanh()) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if step >= 4:
        for p in body.parameters():
            p.grad = torch.zeros_like(p)  # HERE
    optimizer.step()
""",
    ),
    "a hook that is switched off": (
        "frozen_still_moves",
        """\
body, head, gate = nn.Linear(6, 8), nn.Linear(8, 1), {"open": 1.0}
def through(grad):
    return grad * gate["open"]  # HERE
for p in body.parameters():
    p.register_hook(through)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
for step in range(8):
    x = torch.randn(16, 6)
    if step == 4:
        gate["open"] = 0.0
    loss = (head(body(x).tanh()) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
}
HEALTHY = {
    "steps by hand that shrink the matrices only": """\
net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 1))
for step in range(4):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            if p.dim() > 1:
                p.mul_(0.99)
            p.sub_(p.grad, alpha=0.05)
""",
    "steps by hand without any decay": """\
net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 1))
slow = copy.deepcopy(net)
for step in range(4):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p, q in zip(net.parameters(), slow.parameters()):
            p.sub_(p.grad, alpha=0.05)
            q.mul_(0.9).add_(p, alpha=0.1)
""",
    "steps by hand that decay everything": """\
net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 1))
for step in range(4):
    x = torch.randn(16, 6)
    loss = (net(x) - x[:, :1]).square().mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p.sub_(p.grad.add(p, alpha=0.01), alpha=0.05)
""",
    "gradients of zeros with plain descent": """\
body, head = nn.Linear(6, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
for step in range(8):
    x = torch.randn(16, 6)
    loss = (head(body(x).tanh()) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if step >= 4:
        for p in body.parameters():
            p.grad.zero_()
    optimizer.step()
""",
    "one step that is left out": """\
body, head = nn.Linear(6, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
for step in range(8):
    x = torch.randn(16, 6)
    loss = (head(body(x).tanh()) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if step == 4:
        for p in body.parameters():
            p.grad.zero_()
    optimizer.step()
""",
    "gradients that are removed": """\
body, head = nn.Linear(6, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
for step in range(8):
    x = torch.randn(16, 6)
    loss = (head(body(x).tanh()) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if step >= 4:
        for p in body.parameters():
            p.grad = None
    optimizer.step()
""",
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_line_is_told(case: str, tmp_path: Path) -> None:
    cause, script = FAULTS[case]
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_what_looks_alike_and_is_meant_is_quiet(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case], tmp_path) == []
