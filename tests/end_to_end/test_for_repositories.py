"""What other repositories use of this one: the GitHub action, the hook of pre-commit, and files that services read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gradviz import __version__
from tests.end_to_end.command import GRADVIZ

REPOSITORY = Path(__file__).parents[2]
SCRIPTS = REPOSITORY / "docs" / "scripts"
PAGE = REPOSITORY / "docs" / "how_to" / "ci.md"


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


@pytest.mark.parametrize(
    ("name", "validation"),
    [
        (".github/workflows/gradients.yml", ["check_jsonschema", "--builtin-schema", "vendor.github-workflows"]),
        (".pre-commit-config.yaml", ["pre_commit", "validate-config"]),
    ],
)
def test_a_file_that_the_documentation_tells_to_write_is_valid(
    name: str, validation: list[str], tmp_path: Path
) -> None:
    file = tmp_path / Path(name).name
    file.write_text(_documented(name), encoding="utf-8")
    run = subprocess.run([sys.executable, "-m", *validation, str(file)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_documented_step_gives_the_action_only_what_it_takes() -> None:
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
    (job,) = yaml.safe_load(_documented(".github/workflows/gradients.yml"))["jobs"].values()
    (step,) = [step for step in job["steps"] if "/gradviz@" in step.get("uses", "")]
    assert set(step["with"]) <= set(action["inputs"])
    assert step["uses"].endswith(f"@v{__version__}")


def _documented(name: str) -> str:
    """The content of a file that the page on continuous integration shows."""
    (content,) = re.findall(
        rf"```yaml\n# {re.escape(name)}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    return str(content)


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
    runs = {
        name: json.loads((tmp_path / "out" / f"{name}.sarif").read_text(encoding="utf-8"))["runs"][0]
        for name in ("detached_encoder", "first_network")
    }
    assert [len(run["results"]) for run in runs.values()] == [1, 0]
    # Code scanning refuses an upload in which two runs have the same id.
    assert [run["automationDetails"]["id"] for run in runs.values()] == [f"gradviz/{name}.py/" for name in runs]
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
