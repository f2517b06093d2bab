"""A share of the corpus of real failures: some families, and controls that look suspicious; `make corpus` runs all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.command import gradviz

CASES = Path(__file__).parents[1] / "corpus" / "cases"

FAULTS = (
    "c03_grad_none_no_grad_decorator",
    "c22_grad_zero_softmax_one_logit",
    "c32_grad_nan_where_log",
    "c37_raises_memory_bank_updated_early",
    "c41_raises_two_losses_one_graph",
    "c50_raises_backward_count",
    "c18_raises_empty_parameter_list",
)
CONTROLS = ("n01_control_target_network", "n06_control_gradient_accumulation", "n12_control_lora_zero_init")


def alarms(case: str, folder: Path) -> list[dict[str, Any]]:
    shutil.copy(CASES / case / "script.py", folder / "train.py")
    run = gradviz("check", "train.py", "--format", "json", cwd=folder)
    return [each for each in json.loads(run.stdout)["findings"] if each["severity"] != "note"]


@pytest.mark.parametrize("case", FAULTS)
def test_the_first_finding_is_the_cause_with_its_line(case: str, tmp_path: Path) -> None:
    expected = json.loads((CASES / case / "expected.json").read_text(encoding="utf-8"))
    first = alarms(case, tmp_path)[0]
    lines = expected["line"] if isinstance(expected["line"], list) else [expected["line"]]
    assert (first["cause"], first["line"] in lines) == (expected["cause"], True), first


@pytest.mark.parametrize("case", CONTROLS)
def test_what_only_looks_suspicious_alarms_nobody(case: str, tmp_path: Path) -> None:
    assert alarms(case, tmp_path) == []
