"""What a shell asks for when the user presses the tabulator key, and what it gets."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gradviz.cli.completion import SHELLS, VARIABLE
from tests.end_to_end.command import gradviz, refusal


def completions(line: str, cwd: Path) -> list[str]:
    """What bash is offered at the end of a line, with its kind."""
    words = line.split(" ")
    asked = {VARIABLE: "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return gradviz(cwd=cwd, env=asked).stdout.splitlines()


def test_commands_options_and_files_are_completed(tmp_path: Path) -> None:
    assert completions("gradviz re", tmp_path) == ["plain,render", "plain,replay", "plain,record"]
    assert "plain,--keep-going" in completions("gradviz render --ke", tmp_path)
    assert completions("gradviz render tra", tmp_path) == ["file,tra"]
    assert completions("gradviz diff a.gradviz tra", tmp_path) == ["file,tra"]
    assert completions("gradviz completion f", tmp_path) == ["plain,fish"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_that_it_can_read(shell: str, tmp_path: Path) -> None:
    run = gradviz("completion", shell, cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    assert VARIABLE in run.stdout
    if shutil.which(shell):
        read = subprocess.run([shell, "-n"], input=run.stdout, capture_output=True, text=True)
        assert (read.returncode, read.stderr) == (0, "")


def test_another_shell_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    refused = refusal(gradviz("completion", "tcsh", cwd=tmp_path))
    assert refused == "unknown shell 'tcsh'; did you mean 'zsh' or 'fish' or 'bash'?"
