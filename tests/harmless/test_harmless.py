"""A part of what ``make harmless`` compares: quick programs of every kind; and that the harness itself can see."""

# Much of torch has no types: backward, register_hook.
# mypy: allow-untyped-calls
from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.harmless.__main__ import PROGRAMS, SAMPLES
from tests.harmless.callables import recorded_differences
from tests.harmless.comparing import differences
from tests.harmless.describing import describe
from tests.harmless.forked_programs import environment
from tests.harmless.running import compare, forked
from tests.prepared.process import PreparedProcess

QUICK = (
    "autocast",
    "checkpoints",
    "custom_functions",
    "forward_mode",
    "hooks_of_every_kind",
    "in_place_and_views",
    "inference_mode",
    "modes_of_the_program",
    "nested_backward",
    "saved_tensors_hooks",
    "ten_steps_of_training",
    "tensor_subclasses",
    "warnings_of_torch",
    "what_is_let_go",
)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PreparedProcess]:
    """One process for all programs of this file."""
    with PreparedProcess(environment(tmp_path_factory.mktemp("prepared"))) as started:
        yield started


@pytest.mark.parametrize("name", [*QUICK, "crash_in_backward", "no_backward"])
def test_a_program_is_the_same_recorded(name: str, process: PreparedProcess, tmp_path: Path) -> None:
    script = next(path for folder in (PROGRAMS, SAMPLES) if (path := folder / f"{name}.py").exists())
    comparison = compare(script, tmp_path, forked(process))
    assert [str(difference) for difference in comparison.differences] == []
    assert not [sentence for sentence in comparison.disclosures if "defect of gradviz" in sentence]
    assert comparison.graphs


def test_a_compiled_program_is_the_same_where_its_backward_runs_again(process: PreparedProcess, tmp_path: Path) -> None:
    comparison = compare(PROGRAMS / "compiled_aot.py", tmp_path, forked(process), "inside")
    assert [str(difference) for difference in comparison.differences] == []
    assert any("a second run" in sentence for sentence in comparison.disclosures)


def test_a_function_is_the_same_recorded() -> None:
    def step() -> tuple[nn.Module, torch.optim.Optimizer, Tensor]:
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(model.parameters())
        loss = model(torch.randn(2, 3)).sum()
        loss.backward()
        optimizer.step()
        return model, optimizer, loss

    step()  # some releases of torch import a module when the first optimizer steps
    assert recorded_differences(step) == []


def test_the_harness_notices_what_differs() -> None:
    calls: list[int] = []

    def step() -> Tensor:
        calls.append(len(calls))
        weight = torch.ones(2, requires_grad=True)
        (weight * len(calls)).sum().backward()
        if len(calls) > 1:
            random.random()
            weight.register_hook(print)
        return weight

    found = {difference.place for difference in recorded_differences(step)}
    expected = {"objects: returned", "objects: returned.grad", "random state: random state of Python"}
    assert found == {f"at end, {place}" for place in expected}


def test_identity_is_described() -> None:
    gradient = torch.ones(2)
    kept, replaced = torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    kept.grad, replaced.grad = gradient, gradient.clone()
    told = [describe({"before": gradient, "leaf": leaf})["leaf.grad"] for leaf in (kept, replaced)]
    assert told[0] == "the Tensor at before"
    assert told[1] != told[0]


def test_a_run_that_ended_early_is_no_agreement() -> None:
    nothing: dict[str, Any] = {"exit code": 1, "stdout": "", "stderr": "killed", "end": {}, "exit": {}}
    (found,) = differences(nothing, nothing)
    assert found.place == "a run ended before it could be looked at"
