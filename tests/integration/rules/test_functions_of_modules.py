"""Custom functions whose forward calls a module that they are given, and whose backward calls it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

EULER = """
class Euler(torch.autograd.Function):
    @staticmethod
    def forward(ctx, field, z, steps, h, *parameters):
        states = [z]
        with torch.no_grad():
            for _ in range(steps):
                states.append(states[-1] + h * field(states[-1]))
        ctx.field, ctx.h, ctx.parameters = field, h, parameters
        ctx.save_for_backward(SAVED)
        return states[-1]
    @staticmethod
    def backward(ctx, grad):
        sums = [torch.zeros_like(each) for each in ctx.parameters]
        BEGIN
            with torch.enable_grad():
                z = z.detach().requires_grad_()
                change = ctx.field(z)
            grads = torch.autograd.grad(change, (z, *ctx.parameters), grad * ctx.h)HERE
            AGAIN
            grad = grad + grads[0]
            sums = [one + other for one, other in zip(sums, grads[1:])]
        return None, grad, None, None, *sums
field, head = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3)), nn.Linear(3, 1)
optimizer = torch.optim.Adam([*field.parameters(), *head.parameters()], lr=0.01)
data = torch.randn(16, 3)
for step in range(4):
    z = Euler.apply(field, data.requires_grad_(), 5, 0.5, *field.parameters())
    loss = (head(z) - 1).square().mean()
"""


def euler(states: str, again: str = "pass") -> str:
    script = EULER.replace("SAVED", "*states").replace("BEGIN", f"for z in reversed(ctx.saved_tensors[{states}]):")
    return HEAD + script.replace("AGAIN", again) + TRAIN


def continuous(sign: str = "-") -> str:
    """The adjoint equation of the flow, back in time from the last state."""
    begin = "(z,) = ctx.saved_tensors\n        for _ in range(5):"
    script = EULER.replace("SAVED", "states[-1]").replace("BEGIN", begin)
    return HEAD + script.replace("AGAIN", f"z = z {sign} ctx.h * change") + TRAIN


def test_an_adjoint_at_other_states_than_those_of_forward_is_told(tmp_path: Path) -> None:
    assert_first_alarm(euler("1:").replace("HERE", "  # HERE"), "custom_function_wrong_backward", tmp_path)


def test_an_adjoint_at_the_states_of_forward_is_right(tmp_path: Path) -> None:
    assert not alarms(euler(":-1").replace("HERE", ""), tmp_path)


def test_a_continuous_adjoint_is_near_and_no_alarm(tmp_path: Path) -> None:
    assert not alarms(continuous().replace("HERE", ""), tmp_path)
    found = findings(continuous().replace("HERE", ""), tmp_path)
    assert [each.severity for each in found if each.cause == "custom_function_wrong_backward"] == ["note"]


RECOMPUTED = """
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block, ctx.parameters = block, parameters
        ctx.save_for_backward(x)
        with torch.no_grad():
            return block(x)
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = ctx.block(x)
        grads = torch.autograd.grad(y, (x, *ctx.parameters), GIVEN)  # HERE
        return None, *grads
block, stem = nn.Sequential(nn.Linear(4, 8), NORM, nn.Tanh(), nn.Linear(8, 4)), nn.Linear(4, 4)
optimizer = torch.optim.Adam([*block.parameters(), *stem.parameters()], lr=0.01)
for step in range(4):
    x = torch.randn(16, 4)
    loss = (Again.apply(block, stem(x), *block.parameters()) - x.square()).square().mean()
"""


@pytest.mark.parametrize("norm", ["nn.LayerNorm(8)", "nn.BatchNorm1d(8)"])
def test_a_backward_that_computes_a_block_again(norm: str, tmp_path: Path) -> None:
    script = HEAD + RECOMPUTED.replace("NORM", norm) + TRAIN
    assert not alarms(script.replace("GIVEN", "grad"), tmp_path)
    assert_first_alarm(script.replace("GIVEN", "-grad"), "custom_function_wrong_backward", tmp_path)


def test_modules_in_a_list_are_called_again(tmp_path: Path) -> None:
    script = RECOMPUTED.replace("return block(x)", "return block[0](x)").replace("ctx.block(x)", "ctx.block[0](x)")
    script = script.replace("Again.apply(block,", "Again.apply([block],").replace("NORM", "nn.Tanh()")
    assert_first_alarm(HEAD + script.replace("GIVEN", "-grad") + TRAIN, "custom_function_wrong_backward", tmp_path)


def test_a_backward_that_draws_other_numbers_is_not_compared(tmp_path: Path) -> None:
    script = HEAD + RECOMPUTED.replace("NORM", "nn.Dropout(0.5)").replace("GIVEN", "grad") + TRAIN
    assert "custom_function_wrong_backward" not in {each.cause for each in findings(script, tmp_path)}


def test_the_input_whose_gradient_is_wrong_is_named_as_forward_names_it(tmp_path: Path) -> None:
    (found, *_) = alarms(euler("1:").replace("HERE", ""), tmp_path)
    assert "for its second input, z: " in found.message


MARGINAL = """
class Marginal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, k, y):
        low = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y[:, None], low)
        ctx.save_for_backward(low, alpha)
        return 0.5 * (y @ alpha[:, 0]) + low.diagonal().log().sum()
    @staticmethod
    def backward(ctx, grad):
        low, alpha = ctx.saved_tensors
        return FACTOR * grad * (torch.cholesky_inverse(low) - alpha @ alpha.T), None
scale = nn.Parameter(torch.zeros((), dtype=torch.double))
optimizer = torch.optim.SGD([scale], lr=0.01)
x = torch.linspace(0, 3, 12, dtype=torch.double)
for step in range(4):
    k = scale.exp() * torch.exp(-(x[:, None] - x).square()) + 0.1 * torch.eye(12, dtype=torch.double)
    loss = Marginal.apply(k, x.sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("factor", "causes"), [("0.5", []), ("1.0", ["custom_function_wrong_backward"])])
def test_the_gradient_of_a_symmetric_matrix_is_compared_on_both_sides(
    factor: str, causes: list[str], tmp_path: Path
) -> None:
    """The forward reads one triangle alone, as a Cholesky decomposition does; the backward returns half to each."""
    assert [each.cause for each in alarms(HEAD + MARGINAL.replace("FACTOR", factor), tmp_path)] == causes
