"""Derivatives that a program takes for a value, such as a curvature, are not the gradients that train its layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms

NET = """
net = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
for layer in net[::2]:
    nn.init.orthogonal_(layer.weight, 2**0.5 if layer.out_features > 1 else 0.001)
    nn.init.zeros_(layer.bias)
params = list(net.parameters())
optimizer = torch.optim.SGD(params, lr=0.1)

def flat(tensors):
    return torch.cat([each.reshape(-1) for each in tensors])

for step in range(3):
    x = torch.randn(64, 3)
"""
END = """
    optimizer.zero_grad()
    F.mse_loss(net(x), x[:, :1]).backward()
    optimizer.step()
"""
LARGEST_BEND = """
    slope = flat(torch.autograd.grad(net(x).square().mean(), params, create_graph=True))
    vector = torch.zeros_like(slope)
    vector[:192] = torch.randn(192)
    for _ in range(4):
        vector = flat(torch.autograd.grad(slope @ (vector / vector.norm()), params, retain_graph=True))
    print(vector.norm())
"""
TRACE = """
    slopes = torch.autograd.grad(net(x).square().mean(), params, create_graph=True)
    signs = [torch.randint_like(p, 2) * 2 - 1 if p is params[0] else torch.zeros_like(p) for p in params]
    bends = torch.autograd.grad(slopes, params, grad_outputs=signs)
    print(sum((bend * sign).sum() for bend, sign in zip(bends, signs)))
"""
NATURAL_STEPS = """
policy = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
for layer in policy:
    if isinstance(layer, nn.Linear):
        nn.init.orthogonal_(layer.weight, 2 ** 0.5 if layer.out_features > 1 else 0.01)
        nn.init.zeros_(layer.bias)
log_std = nn.Parameter(torch.zeros(1))
value = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
params = [*policy.parameters(), log_std]
optimizer = torch.optim.Adam([*params, *value.parameters()], lr=1e-3)

def flat(tensors):
    return torch.cat([each.reshape(-1) for each in tensors])

def conjugate_gradient(product, b, rounds=15):
    x, r = torch.zeros_like(b), b.clone()
    p, rr = r.clone(), r @ r
    for _ in range(rounds):
        ap = product(p)
        alpha = rr / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        new = r @ r
        p, rr = r + new / rr * p, new
    return x

for update in range(3):
    obs = torch.randn(64, 3)
    with torch.no_grad():
        old = torch.distributions.Normal(policy(obs), log_std.exp())
        action = old.sample()
        old_log = old.log_prob(action)
    returns = -(action - obs[:, :1]).square()
    with torch.no_grad():
        advantage = returns - value(obs)
        advantage = (advantage - advantage.mean()) / advantage.std()
    now = torch.distributions.Normal(policy(obs), log_std.exp())
    objective = ((now.log_prob(action) - old_log).exp() * advantage).mean()
    divergence = torch.distributions.kl_divergence(now, old).mean()
    slope = flat(torch.autograd.grad(divergence, params, create_graph=True))
    aim = flat(torch.autograd.grad(objective, params, retain_graph=True))
    def product(v):
        return flat(torch.autograd.grad((slope * v).sum(), params, retain_graph=True)) + 0.1 * v
    direction = conjugate_gradient(product, aim)
    step = (2 * 0.01 / (direction @ product(direction))).sqrt() * direction
    with torch.no_grad():
        start = 0
        for p in params:
            p.add_(step[start:start + p.numel()].view_as(p))
            start += p.numel()
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.mse_loss(value(obs), returns)
        loss.backward()
        optimizer.step()
"""
PENALIZED = """
layers = [nn.Linear(16, 16) for _ in range(7)]
params = [p for layer in layers for p in layer.parameters()]
optimizer = torch.optim.SGD(params, lr=0.1)
for step in range(3):
    x = torch.randn(8, 16)
    h = x
    for layer in layers:
        before, h = h, torch.sigmoid(layer(h))
    (slope,) = torch.autograd.grad(h.mean(), before, create_graph=True)
    loss = (h - 0.3).square().mean() + slope.square().mean()
    for p, gradient in zip(params, torch.autograd.grad(loss, params)):
        p.grad = gradient
    optimizer.step()
"""


@pytest.mark.parametrize("program", [NATURAL_STEPS, NET + LARGEST_BEND + END, NET + TRACE + END])
def test_products_with_second_derivatives_do_not_vanish(program: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + program, tmp_path)


def test_a_chain_that_a_penalty_of_derivatives_trains_is_told(tmp_path: Path) -> None:
    assert [each.cause for each in alarms(HEAD + PENALIZED, tmp_path)] == ["vanishing_chain"]
