"""Whatever is wrong with the command is said in one line, with exit code 2, and nothing is left half-written.

`refusal` checks the form; the tests check that the line names the culprit and, where there is one, the remedy.
Where torch is not needed to tell, the script is not run: it would have printed something.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradviz.capture.capture_file import FORMAT_VERSION
from tests.end_to_end.command import gradviz, python, refusal, refused, written_script

as_ordinary_user = pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not stop the superuser")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- what to run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["render", "tree", "record"])
def test_no_such_script_is_reported_with_the_nearest_there_is(command: str, folder: Path) -> None:
    found = refused(command, "trian.py", cwd=folder)
    assert "no such script: trian.py" in found
    assert "did you mean 'train.py'" in found


def test_a_script_is_not_the_nearest_for_its_ending(folder: Path) -> None:
    found = refused("render", "nowhere.py", cwd=folder)
    assert "did you mean" not in found
    assert "train.py" in found


@pytest.mark.parametrize("name", ["nowhere/train.py", "train.py/train.py", "x" * 300 + ".py", "nul\N{SNOWMAN}.py"])
def test_no_such_path_is_reported(name: str, folder: Path) -> None:
    assert name in refused("render", name, cwd=folder)


@pytest.mark.parametrize("command", ["render", "tree", "record"])
def test_nothing_to_run_is_reported(command: str, folder: Path) -> None:
    assert "nothing to run" in refused(command, cwd=folder)


def test_a_word_is_no_number_of_levels(folder: Path) -> None:
    assert refused("tree", "--depth", "many", "train.py", cwd=folder).endswith("'many' is not a valid integer")


def test_a_directory_is_no_script(folder: Path) -> None:
    (folder / "project").mkdir()
    found = refused("render", "project", cwd=folder)
    assert "project is a directory" in found
    assert "-m" in found


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.pt", b"PK\x03\x04\0\0\0\0\x80\x02"),
        ("notebook.ipynb", b'{"cells": [], "nbformat": 4}'),
        ("drawing.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><path d="M1 2"/></svg>'),
        ("picture.svg", b"\x89PNG\r\n\x1a\n\0\0\0"),
    ],
)
def test_what_is_not_python_is_no_script(name: str, content: bytes, folder: Path) -> None:
    (folder / name).write_bytes(content)
    assert f"{name} is not a Python script" in refused("render", name, cwd=folder)


@pytest.mark.parametrize("content", ["", "  \n\n"])
def test_an_empty_script_is_reported(content: str, folder: Path) -> None:
    written_script(folder, content, "empty.py")
    assert "empty.py is empty" in refused("render", "empty.py", cwd=folder)


@pytest.mark.parametrize("content", [b"x = (1 +\n", b"print 1\n", b"def f(x):\n    return 1\n  x = 2\n"])
def test_a_syntax_error_is_shown_as_python_shows_it(content: bytes, folder: Path) -> None:
    (folder / "train.py").write_bytes(content)
    native, run = python(folder / "train.py", cwd=folder), gradviz("render", folder / "train.py", cwd=folder)
    assert (run.exit_code, run.stdout) == (2, "")
    assert run.stderr == native.stderr
    assert "train.svg" not in names(folder)


def test_a_script_in_an_unknown_encoding_is_reported(folder: Path) -> None:
    (folder / "train.py").write_bytes(b"name = '\xff\xfe'\n")
    run = gradviz("render", "train.py", cwd=folder)
    assert (run.exit_code, run.stdout) == (2, "")
    assert "train.py" in run.stderr
    assert run.stderr.splitlines()[-1].startswith("SyntaxError: ")
    assert "Traceback" not in run.stderr


def test_an_option_of_the_script_itself_is_not_taken_for_a_slip_in_one_of_ours(folder: Path) -> None:
    written_script(folder, "x = 1\n")
    refusal = refused("render", "train.py", "--latent", "10", cwd=folder)
    assert "no such option '--latent'; arguments of the script itself go after --" in refusal
    assert "did you mean '--depth'?" in refused("render", "train.py", "--dept", "1", cwd=folder)


@pytest.mark.parametrize(
    ("module", "word"),
    [
        ("trainings", "'trainings'"),
        ("json.nowhere", "nowhere"),
        ("xml", "__main__"),
        ("..train", "..train"),
        ("", "-m"),
    ],
)
def test_a_module_that_cannot_be_run_is_reported(module: str, word: str, folder: Path) -> None:
    assert word in refused("render", "-m", module, cwd=folder)


@as_ordinary_user
def test_a_script_that_may_not_be_read_is_reported(folder: Path) -> None:
    (folder / "train.py").chmod(0)
    assert "cannot read train.py" in refusal(gradviz("render", "train.py", cwd=folder))


# -- names and options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rendr", "train.py"], ["'rendr'", "did you mean 'render'"]),
        (["train.py"], ["'train.py'", "gradviz render train.py"]),
        (["render", "train.py", "--formt", "svg"], ["--formt", "--format"]),
        (["render", "train.py", "--format", "sgv"], ["'sgv'", "did you mean 'svg'"]),
        (["render", "train.py", "--format", "xyz"], ["'xyz'", "svg", "json"]),
        (["render", "train.py", "-o", "out.sgv"], ["'out.sgv'", "did you mean", "'svg'"]),
        (["render", "train.py", "-o", "out"], ["'out'", "format"]),
        (["render", "train.py", "-o", "-"], ["--format"]),
        (["render", "train.py", "-o", "out.svg", "--format", "dot"], ["out.svg", "dot", "out.dot"]),
        (
            [
                "render",
                "train.py",
                "-o",
                "a.svg",
                "-o",
                "b.svg",
                "--format",
                "svg",
                "--format",
                "svg",
                "--format",
                "svg",
            ],
            ["2 outputs", "3 formats"],
        ),
        (["render", "train.py", "-o", "same.svg", "-o", "same.svg"], ["same.svg", "same file"]),
        (["render", "train.py", "--engine", "dott"], ["'dott'", "dot"]),
        (["render", "train.py", "--theme", "drak"], ["'drak'", "dark"]),
        (["render", "train.py", "--direction", "UP"], ["'UP'", "TB", "LR"]),
        (["render", "train.py", "--depth", "-1"], ["--depth"]),
        (["render", "train.py", "--depth", "deep"], ["--depth", "'deep'"]),
        (["render", "train.py", "--max-items", "0"], ["--max-items"]),
        (["render", "train.py", "--format", "png", "--scale", "1000"], ["scale of 1000", "16"]),
        (["render", "train.py", "--scale", "2"], ["--scale", "svg", "png"]),
        (["render", "train.py", "--output"], ["--output"]),
        (["tree", "train.py", "--width", "3"], ["--width", "20"]),
        (["record", "train.py", "-o", "run.svg"], ["run.svg", ".gradviz"]),
        (["record", "run.gradviz"], ["run.gradviz", "recording already"]),
        (["render", "run.gradviz", "--", "--lr", "1"], ["'--lr'", "not run"]),
        (["tree", "run.gradviz", "extra"], ["'extra'"]),
    ],
)
def test_a_wrong_word_on_the_command_line_is_named(arguments: list[str], words: list[str], folder: Path) -> None:
    found = refused(*arguments, cwd=folder)
    assert [word for word in words if word not in found] == []


@pytest.mark.parametrize("option", ["--unfold", "--fold"])
def test_a_module_path_that_the_graph_does_not_have_is_reported_with_near_ones(option: str, folder: Path) -> None:
    found = refused("render", "run.gradviz", option, "modle", cwd=folder)
    assert "'modle'" in found
    assert "'model'" in found


def test_without_arguments_the_help_is_shown(tmp_path: Path) -> None:
    run = gradviz(cwd=tmp_path)
    assert (run.exit_code, run.stdout) == (2, "")
    assert "Commands:" in run.stderr


# -- captures ----------------------------------------------------------------------------------------------------


def test_a_capture_cut_short_is_reported(folder: Path) -> None:
    data = (folder / "run.gradviz").read_bytes()
    (folder / "run.gradviz").write_bytes(data[:-100])
    assert "'run.gradviz' is cut short" in refused("tree", "run.gradviz", cwd=folder)


def test_a_capture_of_a_newer_gradviz_is_reported(folder: Path) -> None:
    data = (folder / "run.gradviz").read_bytes()
    newer = data.replace(b"capture %d\n" % FORMAT_VERSION, b"capture %d\n" % (FORMAT_VERSION + 1), 1)
    (folder / "run.gradviz").write_bytes(newer)
    assert "upgrade gradviz" in refused("render", "run.gradviz", cwd=folder)


@pytest.mark.parametrize("position", [-1, 40, 25])
def test_a_damaged_capture_is_reported(position: int, folder: Path) -> None:
    data = bytearray((folder / "run.gradviz").read_bytes())
    data[position] ^= 0xFF
    (folder / "run.gradviz").write_bytes(data)
    found = refused("render", "run.gradviz", cwd=folder)
    assert "'run.gradviz' is" in found
    assert "record it again" in found


@pytest.mark.parametrize("content", [b"", b"no capture at all", bytes(range(256))])
def test_a_file_that_is_only_named_like_a_capture_is_reported(content: bytes, folder: Path) -> None:
    (folder / "run.gradviz").write_bytes(content)
    assert "'run.gradviz' is" in refused("render", "run.gradviz", cwd=folder)


def test_a_capture_is_known_by_its_content_not_by_its_name(folder: Path) -> None:
    (folder / "run.gradviz").rename(folder / "renamed.bin")
    assert gradviz("tree", "renamed.bin", cwd=folder).exit_code == 0


# -- what is missing on the machine ------------------------------------------------------------------------------


@pytest.fixture
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which Python finds no torch."""
    folder = tmp_path_factory.mktemp("without_torch")
    (folder / "sitecustomize.py").write_text(
        "import importlib.machinery as machinery\n"
        "found_by = machinery.PathFinder.find_spec\n"
        "def find_spec(name, path=None, target=None):\n"
        "    return None if name.partition('.')[0] == 'torch' else found_by(name, path, target)\n"
        "machinery.PathFinder.find_spec = find_spec\n"
    )
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize("command", ["render", "tree", "record"])
def test_recording_without_torch_says_what_is_missing(
    command: str, folder: Path, without_torch: dict[str, str]
) -> None:
    found = refused(command, "train.py", cwd=folder, env=without_torch)
    assert "needs torch" in found
    assert "install it" in found


def test_a_capture_is_shown_where_torch_is_missing(folder: Path, without_torch: dict[str, str]) -> None:
    assert gradviz("render", "run.gradviz", cwd=folder, env=without_torch).exit_code == 0


def test_the_other_layout_engine_says_when_it_is_not_installed(folder: Path) -> None:
    found = refused("render", "run.gradviz", "--engine", "dot", cwd=folder, env={"PATH": str(folder)})
    assert "dot" in found
    assert "Graphviz" in found
