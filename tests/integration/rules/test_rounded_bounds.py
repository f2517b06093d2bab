"""Numbers that should keep values off the end of a range, and that their dtype rounds to that end."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.dataflow.values.rounded_bounds import rounded
from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
w = nn.Parameter(torch.tensor([0.5, 2.0, -3.0, 0.9]))
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(3):
    p = torch.tanh(20 * w)
    z = BOUND  # HERE
    loss = (RESULT).mean()
"""
    + TRAIN
)
SINGULAR = {
    "atanh": ("p.clamp(-1 + 1e-8, 1 - 1e-8)", "torch.atanh(z)"),
    "the slope of acos": ("p.clamp(-1 + 1e-9, 1 - 1e-9)", "torch.acos(z)"),
    "the logarithm of the complement": ("p.clamp(max=1 - 1e-8)", "torch.log(1 - z)"),
    "log1p": ("p.clamp(min=-1 + 1e-8)", "torch.log1p(z)"),
    "the odds": ("p.clamp(-1 + 1e-8, 1 - 1e-8)", "((1 + z) / (1 - z)).log()"),
    "a reciprocal": ("p.clamp(max=1 - 1e-8)", "1 / (1 - z)"),
    "a bound at 0 in float16": ("p.relu().half().clamp(min=1e-8)", "z.log()"),
    "float16 that is converted later": ("p.half().clamp(-1 + 1e-4, 1 - 1e-4)", "torch.atanh(z.float())"),
    "a factor": ("p * (1 - 1e-8)", "torch.atanh(z)"),
    "a number that is added to 1": ("1 + 1e-9 - p**2", "torch.sqrt(z)"),
    "a distribution that computes atanh": (
        "p.clamp(-1 + 1e-8, 1 - 1e-8)",
        "torch.distributions.TanhTransform().inv(z)",
    ),
    "a program that is refused": (
        "p.clamp(-1 + 1e-8, 1 - 1e-8)",
        "torch.distributions.Categorical(logits=torch.atanh(z)).entropy()",
    ),
}


def script(bound: str, result: str) -> str:
    return SCRIPT.replace("BOUND", bound).replace("RESULT", result)


@pytest.mark.parametrize("case", SINGULAR)
def test_the_rounded_number_is_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(script(*SINGULAR[case]), "nan_from_op", tmp_path)
    (told, *_) = alarms(script(*SINGULAR[case]), tmp_path)
    assert "in float" in told.message
    assert "eps=" in (told.fix or "")


def test_data_that_are_clamped_are_told_there(tmp_path: Path) -> None:
    data = """
actions = torch.randn(16, 1).clamp(-1, 1)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    bounded = actions.clamp(-1 + EPS, 1 - EPS)  # HERE
    latent = torch.atanh(bounded)
    loss = F.mse_loss(model(actions), latent)
"""
    assert_first_alarm(HEAD + data.replace("EPS", "1e-8") + TRAIN, "nan_in_data", tmp_path)
    assert not alarms(HEAD + data.replace("EPS", "1e-6") + TRAIN, tmp_path)


@pytest.mark.parametrize(
    ("bound", "result"),
    [
        ("p.clamp(-1 + 1e-6, 1 - 1e-6)", "torch.atanh(z)"),
        ("p.double().clamp(-1 + 1e-8, 1 - 1e-8)", "torch.atanh(z)"),
        ("p.clamp(-1 + 1e-8, 1 - 1e-8)", "torch.log(1 - z**2 + 1e-6)"),
    ],
)
def test_numbers_that_the_dtype_holds_and_later_ones_that_help_are_right(
    bound: str, result: str, tmp_path: Path
) -> None:
    assert not {each.cause for each in alarms(script(bound, result), tmp_path)} & {"nan_from_op", "nan_in_data"}


@pytest.mark.parametrize(
    ("bound", "result"),
    [
        ("p.clamp(max=1 - 1e-8)", "torch.log(z)"),  # of negative numbers
        ("p.clamp(max=0.5)", "torch.log(1 + z)"),
        ("p.clamp(-1, 1)", "torch.atanh(z)"),
    ],
)
def test_another_cause_stands_at_the_operation(bound: str, result: str, tmp_path: Path) -> None:
    (told, *_) = alarms(script(bound, result), tmp_path)
    assert told.cause == "nan_from_op"
    assert told.location is not None
    assert "torch." in script(bound, result).splitlines()[told.location.line - 1]
    assert "in float" not in told.message


@pytest.mark.parametrize(
    ("number", "dtype", "held"),
    [
        (1 - 1e-8, "float32", 1.0),
        (1 - 1e-7, "float32", 0.9999998807907104),
        (1 - 1e-4, "float16", 1.0),
        (1 - 1e-3, "bfloat16", 1.0),
        (0.5, "bfloat16", 0.5),
        (1e-46, "float32", 0.0),
        (0.1, "float64", None),
        (1e6, "float16", None),
    ],
)
def test_numbers_are_rounded_as_torch_does(number: float, dtype: str, held: float | None) -> None:
    assert rounded(number, dtype) == held
