"""`gradviz replay`: text in a pipe, keys in a terminal, and errors."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gradviz.capture.capture import Capture, Program
from gradviz.capture.capture_file import write_capture
from tests.builders import chain_graph
from tests.end_to_end.command import GRADVIZ, SAMPLES, gradviz, refusal, refused
from tests.end_to_end.in_a_terminal import in_a_terminal

RULE = "─" * 80 + "\n"


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """The name of a capture of four steps, in the folder of the test."""
    (tmp_path / "run.gradviz").write_bytes(write_capture(Capture(Program("train.py"), graphs=(chain_graph(1),))))
    return "run.gradviz"


def test_a_script_is_replayed_with_its_numbers_a_text_for_each_step_after_one_of_the_forward_graph() -> None:
    run = gradviz("replay", "log_of_product.py", "--width", "80", cwd=SAMPLES)
    assert run.exit_code == 0, run.stderr
    pages = run.stdout.split(RULE)
    assert [page.split("   ")[0] for page in pages] == ["forward", *(f"step {number} of 4" for number in range(1, 5))]
    assert "all numbers of tensors with at most 64 elements" in " ".join(pages[0].split())
    assert "ā = 0.1 · 5 = 0.5 → x" in pages[2]


def test_ascii_means_ascii(capture: str, tmp_path: Path) -> None:
    run = gradviz("replay", capture, "--ascii", cwd=tmp_path)
    assert run.stdout.isascii()
    assert "> * add" in run.stdout


def test_in_a_terminal_a_page_waits_for_a_key_and_the_screen_is_given_back(capture: str, tmp_path: Path) -> None:
    shown = in_a_terminal("replay", capture, cwd=tmp_path, keys="q")
    assert shown.exit_code == 0
    inside, _, after = shown.text.partition("\x1b[?1049h")[2].partition("\x1b[?1049l")
    assert "forward   backward() is called" in inside
    assert "step 1 of 4" not in inside
    assert after.strip("q") == ""


def test_all_prints_the_steps_in_a_terminal_too(capture: str, tmp_path: Path) -> None:
    shown = in_a_terminal("replay", capture, "--all", "--no-pager", cwd=tmp_path)
    assert "step 4 of 4" in shown.text
    assert "\x1b[?1049h" not in shown.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--backward", "all"), "replay shows one backward call at a time; pick one with --backward N"),
        (("--from", "3", "--to", "2"), "--from 3 comes after --to 2"),
        (("--width", "20"), "20 is not in the range"),
        (("-o", ""), "the pictures of a replay need a name; -o steps.svg"),
        (("-o", "steps.gif"), "'steps.gif' ends in '.gif', and a replay is drawn as .svg or .png"),
        (("-o", "steps"), "name it steps.svg, or steps/ for a folder with a file for each step"),
        (("-o", "-"), "do not go to standard output"),
        (("-o", "steps.svg", "--all"), "--all prints steps, and -o draws pictures"),
        (("-o", "steps.svg", "--theme", "pink"), "unknown theme 'pink'"),
        (("-o", "train.py/steps.svg"), "cannot write"),
    ],
)
def test_wrong_options_are_refused_before_the_script_runs(folder: Path, options: tuple[str, ...], words: str) -> None:
    assert words in refused("replay", "train.py", *options, cwd=folder)


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_step_that_is_not_there_is_refused_with_those_that_are(capture: str, tmp_path: Path, option: str) -> None:
    message = refusal(gradviz("replay", capture, option, "9", cwd=tmp_path))
    assert message == "there is no step 9; they are numbered 0 to 4"


def test_pictures_go_to_one_file_or_to_a_folder_with_one_for_each_step(capture: str, tmp_path: Path) -> None:
    run = gradviz("replay", capture, "-o", "steps.png", "--from", "1", cwd=tmp_path)
    assert run.stdout == "wrote steps.png\n  4 of 4 steps\n"
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")
    run = gradviz("replay", capture, "-o", "steps/", cwd=tmp_path)
    assert run.stdout == "wrote steps/step-0.svg to step-4.svg\n  the forward graph and 4 of 4 steps\n"
    assert sorted(path.name for path in (tmp_path / "steps").iterdir()) == [f"step-{at}.svg" for at in range(5)]


def test_of_very_many_steps_a_pipe_gets_the_first_and_how_to_have_the_rest(tmp_path: Path) -> None:
    (tmp_path / "run.gradviz").write_bytes(write_capture(Capture(Program("train.py"), graphs=(chain_graph(400),))))
    run = gradviz("replay", "run.gradviz", "--every-node", cwd=tmp_path)
    assert run.stdout.count("─" * 80) == 300
    assert run.stdout.endswith("104 more steps: --all prints them, --from and --to a part, --depth N folds more\n")


def test_a_reader_that_closes_the_pipe_ends_it(tmp_path: Path) -> None:
    (tmp_path / "run.gradviz").write_bytes(write_capture(Capture(Program("train.py"), graphs=(chain_graph(5_000),))))
    command = f"{GRADVIZ} replay run.gradviz --every-node --all | head -n 1"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.stdout == "forward   backward() is called   5,003 steps follow\n"
    assert done.stderr == ""
