"""What every command says of itself, and what all commands have in common."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from gradviz.capture.capture import Capture, Program
from gradviz.capture.capture_file import write_capture
from gradviz.cli import COMMANDS, gradviz, run
from gradviz.cli.options.examples import EXAMPLES
from gradviz.cli.terminal.terminal import WIDTH_IN_A_PIPE, standard_output
from tests.builders import graph_of


def command(name: str) -> click.Command:
    found = gradviz.get_command(click.Context(gradviz), name)
    assert found is not None
    return found


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A capture in the working directory."""
    monkeypatch.chdir(tmp_path)
    made = Capture(Program("train.py"), graphs=(graph_of("w -> Relu -> Sum -> loss"),))
    Path("net.gradviz").write_bytes(write_capture(made))
    return "net.gradviz"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_with_three_examples_of_options_that_exist(name: str) -> None:
    shown = command(name).get_help(click.Context(command(name), info_name=name))
    assert shown.index("Examples:") < shown.index("Options:")
    assert len(EXAMPLES[name]) == 3
    for line, _ in EXAMPLES[name]:
        assert line in shown
        program, other, *words = shlex.split(re.split(" >>? ", line)[0])
        assert program == "gradviz"
        command(other).make_context(other, words, resilient_parsing=False).close()


def test_a_second_script_is_refused_and_an_argument_after_dashes_is_not(
    capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tree", "a.py", "b.py"]) == 2
    assert "one script or recording at a time: 'b.py'" in capsys.readouterr().err
    assert run(["tree", "a.py", "--", "b.py"]) == 2
    assert "one script" not in capsys.readouterr().err


def test_a_folder_that_is_made_for_a_file_is_named(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["render", capture, "-o", "new/net.svg"]) == 0
    assert "made the folder 'new'" in capsys.readouterr().err
    assert run(["render", capture, "-o", "new/other.svg"]) == 0
    assert "made the folder" not in capsys.readouterr().err


def test_view_with_a_file_names_the_command_that_writes_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["view", "train.py", "-o", "net"]) == 2
    assert "gradviz render train.py -o net.html" in capsys.readouterr().err


def test_columns_is_the_width_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert standard_output().width == 80
    for nothing in ("", "0", "wide"):
        monkeypatch.setenv("COLUMNS", nothing)
        assert standard_output().width == WIDTH_IN_A_PIPE


def test_a_defect_of_gradviz_is_one_line_and_its_traceback_is_in_a_file(
    capture: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("tree of no size")

    monkeypatch.setattr("tempfile.tempdir", str(Path.cwd()))
    monkeypatch.setattr(command("tree"), "callback", broken)
    assert run(["tree", capture]) == 70
    (written,) = Path.cwd().glob("gradviz-defect-*.txt")
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "ZeroDivisionError: tree of no size" in told and written.name in told
    assert "in broken" in written.read_text()
