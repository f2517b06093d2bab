"""A script sees and does under gradviz what it sees and does under python.

The same program runs both ways, with nothing but ``gradviz record --keep-going`` in front, and the two are compared.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.command import SCRIPTS, Run, gradviz, installed_gradviz, installed_python, refused, written_script
from tests.shared_runs import SharedFolders

RECORD = ("record", "--keep-going", "-o", "run.gradviz")
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}
SEEING, WORDS = SCRIPTS / "what_a_script_sees.py", ("--lr", "0.1", "two words", "--help")

FACTS = (
    "names at the start",
    "__name__",
    "__file__",
    "__doc__",
    "__spec__",
    "__package__",
    "__cached__",
    "__builtins__",
    "__loader__",
    "__annotations__",
    "is __main__",
    "argv",
    "orig_argv of the script",
    "sys.path",
    "cwd",
    "environment",
    "standard input",
    "neighbour",
    "pickled class",
    "source of a class",
    "type hints",
    "torch threads",
    "gradient",
    "next random numbers",
    "sequence number",
    "finders",
    "thread",
    "excepthook",
    "tracing",
    "recursion limit",
    "interrupt handler",
    "flags",
    "warning filters",
    "garbage collector",
    "encodings",
)


def both(script: str, cwd: Path) -> tuple[Run, Run]:
    """The script under python and under gradviz."""
    path = SCRIPTS / script
    return installed_python(path, cwd=cwd), installed_gradviz(*RECORD, path, cwd=cwd)


def both_modules(name: str, *arguments: str, cwd: Path) -> tuple[Run, Run]:
    """The module under ``python -m`` and under ``gradviz record -m``."""
    env = {"PYTHONPATH": str(SCRIPTS)}
    native = installed_python("-m", name, *arguments, cwd=cwd, env=env)
    return native, installed_gradviz(*RECORD, "-m", name, "--", *arguments, cwd=cwd, env=env)


def seen_in(run: Run) -> dict[str, Any]:
    """The output of `SEEING`."""
    assert run.exit_code == 0, run.stderr
    return {**json.loads(run.programs_output), "standard error": run.stderr}


@pytest.fixture(scope="module")
def facts(shared: SharedFolders) -> tuple[dict[str, Any], dict[str, Any]]:
    """What one script saw under python and under gradviz; and what both printed to standard error."""

    def fill(folder: Path) -> None:
        options: dict[str, Any] = {"cwd": folder, "stdin": "typed\n", "env": ENVIRONMENT}
        runs = installed_python(SEEING, *WORDS, **options), installed_gradviz(*RECORD, SEEING, "--", *WORDS, **options)
        for name, run in zip(("native", "recorded"), runs, strict=True):
            (folder / f"{name}.json").write_text(json.dumps(seen_in(run)))

    folder = shared.folder("facts", fill)
    native, recorded = (json.loads((folder / f"{name}.json").read_text()) for name in ("native", "recorded"))
    return native, recorded


@pytest.mark.parametrize("fact", FACTS)
def test_a_script_sees_the_same_as_under_python(fact: str, facts: tuple[dict[str, Any], dict[str, Any]]) -> None:
    native, recorded = facts
    assert recorded[fact] == native[fact]


def test_every_fact_of_the_script_is_compared(facts: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert {*FACTS, "standard error"} == set(facts[0])


def test_it_sees_the_same_from_a_command_that_other_tests_have_forked(
    facts: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path
) -> None:
    found = seen_in(gradviz(*RECORD, SEEING, "--", *WORDS, cwd=tmp_path, stdin="typed\n"))
    # torch 2.6 adds a folder when torch.distributed.nn is loaded, as it is in the process from which this is forked.
    found["sys.path"] = found["sys.path"][: len(facts[1]["sys.path"])]
    differing = {fact for fact, value in facts[1].items() if found[fact] != value}
    # The folder is another, OMP_NUM_THREADS is not set, and what torch has not yet imported itself is found elsewhere.
    assert differing <= {"cwd", "environment", "torch threads", "finders"}


def test_warnings_are_shown_as_python_shows_them(facts: tuple[dict[str, Any], dict[str, Any]]) -> None:
    native, recorded = facts
    assert "DeprecationWarning: a warning of the script" in native["standard error"]
    assert recorded["standard error"] == native["standard error"]


def test_a_number_of_threads_set_in_the_environment_is_honoured(
    facts: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    assert facts[1]["torch threads"] == 1


@pytest.mark.parametrize("module", ["toolbox", "toolbox.inner.training"])
def test_a_module_runs_as_under_python_m(module: str, tmp_path: Path) -> None:
    native, recorded = both_modules(module, "--lr", "1", cwd=tmp_path)
    assert native.exit_code == 0
    assert (recorded.exit_code, recorded.programs_output) == (0, native.stdout)
    assert recorded.stderr == native.stderr


@pytest.mark.parametrize(
    "ending",
    [
        "from_another_error",
        "in_a_module",
        "by_a_hook",
        "in_an_import",
        "by_two_errors",
        "in_a_function_of_torch",
    ],
)
def test_an_uncaught_exception_is_shown_as_python_shows_it(ending: str, tmp_path: Path) -> None:
    (tmp_path / "broken_neighbour.py").write_text("that is not python\n")
    script = shutil.copy(SCRIPTS / "ways_to_end.py", tmp_path)
    native = installed_python(script, ending, cwd=tmp_path)
    recorded = gradviz(*RECORD, script, "--", ending, cwd=tmp_path)
    assert native.exit_code == 1
    assert recorded.exit_code == 1
    assert recorded.stderr == native.stderr
    assert recorded.programs_output == native.stdout


@pytest.mark.parametrize(
    ("ending", "exit_code", "last_word"),
    [("by_exit_0", 0, ""), ("by_exit_3", 3, ""), ("by_exit_text", 1, "a last word\n"), ("by_running_out", 0, "")],
)
def test_a_script_that_leaves_by_itself_decides_the_exit_code(
    ending: str, exit_code: int, last_word: str, tmp_path: Path
) -> None:
    run = gradviz(*RECORD, SCRIPTS / "ways_to_end.py", "--", ending, cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (exit_code, last_word)
    assert run.programs_output == "about to end\n"
    assert (tmp_path / "run.gradviz").exists()


def test_a_script_may_fork_spawn_and_start_threads(tmp_path: Path) -> None:
    native, recorded = both("many_processes.py", cwd=tmp_path)
    assert native.exit_code == 0, native.stderr
    assert recorded.exit_code == 0, recorded.stderr
    assert recorded.stderr == native.stderr
    # How many of its workers a pool gets started before the work is done is anybody's guess.
    assert set(recorded.programs_output.splitlines()) == set(native.stdout.splitlines())


def test_forked_children_end_as_under_python(tmp_path: Path) -> None:
    native, recorded = both("forked_children.py", cwd=tmp_path)
    assert recorded.exit_code == native.exit_code == 0
    assert recorded.programs_output == native.stdout
    assert recorded.stderr == native.stderr


def test_a_forked_child_leaves_the_recording_to_its_parent(tmp_path: Path) -> None:
    script = "import os, torch\ntorch.ones(1, requires_grad=True).sum().backward()\nif os.fork(): os.wait()\n"
    run = installed_gradviz(*RECORD, written_script(tmp_path, script), cwd=tmp_path)
    assert run.exit_code == 0
    assert run.stdout.count("wrote ") == 1


@pytest.mark.parametrize("name", ["app", "app/", "app.pyz"])
def test_a_folder_or_zip_file_with_a_main_runs_as_under_python(name: str, tmp_path: Path) -> None:
    main = """
import sys, torch, neighbour
print(sys.argv, sys.path[0], __file__, __spec__.name, repr(__package__), sys.modules["__main__"].neighbour is neighbour)
torch.ones(2, requires_grad=True).exp().sum().backward()
"""
    texts = {"__main__.py": main, "neighbour.py": ""}
    (tmp_path / "app").mkdir()
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as archive:
        for file, text in texts.items():
            (tmp_path / "app" / file).write_text(text)
            archive.writestr(file, text)
    native = installed_python(name, "--lr", "1", cwd=tmp_path)
    recorded = gradviz("tree", name, "--", "--lr", "1", cwd=tmp_path)
    assert (native.exit_code, recorded.exit_code) == (0, 0), recorded.stderr
    assert native.stdout in recorded.stderr  # the tree has standard output
    assert "__main__.py:4" in recorded.stdout


def test_a_folder_or_zip_file_without_a_main_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    zipfile.ZipFile(tmp_path / "model.pt", "w").close()
    assert "empty is a directory without __main__.py" in refused("render", "empty", cwd=tmp_path)
    assert "model.pt is a zip file without __main__.py" in refused("render", "model.pt", cwd=tmp_path)


def test_python_m_gradviz_is_the_same_command(tmp_path: Path) -> None:
    script = written_script(
        tmp_path, "import sys, torch\nprint(sys.path[0])\ntorch.ones(1, requires_grad=True).exp()\n"
    )
    by_module = installed_python("-m", "gradviz", "render", script, cwd=tmp_path)
    by_name = installed_gradviz("render", script, cwd=tmp_path)
    assert by_module == by_name


def test_variables_of_the_script_are_there_until_the_interpreter_ends(tmp_path: Path) -> None:
    script = """
import atexit, torch
weight = torch.ones(2, requires_grad=True)
loss = weight.sum()
loss.backward()
atexit.register(lambda: print("gradient at exit", weight.grad.tolist(), loss.item()))
"""
    run = installed_gradviz(*RECORD, written_script(tmp_path, script), cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    assert run.stdout.splitlines()[-1] == "gradient at exit [1.0, 1.0] 2.0"


def test_a_script_in_another_folder_finds_its_neighbours_and_works_in_ours(tmp_path: Path) -> None:
    folder = tmp_path / "project" / "deep"
    folder.mkdir(parents=True)
    written_script(folder, "WIDTH = 3\n", "settings.py")
    written_script(
        folder,
        "import os, settings, torch\nprint(os.getcwd())\nx = torch.ones(settings.WIDTH)\n"
        "torch.nn.Linear(settings.WIDTH, 1)(x).backward()\n",
    )
    run = gradviz("render", "project/deep/train.py", cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert run.stdout.splitlines()[0] == str(tmp_path)
    assert (tmp_path / "train.svg").exists()


def test_by_default_a_script_ends_quietly_after_its_first_backward(tmp_path: Path) -> None:
    run = gradviz("render", SCRIPTS / "stops_politely.py", cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert lines[:4] == ["opened", "closed", "finally", "wrote stops_politely.svg"]
    assert lines[-1] == "at exit"
    assert sum("stopped after it (--keep-going runs it to its end)" in line for line in lines) == 1


def test_a_script_that_swallows_everything_runs_on_and_is_drawn_still(tmp_path: Path) -> None:
    run = gradviz("render", SCRIPTS / "swallows_everything.py", cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    assert "did step 2\nthe end\n" in run.stdout
    assert (tmp_path / "swallows_everything.svg").exists()


def test_what_a_script_prints_keeps_out_of_a_picture_on_standard_output(tmp_path: Path) -> None:
    script = written_script(
        tmp_path,
        "import os, torch\nprint('by python')\nos.write(1, b'below python\\n')\n"
        "torch.ones(1, requires_grad=True).exp().backward()\n",
    )
    run = gradviz("render", script, "-o", "-", "--format", "json", cwd=tmp_path)
    assert run.exit_code == 0
    assert len(json.loads(run.stdout)["graph"]["nodes"]) == 2
    stopped = f"gradviz: {script.name} was stopped after backward 1 (--keep-going runs it to its end)"
    assert sorted(run.stderr.splitlines()) == ["below python", "by python", stopped]


def test_the_console_is_the_scripts_own(tmp_path: Path) -> None:
    """Output of a script is not delayed: it is there when the script itself reads it."""
    script = """
import sys, torch
print("first", end="")
sys.stderr.write("second")
torch.ones(1, requires_grad=True).exp().backward()
"""
    run = gradviz(*RECORD, written_script(tmp_path, script), cwd=tmp_path)
    assert run.stdout.startswith("first")
    assert run.stderr == "second"


def test_nothing_is_left_in_the_working_folder_but_the_output(tmp_path: Path) -> None:
    script = written_script(tmp_path, "import torch\ntorch.ones(1, requires_grad=True).exp().backward()\n")
    assert gradviz("render", script, cwd=tmp_path).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py", "train.svg"]
