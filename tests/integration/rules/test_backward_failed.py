"""An error of a backward that ended the program is always told: by the rule that knows why, else by the last net."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.check.report import check_report
from gradviz.analysis.rules import RULES
from gradviz.rendering.reports.findings.text import FindingsText
from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm, recorded

FUNCTION = """
class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return {returned}  # HERE
"""
LAYER = "layer = nn.Linear(3, 3)\nh = layer(torch.randn(4, 3))\n"
TURNED = "Turn.apply(h).square().sum()"
FROM_FUNCTION = f"{FUNCTION}{LAYER}{TURNED}.backward()\n"
COMPLEX_LOSS = f"{LAYER}torch.complex(h, h).sum().backward()  # HERE\n"
NO_INPUTS = f"{LAYER}h.sum().backward(inputs=[])  # HERE\n"
WITHOUT_BACKWARD = f"""
class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
{LAYER}{TURNED}.backward()  # HERE
"""
RECOMPUTED_OTHERWISE = """
from torch.utils.checkpoint import checkpoint
layer, runs = nn.Linear(3, 3), []
def block(x):
    runs.append(x)
    return layer(x).tanh() if len(runs) == 1 else layer(x)
checkpoint(block, torch.randn(4, 3), use_reentrant=False).sum().backward()
"""
OF_A_HOOK = f"{LAYER}h.register_hook(lambda grad: torch.ones(2, 2) @ grad)  # HERE\nh.sum().backward()\n"
ASKS_FOR_DETACHED = """
layer = nn.Linear(3, 3)
x = torch.randn(4, 3)
h = layer(x).tanh()
start = h.detach()  # HERE
again = layer(start).tanh()
def solve(grad):
    return grad + torch.autograd.grad(again, start, grad, retain_graph=True)[0]
h.register_hook(solve)
h.sum().backward()
"""
NOT_USED = f"x = torch.randn(4, 3)\n{LAYER}torch.autograd.grad(h.sum(), x)  # HERE\n"
ANOMALY = f"""
import warnings
warnings.simplefilter("ignore")
{LAYER}with torch.autograd.detect_anomaly():
    (h * 0).sqrt().sum().backward()
"""
BESIDE_ANOTHER_ALARM = f"""
idle = nn.Linear(3, 3)
optimizer = torch.optim.SGD(idle.parameters(), lr=0.1)
{LAYER}h.sum().backward(inputs=[])  # HERE
"""


@pytest.mark.parametrize(
    "program",
    [
        FROM_FUNCTION.format(returned="grad @ torch.ones(7, 3)"), COMPLEX_LOSS, NO_INPUTS, WITHOUT_BACKWARD,
        OF_A_HOOK, ASKS_FOR_DETACHED, NOT_USED, BESIDE_ANOTHER_ALARM,
    ],
)  # fmt: skip
def test_an_error_that_no_rule_explains_is_told_with_what_torch_said(program: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + program, "backward_failed", tmp_path)


@pytest.mark.parametrize("call", [".backward()", ".grad"])
def test_it_names_the_operation_that_failed_and_the_line_that_backward_ran(call: str, tmp_path: Path) -> None:
    script = HEAD + FROM_FUNCTION.format(returned="grad @ torch.ones(7, 3)")
    if call == ".grad":
        script = script.replace(f"{TURNED}.backward()", f"torch.autograd.grad({TURNED}, layer.weight)")
    (found,) = alarms(script, tmp_path)
    raised = next(number for number, line in enumerate(script.splitlines(), start=1) if "return grad" in line)
    assert (
        "raised in TurnBackward, whose forward ran at line 17, and ended the program; cause not found" in found.message
    )
    assert "mat1 and mat2 shapes cannot be multiplied (4x3 and 7x3)" in found.message
    assert found.location is not None
    assert found.location.line == raised


@pytest.mark.parametrize(
    ("cause", "program"),
    [
        ("graph_freed", f"{LAYER}loss = h.square().sum()\nloss.backward()\nloss.backward()\n"),
        ("inplace_modified_saved", f"{LAYER}h = h.exp()\nh.mul_(2)\nh.sum().backward()\n"),
        ("no_grad_block", f"{LAYER}with torch.no_grad():\n    h = layer(h)\nh.sum().backward()\n"),
        ("grad_argument", f"{LAYER}h.square().backward()\n"),
        ("grad_argument", f"{LAYER}h.backward(torch.ones(4))\n"),
        ("requires_grad_false", "x = torch.randn(3)\nx.square().sum().backward()\n"),
        ("custom_function_bad_return", FROM_FUNCTION.format(returned="grad[:2, :2]")),
        ("custom_function_bad_return", FROM_FUNCTION.format(returned="2 * grad, grad")),
        ("hook_alters_grad", f"{LAYER}h.register_hook(lambda grad: grad[:2])\nh.sum().backward()\n"),
        ("nan_from_op", ANOMALY),
        ("checkpoint_changes_state", RECOMPUTED_OTHERWISE),
    ],
)
def test_an_error_that_a_rule_explains_is_told_once(cause: str, program: str, tmp_path: Path) -> None:
    assert {each.cause for each in alarms(HEAD + program, tmp_path)} == {cause}


@pytest.mark.parametrize(
    "program",
    [
        f"{LAYER}try:\n    h.sum().backward(inputs=[])\nexcept RuntimeError:\n    h.sum().backward()\n",
        f"{LAYER}try:\n    h.sum().backward(inputs=[])\nexcept RuntimeError:\n    pass\nlayer(torch.ones(4, 5))\n",
        f"def stop(grad):\n    raise ValueError('seen')\n{LAYER}h.register_hook(stop)\nh.sum().backward()\n",
        f"def stop(grad):\n    raise KeyboardInterrupt\n{LAYER}h.register_hook(stop)\nh.sum().backward()\n",
        f"{LAYER}h.sum().backward()\nlayer(torch.ones(4, 5)).sum().backward()\n",
    ],
    ids=["caught", "caught, and ended by another", "raised by the program", "interrupted", "raised by the forward"],
)
def test_other_ends_of_a_program_are_no_failed_backward(program: str, tmp_path: Path) -> None:
    assert alarms(HEAD + program, tmp_path) == []


REENTRANT = """
from torch.utils.checkpoint import checkpoint
layer = nn.Linear(3, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
checkpoint(layer, torch.randn(4, 3), use_reentrant=True).sum().backward()
"""
ONCE_DIFFERENTIABLE = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad
w = torch.randn(6, requires_grad=True)
(g,) = torch.autograd.grad(Square.apply(torch.randn(20, 6) @ w).pow(2).mean(), w, create_graph=True)
torch.autograd.grad(g @ torch.ones(6), w)
"""


@pytest.mark.parametrize(
    ("cause", "program"),
    [("reentrant_checkpoint", REENTRANT), ("double_backward_unsupported", ONCE_DIFFERENTIABLE)],
)
def test_what_says_why_there_is_no_path_explains_that_torch_found_none(
    cause: str, program: str, tmp_path: Path
) -> None:
    quiet = HEAD + "import warnings\nwarnings.simplefilter('ignore')\n"
    assert {each.cause for each in alarms(quiet + program, tmp_path)} == {cause}


def test_a_report_of_notes_also_says_that_the_program_raised(tmp_path: Path) -> None:
    program = f"{LAYER}layer(torch.ones(2, 3))\nh.sum().backward()\nlayer(torch.ones(4, 5))\n"
    report = check_report(recorded(HEAD + program, tmp_path), RULES)
    first = FindingsText(500).text(report).splitlines()[0]
    assert first.endswith("train.py: 1 note, and it raised RuntimeError, which no rule explains")
