"""A torch that is older than any that was tried is refused in one line; of a newer one it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import GRADVIZ, Run, forked, refusal

PROGRAM = Path(__file__).parents[3] / "samples" / "mlp.py"


def gradviz_on(version: str, *arguments: str | Path, cwd: Path) -> Run:
    entry = "tests.integration.torch_access.other_version:run_gradviz"
    return forked(entry, GRADVIZ, version, *arguments, cwd=cwd)


def in_one_line(text: str) -> str:
    return " ".join(text.split())


NEWER = "2.99.0 does in a new way: it is newer than any that gradviz was tried with (2.6 to 2.15)"


def test_a_newer_torch_is_recorded_and_said_to_be_newer(tmp_path: Path) -> None:
    run = gradviz_on("2.99.0", "tree", PROGRAM, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert "NllLossBackward0" in run.stdout
    assert f"not recorded: what torch {NEWER}" in in_one_line(run.stdout)


def test_check_on_a_newer_torch_says_so_in_text_and_data(tmp_path: Path) -> None:
    assert NEWER in in_one_line(gradviz_on("2.99.0", "check", PROGRAM, cwd=tmp_path).stdout)
    report = json.loads(gradviz_on("2.99.0", "check", "--format", "json", PROGRAM, cwd=tmp_path).stdout)
    assert [each for each in report["disclosures"] if NEWER in each]


@pytest.mark.parametrize("version", ["2.15.0", "2.15.3+cu132", "2.6.0"])
def test_nothing_is_said_of_a_torch_that_was_tried(version: str, tmp_path: Path) -> None:
    run = gradviz_on(version, "check", "--format", "json", PROGRAM, cwd=tmp_path)
    assert json.loads(run.stdout)["disclosures"] == []


@pytest.mark.parametrize("command", ["tree", "check", "render", "flow", "memory"])
def test_an_older_torch_is_refused_in_one_line(command: str, tmp_path: Path) -> None:
    said = refusal(gradviz_on("2.5.1", command, PROGRAM, cwd=tmp_path))
    assert said == ("torch 2.5.1 cannot be recorded: gradviz needs torch 2.6 or newer; it was tried with 2.6 to 2.15")
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_says_that_an_older_torch_cannot_be_recorded(tmp_path: Path) -> None:
    run = gradviz_on("2.5.1", "doctor", cwd=tmp_path)
    assert run.exit_code == 1
    first, _, problem = run.stdout.splitlines()[:3]
    assert first == "1 problem"
    assert problem.startswith("✗ problem  torch  torch 2.5.1 cannot be recorded: gradviz needs torch 2.6 or")


def test_the_doctor_says_that_a_newer_torch_was_not_tried(tmp_path: Path) -> None:
    run = gradviz_on("2.99.0", "doctor", "--json", cwd=tmp_path)
    assert run.exit_code == 0
    (torch,) = (each for each in json.loads(run.stdout)["versions"] if each["name"] == "torch")
    assert torch["state"] == "limited"
    assert "newer than any that gradviz was tried with (2.6 to 2.15)" in torch["found"]
