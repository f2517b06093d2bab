"""The README shows the real output of commands and code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gradviz.cli import COMMANDS
from tests.end_to_end.command import gradviz

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```console\n\$ (gradviz [^\n]*)\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_a_command_prints_what_the_readme_shows(command: str, output: str, tmp_path: Path) -> None:
    (tmp_path / "samples").symlink_to(REPOSITORY / "samples")
    (tmp_path / "docs").symlink_to(REPOSITORY / "docs")
    run = gradviz(*shlex.split(command)[1:], cwd=tmp_path)
    assert run.exit_code == (1 if command.startswith("gradviz diff") else 0)
    if output.endswith("\n...\n"):  # the rest differs from run to run, as times do
        assert run.stdout.startswith(output.removesuffix("...\n"))
    else:
        assert run.stdout == output


def test_the_python_that_the_readme_shows_runs(tmp_path: Path) -> None:
    examples = "".join(re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
    given = (
        "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(4, 2))\n"
        "inputs = torch.ones(3, 4)\nloss = model(inputs).sum()\n"
    )
    run = subprocess.run([sys.executable, "-c", given + examples], cwd=tmp_path, capture_output=True, text=True)
    assert run.stderr == ""
    assert {path.name for path in tmp_path.iterdir()} == {"net.svg"}


def test_the_readme_can_be_read_at_once_and_soon_shows_a_command_with_its_output() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert lines.index("```console") < 40
    assert len(EXAMPLES) >= 3


def test_everything_that_the_readme_links_to_is_there() -> None:
    links = re.findall(r'(?:\]\(|src=")([^)"#]+)', README)
    local = [link for link in links if "://" not in link]
    assert local
    assert [link for link in local if not (REPOSITORY / link).exists()] == []


def test_every_option_that_the_readme_names_exists() -> None:
    known = "".join(gradviz(command, "--help", cwd=REPOSITORY).stdout for command in COMMANDS)
    known += (REPOSITORY / "gradviz" / "pytest_plugin.py").read_text(encoding="utf-8")  # adds options to pytest
    # What stands behind a lone -- belongs to the script.
    named = set(re.findall(r"(--[a-z][a-z-]+)", re.sub(r" -- [^`]*", "", README)))
    assert {option for option in named if option not in known} == set()
