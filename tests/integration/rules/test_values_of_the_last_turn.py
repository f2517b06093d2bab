"""Functions that a loop makes and keeps: which values they see when they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

LAYERS = (
    HEAD
    + """
layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
def forward(x):
    for layer in layers:
        x = torch.tanh(layer(x))
    return x
"""
)
STEPS = """
for step in range(4):
    x = torch.randn(8, 4)
    loss = (forward(x) - 0.3 * x.flip(1).sin()).square().mean()
"""
FAULTY = {
    "a hook with the mask of the last layer": """
def prune(share):
    for layer in layers:
        weight = layer.weight.detach().abs()
        mask = (weight > weight.quantile(share)).float()
        with torch.no_grad():
            layer.weight.mul_(mask)
        layer.weight.register_hook(lambda grad: grad * mask)  # HERE
prune(0.3)
""",
    "a function as a hook": """
for number, layer in enumerate(layers):
    def scaled(grad):  # HERE
        return grad * 0.5**number
    layer.weight.register_hook(scaled)
""",
    "a scale of the loop around": """
for number, layer in enumerate(layers):
    scale = 0.5 ** (2 - number)
    for p in layer.parameters():
        p.register_hook(lambda grad: grad * scale)  # HERE
""",
    "hooks in a dict": """
hooks = {}
for number, layer in enumerate(layers):
    rate = 0.5**number
    hooks[number] = lambda grad: grad * rate  # HERE
for number, layer in enumerate(layers):
    layer.weight.register_hook(hooks[number])
""",
    "hooks of a comprehension": """
hooks = [lambda grad: grad * 0.5**number for number in range(3)]  # HERE
for hook, layer in zip(hooks, layers):
    layer.weight.register_hook(hook)
""",
}
HEALTHY = {
    "the mask as a default": """
for layer in layers:
    mask = (layer.weight.detach().abs() > 0.2).float()
    layer.weight.register_hook(lambda grad, mask=mask: grad * mask)
""",
    "one function for all": """
limit = 0.5
for layer in layers:
    layer.weight.register_hook(lambda grad: grad.clamp(-limit, limit))
""",
    "a function that makes the hook": """
def hook_for(layer):
    mask = (layer.weight.detach().abs() > 0.2).float()
    return lambda grad: grad * mask
for layer in layers:
    layer.weight.register_hook(hook_for(layer))
""",
    "variables of the function itself": """
for layer in layers:
    def scaled(grad):
        norm = grad.norm()
        return grad / norm.clamp(min=1.0)
    layer.weight.register_hook(scaled)
    norm = layer.weight.norm()
""",
    "models that each turn trains": """
for rate in (0.5, 0.9):
    small = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    for p in small.parameters():
        p.register_hook(lambda grad: grad * rate)
    descent = torch.optim.SGD(small.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 4)
        descent.zero_grad()
        F.mse_loss(small(x), x[:, :1]).backward()
        descent.step()
""",
    "a weight of the same step": """
for step in range(3):
    x = torch.randn(8, 4)
    weight = torch.rand(8, 4)
    made = forward(x)
    made.register_hook(lambda grad: grad * weight)
    optimizer.zero_grad()
    (made - 0.2 * x).square().mean().backward()
    optimizer.step()
""",
    "hooks that are removed in the same turn": """
seen = {}
for number, layer in enumerate(layers):
    handle = layer.register_forward_hook(lambda module, given, made: seen.update({number: made.detach().norm()}))
    forward(torch.randn(2, 4))
    handle.remove()
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_functions_that_see_the_last_turn_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(LAYERS + FAULTY[name] + STEPS + TRAIN, "value_of_the_last_turn", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_functions_that_see_their_own_turn_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(LAYERS + HEALTHY[name] + STEPS + TRAIN, tmp_path)
