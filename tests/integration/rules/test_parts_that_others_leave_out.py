"""What one part of a program makes and another one does not use: it is told at the line that should use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ADAPTED = """
class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.a, self.b = base, nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.zeros(4, 2))
        base.requires_grad_(False)
    def forward(self, x):
        return self.base(x)  # HERE
    def merged(self):
        return self.base.weight + self.b @ self.a
"""
ADAPTERS = f"""{ADAPTED}
layer, head = Adapted(nn.Linear(4, 4)), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*head.parameters(), layer.a, layer.b], lr=0.01)
for step in range(5):
    loss = head(layer(torch.randn(8, 4))).square().mean()
{TRAIN}
"""
READ_LATER = f"{ADAPTERS}with torch.no_grad():\n    print(layer.merged().norm())\n"
THROUGH_A_METHOD = ADAPTERS.replace(
    "return self.base(x)  # HERE", "return nn.functional.linear(x, self.merged(), self.base.bias)"
)
GAN = """
def train():
    generator, critic = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    for_generator = torch.optim.Adam(critic.parameters(), lr=0.01)  # HERE
    for_critic = torch.optim.Adam(critic.parameters(), lr=0.01)
    for step in range(8):
        for turn in range(3):
            with torch.no_grad():
                fake = generator(torch.randn(16, 3))
            loss = critic(fake).mean() - critic(torch.randn(16, 2) + 2).mean()
            for_critic.zero_grad()
            loss.backward()
            for_critic.step()
        critic.requires_grad_(False)
        loss = -critic(generator(torch.randn(16, 3))).mean()
        for_generator.zero_grad()
        loss.backward()
        critic.requires_grad_(True)
        for_generator.step()
train()
"""
GIVEN_LAYERS = f"""
class Chain(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts, self.head = list(parts), nn.Linear(4, 1)  # HERE
    def forward(self, x):
        for part in self.parts:
            x = part(x).tanh()
        return self.head(x)
def build():
    return Chain([nn.Linear(4, 4) for _ in range(3)])
model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(8, 4)).square().mean()
{TRAIN}
"""
MADE_IN_THE_CLASS = (
    GIVEN_LAYERS.replace("parts):", "size):")
    .replace(
        "self.parts, self.head = list(parts), nn.Linear(4, 1)  # HERE",
        "self.parts, self.head = [], nn.Linear(4, 1)\n        for _ in range(size):\n"
        "            self.parts.append(nn.Linear(4, 4))  # HERE",
    )
    .replace("Chain([nn.Linear(4, 4) for _ in range(3)])", "Chain(3)")
)
SLOPE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.rate = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Parameter(torch.ones(()))
    def forward(self, t):
        return 4 * t - 2  # HERE
model = Net()
t = torch.rand(16, 1, requires_grad=True)
u = model(t)
(slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
(bend,) = torch.autograd.grad(slope.sum(), t, create_graph=True)
(bend + model.rate * u).square().mean().backward()
"""
TERM_ASSIGNED_AGAIN = f"""
mean, spread = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.full((4,), -1.0))
optimizer = torch.optim.Adam([mean, spread], lr=0.05)
for step in range(6):
    x = torch.randn(32, 4)
    drawn = mean + spread.exp() * torch.randn(4)
    loss = ((x * drawn).sum(1) - x.sum(1)).square().mean()
    loss = (spread.exp().square() / 2 + mean.square() / 2 - spread).sum()  # HERE
{TRAIN}
"""


@pytest.mark.parametrize(
    ("cause", "script"),
    [
        ("unused_parameter", ADAPTERS),
        ("step_without_effect", READ_LATER),
        ("not_stepped", GAN),
        ("not_registered", GIVEN_LAYERS),
        ("not_registered", MADE_IN_THE_CLASS),
        ("second_derivative_zero", SLOPE),
        ("unused_parameter", TERM_ASSIGNED_AGAIN),
    ],
    ids=[
        "an adapter, in the method that merges it", "the same, called after the training", "a generator",
        "layers that were given", "layers that were made there", "a network, in its derivative", "a term of a loss",
    ],
)  # fmt: skip
def test_what_is_left_out_is_told_at_the_line_that_should_use_it(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


def test_what_forward_reaches_through_another_method_is_used(tmp_path: Path) -> None:
    assert alarms(HEAD + THROUGH_A_METHOD, tmp_path) == []


ANOTHER_LOSS = """
generator, critic = nn.Linear(3, 2), nn.Linear(2, 1)
optimizer = torch.optim.SGD([*generator.parameters(), *critic.parameters()], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss_c = critic(torch.randn(8, 2)).square().mean()
    loss_c.backward()
    loss_g = critic(generator(torch.randn(8, 3))).square().mean()
    loss_c.backward()  # HERE
    optimizer.step()
"""
CLIPPED_TOO_EARLY = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)  # HERE
    model(torch.randn(5, 4)).square().mean().backward()
    optimizer.step()
"""
RATE_OF_A_SETTING = f"""
from dataclasses import dataclass
@dataclass
class Settings:
    min_lr: float = 0.0
    lr: float = 0.0  # HERE
settings, model = Settings(), nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)
for step in range(4):
    loss = model(torch.randn(8, 4)).square().mean()
{TRAIN}
"""


@pytest.mark.parametrize(
    ("cause", "script"),
    [
        ("graph_freed", ANOTHER_LOSS),
        ("clip_misplaced", CLIPPED_TOO_EARLY),
        ("step_without_effect", RATE_OF_A_SETTING),
    ],
)
def test_the_line_that_was_written_wrongly_is_told(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)
