"""A custom backward that never names the gradient that it gets: told at its return, whatever line computes the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm

DICE = """
import torch
torch.manual_seed(0)
class Overlap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, p, t):
        inter, both = (p * t).sum(1), p.sum(1) + t.sum(1) + 1
        ctx.save_for_backward(t, inter, both)
        return 1 - (2 * inter + 1) / both

    @staticmethod
    def backward(ctx, {given}):
        t, inter, both = ctx.saved_tensors
        both = both.unsqueeze(1)
        {body}

net = torch.nn.Linear(4, 6)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x, t = torch.randn(8, 4), (torch.rand(8, 6) > 0.5).float()
    each = Overlap.apply(net(x).sigmoid(), t)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SLOPE = "to_p = -(2 * t * both - (2 * inter.unsqueeze(1) + 1)) / both.pow(2)"
WEIGHED = "(each * torch.rand(8)).sum()"
UNUSED = {
    "one gradient": ("grad_out", f"{SLOPE}\n        return to_p, None  # HERE"),
    "any number of gradients": ("*grads", f"{SLOPE}\n        return to_p, None  # HERE"),
    "a branch returns nothing": (
        "grad_out",
        f"if not ctx.needs_input_grad[0]:\n            return None, None\n        {SLOPE}\n"
        "        return to_p, None  # HERE",
    ),
}


@pytest.mark.parametrize("name", UNUSED)
def test_a_gradient_that_backward_never_names_is_told_at_its_return(name: str, tmp_path: Path) -> None:
    given, body = UNUSED[name]
    script = DICE.format(given=given, body=body, loss=WEIGHED)
    assert_first_alarm(script, "custom_function_wrong_backward", tmp_path)
    first = alarms(script, tmp_path)[0]
    assert f"never uses the gradient that it gets, {given.strip('*')}, and" in first.message
    assert first.fix == f"multiply by {given.strip('*')}"


NAMED = {
    "it is used for its type": f"{SLOPE}.to(grad_out)  # HERE\n        return to_p, None",
    "it is used in a wrong formula": f"{SLOPE} * 3 * grad_out.unsqueeze(1)  # HERE\n        return to_p, None",
}


@pytest.mark.parametrize("name", NAMED)
def test_a_gradient_that_backward_names_is_told_where_it_is_computed(name: str, tmp_path: Path) -> None:
    script = DICE.format(given="grad_out", body=NAMED[name], loss=WEIGHED)
    assert_first_alarm(script, "custom_function_wrong_backward", tmp_path)
    assert "never uses" not in alarms(script, tmp_path)[0].message


HEALTHY = {
    "it is multiplied by": (f"{SLOPE}\n        return grad_out.unsqueeze(1) * to_p, None", WEIGHED),
    "it is handed to a helper": (
        f"{SLOPE}\n        return torch.einsum('b,bp->bp', *(grad_out, to_p)), None", WEIGHED,
    ),
    "it is 1 everywhere, as the loss is the sum": (f"{SLOPE}\n        return to_p, None", "each.sum()"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_a_right_gradient_is_not_told(name: str, tmp_path: Path) -> None:
    body, loss = HEALTHY[name]
    assert alarms(DICE.format(given="grad_out", body=body, loss=loss), tmp_path) == []
