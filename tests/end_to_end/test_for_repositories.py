"""What other repositories use of this one: the GitHub action, the hook of pre-commit, and files that services read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradviz import __version__
from tests.end_to_end.command import GRADVIZ

REPOSITORY = Path(__file__).parents[2]
SCRIPTS = REPOSITORY / "docs" / "scripts"


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("github-actions", "action.yml"),
        ("github-workflows", ".github/workflows/test.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/question.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_a_file_has_the_form_that_its_service_reads(schema: str, file: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", file]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_file_that_names_the_version_names_that_of_the_package() -> None:
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    assert f"## [{__version__}]" in (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")


def test_the_hook_of_pre_commit_is_valid() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml"]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_action_reports_each_script_and_fails_if_one_has_findings(tmp_path: Path) -> None:
    for name in ("detached_encoder.py", "first_network.py"):
        (tmp_path / name).write_bytes((SCRIPTS / name).read_bytes())
    given = {"SCRIPTS": "detached_encoder.py first_network.py missing.py", "RUN_OPTIONS": "--steps 2", "OUT": "out"}
    path = f"{GRADVIZ.parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", str(REPOSITORY / ".github" / "check_scripts.sh")],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, **given},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert re.search(r"::error file=\S*detached_encoder.py,line=13,title=GV101", run.stdout)
    assert "::error file=missing.py::gradviz could not check it (exit code 2)" in run.stdout
    assert "first_network.py,line" not in run.stdout
    results = {
        name: json.loads((tmp_path / "out" / f"{name}.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
        for name in ("detached_encoder", "first_network")
    }
    assert (len(results["detached_encoder"]), len(results["first_network"])) == (1, 0)
    assert (tmp_path / "out" / "first_network.svg").exists()


def test_the_action_says_so_if_there_is_nothing_to_check(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("SCRIPTS", "BASE")}
    run = subprocess.run(
        ["bash", str(REPOSITORY / ".github" / "check_scripts.sh")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout) == (0, "no script to check: name some with 'scripts:'\n")
