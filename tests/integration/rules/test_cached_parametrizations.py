"""Weights that ``parametrize.cached()`` keeps through several backward calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

MODEL = """
from contextlib import ExitStack
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal, weight_norm
class Squared(nn.Module):
    def forward(self, w):
        return w * w
body, head = orthogonal(nn.Linear(4, 4)), nn.Linear(4, 1)
parametrize.register_parametrization(head, "weight", Squared())
parameters = [*body.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
def loss_of(x):
    return (head(torch.tanh(body(x))) - x[:, :1]).square().mean()
def update(loss, **how):
    optimizer.zero_grad()
    loss.backward(**how)
    optimizer.step()
"""
CARRIED = {
    "around all steps": """
with parametrize.cached():  # HERE
    for step in range(3):
        update(loss_of(torch.randn(8, 4)))
""",
    "around the loop of an epoch, beside another context": """
def epoch():
    with torch.enable_grad(), parametrize.cached():  # HERE
        for step in range(3):
            update(loss_of(torch.randn(8, 4)))
with torch.no_grad(), parametrize.cached():
    loss_of(torch.randn(8, 4))
epoch()
""",
    "as a decorator": """
from torch.nn.utils.parametrize import cached as once
@once()  # HERE
def epoch():
    for step in range(3):
        update(loss_of(torch.randn(8, 4)))
epoch()
""",
    "on a stack of contexts": """
with ExitStack() as stack:
    stack.enter_context(parametrize.cached())  # HERE
    for step in range(3):
        update(loss_of(torch.randn(8, 4)))
""",
    "with graphs that are kept": """
with parametrize.cached():  # HERE
    for step in range(3):
        update(loss_of(torch.randn(8, 4)), retain_graph=True)
""",
}
IN_PARTS = """
optimizer.zero_grad()
with parametrize.cached():  # HERE
    for part in torch.randn(3, 8, 4):
        (loss_of(part) / 3).backward()
optimizer.step()
"""
TWO_LOSSES = """
for step in range(3):
    optimizer.zero_grad()
    with parametrize.cached():  # HERE
        head(torch.tanh(body(torch.randn(8, 4)))).square().mean().backward()
        head(body(torch.randn(8, 4))).abs().mean().backward()
    optimizer.step()
"""
RIGHT = """
for step in range(4):
    with parametrize.cached():
        loss = loss_of(torch.randn(8, 4)) + loss_of(torch.randn(8, 4))
    update(loss)
"""
STATE = """
h = torch.zeros(8, 4)
for step in range(3):
    with parametrize.cached():
        h = torch.tanh(body(h + torch.randn(8, 4)))  # HERE
        update(head(h).square().mean())
"""


@pytest.mark.parametrize("name", CARRIED)
def test_the_line_that_caches_around_several_steps_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + MODEL + CARRIED[name], "state_not_detached", tmp_path)


def test_the_line_that_caches_around_the_parts_of_a_step_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + MODEL + IN_PARTS, "state_not_detached", tmp_path)
    assert_first_alarm(HEAD + MODEL + TWO_LOSSES, "graph_freed", tmp_path)


def test_a_cache_around_one_forward_is_right(tmp_path: Path) -> None:
    assert alarms(HEAD + MODEL + RIGHT, tmp_path) == []


def test_a_state_that_is_carried_over_inside_of_a_cache_is_told_as_such(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + MODEL + STATE, "state_not_detached", tmp_path)
