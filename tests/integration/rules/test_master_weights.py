"""Copies in low precision that a program trains through masters in full precision; they are no targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms

MASTERS = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
working = list(model.parameters())
masters = [p.detach().clone().float().requires_grad_(True) for p in working]
model.bfloat16()
optimizer = torch.optim.SGD(masters, lr=0.1)
for step in range(3):
    x, y = torch.randn(6, 4), torch.randn(6, 1)
    loss = F.mse_loss(model(x.bfloat16()).float(), y)
    loss.backward()
"""
OVERWRITE = """
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for p, master in zip(working, masters):
            p.grad = None
            p.copy_(master)
"""
HANDED_ON = (
    "    for p, master in zip(working, masters):\n        master.grad = p.grad.detach().float()",
    "    for p, master in zip(working, masters):\n"
    "        master.grad = torch.zeros_like(master) if master.grad is None else master.grad\n"
    "        master.grad.copy_(p.grad)",
    "    for p, master in zip(working, masters):\n        master.grad = p.grad.float() / 2",
    "    both = torch.cat([p.grad.flatten() for p in working]).float().split([p.numel() for p in working])\n"
    "    for master, grad in zip(masters, both):\n        master.grad = grad.view_as(master)",
)


@pytest.mark.parametrize("collect", HANDED_ON)
def test_working_copies_whose_gradients_go_to_their_masters_are_no_targets(collect: str, tmp_path: Path) -> None:
    script = HEAD + MASTERS + collect + OVERWRITE
    assert "GV612" not in [each.code for each in alarms(script, tmp_path)]


TARGET = """
online, target = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(6, 4)
    loss = F.mse_loss(online(x), 0.9 * target(x + 1))
    optimizer.zero_grad()
    loss.backward()
    {line}
    optimizer.step()
    target.load_state_dict(online.state_dict())
"""


@pytest.mark.parametrize(
    "line",
    ["print(target.weight.grad.norm())", "nn.utils.clip_grad_norm_([*online.parameters(), *target.parameters()], 1)"],
)
def test_a_target_whose_gradients_are_only_measured_is_still_told(line: str, tmp_path: Path) -> None:
    assert "GV612" in [each.code for each in alarms(HEAD + TARGET.format(line=line), tmp_path)]


BY_HAND = {
    "a direction": (
        "particles = torch.randn(6, 2)\n"
        "optimizer = torch.optim.Adam([particles], lr=0.1)\n"
        "for step in range(3):\n"
        "    x = particles.detach().requires_grad_(True)\n"
        "    score, = torch.autograd.grad(x.square().sum(), x)\n"
        "    {}\n"
        "    optimizer.step()\n"
    ),
    "one of two groups": (
        "net, scale = nn.Linear(2, 1), torch.ones(2)\n"
        "optimizer = torch.optim.SGD([{{'params': net.parameters()}}, {{'params': [scale], 'lr': 0.01}}], lr=0.1)\n"
        "for step in range(3):\n"
        "    particles, x = scale, torch.randn(6, 2)\n"
        "    loss = net(x * scale).square().mean()\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    score = scale.log()\n"
        "    {}\n"
        "    optimizer.step()\n"
    ),
}


@pytest.mark.parametrize("script", BY_HAND.values(), ids=BY_HAND.keys())
def test_a_tensor_that_steps_move_by_a_given_gradient_trains(script: str, tmp_path: Path) -> None:
    given, none = (HEAD + script.format(line) for line in ("particles.grad = score + 1", "particles.grad = None"))
    assert [each.code for each in alarms(given, tmp_path)] == []
    assert [each.code for each in alarms(none, tmp_path)] == ["GV701"]
