"""A script that fails, or is interrupted, still gets its graph."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.command import SAMPLES, SCRIPTS, Run, gradviz, python, started, written_script
from tests.shared_runs import SharedFolders

CRASHES = SCRIPTS / "crashes.py"
FAILED_ITEM = re.compile(r'class="[^"]*\bfailed\b[^"]*" data-item')
SUFFIXES = ("dot", "json", "png", "svg", "txt")


@dataclass(frozen=True)
class Crash:
    """`CRASHES` under python, and under ``gradviz render`` to every format."""

    native: Run
    drawn: Run
    folder: Path
    """Where the pictures are: ``out.svg`` and so on."""


@pytest.fixture
def crash(place: str, shared: SharedFolders) -> Crash:
    """A crash where the test's parameter says."""

    def fill(folder: Path) -> None:
        (folder / "pictures").mkdir()
        outputs = [word for suffix in SUFFIXES for word in ("-o", f"pictures/out.{suffix}")]
        native = python(CRASHES, place, cwd=folder)
        run = gradviz("render", *outputs, CRASHES, "--", place, cwd=folder)
        (folder / "runs.json").write_text(json.dumps([asdict(native), asdict(run)]))

    folder = shared.folder(f"crash-{place.replace(' ', '-')}", fill)
    native, run = json.loads((folder / "runs.json").read_text())
    return Crash(Run(**native), Run(**run), folder / "pictures")


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def failed_node(folder: Path) -> dict[str, Any]:
    graph = document(folder / "out.json")["graph"]
    node: dict[str, Any] = graph["nodes"][graph["backward"]["failed_node"]]
    return node


def interrupted(script: Path, *options: str, cwd: Path) -> Run:
    """Runs ``gradviz render``, and presses Ctrl-C as soon as the script has said that it is ready."""
    with started("render", *options, script, cwd=cwd) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=600)
    return Run(process.returncode, stdout, stderr)


@pytest.mark.parametrize("place", ["before backward", "forward", "custom backward", "inplace"])
def test_a_script_that_raises_still_gets_its_graph(place: str, crash: Crash) -> None:
    assert crash.drawn.exit_code == 1
    assert "the script failed; the graph shows what ran before" in crash.drawn.stdout
    assert sorted(path.name for path in crash.folder.iterdir()) == [f"out.{suffix}" for suffix in SUFFIXES]
    assert all(path.stat().st_size > 0 for path in crash.folder.iterdir())


@pytest.mark.parametrize("place", ["before backward", "forward", "custom backward", "inplace"])
def test_a_script_that_raises_shows_its_own_traceback(place: str, crash: Crash) -> None:
    assert crash.drawn.stderr == crash.native.stderr


@pytest.mark.parametrize("place", ["forward"])
def test_what_forward_had_computed_until_it_failed_is_drawn(place: str, crash: Crash) -> None:
    found = document(crash.folder / "out.json")
    assert "ReluBackward0" in [node["name"] for node in found["graph"]["nodes"]]
    assert [root["name"] for root in found["graph"]["roots"]] == ["hidden"]
    assert found["error"]["type_name"] == "RuntimeError"
    # The line of the reader's own code, not that of torch in which it was raised.
    file, line = found["error"]["call_site"]
    assert "return self.second(hidden)" in Path(file).read_text().splitlines()[line - 1]


@pytest.mark.parametrize(("place", "name"), [("custom backward", "FragileBackward"), ("inplace", "ExpBackward0")])
def test_the_node_whose_backward_failed_is_marked_in_every_picture(place: str, name: str, crash: Crash) -> None:
    graph = document(crash.folder / "out.json")["graph"]
    assert graph["nodes"][graph["backward"]["failed_node"]]["name"] == name
    assert len(FAILED_ITEM.findall((crash.folder / "out.svg").read_text())) == 1
    assert "failed" in (crash.folder / "out.txt").read_text()
    assert "failed" in (crash.folder / "out.dot").read_text()


def test_the_tree_of_a_crash_marks_the_line_of_the_failed_operation(tmp_path: Path) -> None:
    run = gradviz("tree", SAMPLES / "crash_in_backward.py", cwd=tmp_path)
    assert run.exit_code == 1
    lines = run.stdout.splitlines()
    (mark,) = [number for number, line in enumerate(lines) if "backward failed here" in line]
    assert "✗ Clamp " in lines[mark - 1]
    assert run.stderr.endswith("ValueError: not enough values to unpack (expected 2, got 1)\n")


@pytest.mark.parametrize("place", ["start"])
def test_a_crash_before_any_graph_shows_the_traceback_and_says_that_there_is_none(place: str, crash: Crash) -> None:
    assert crash.drawn.exit_code == 1
    assert crash.drawn.stderr.startswith(crash.native.stderr)
    (line,) = crash.drawn.stderr.removeprefix(crash.native.stderr).splitlines()
    assert line.startswith("gradviz: no graph of ")
    assert list(crash.folder.iterdir()) == []


def test_a_crash_before_torch_is_imported_is_shown_too(tmp_path: Path) -> None:
    run = gradviz("render", written_script(tmp_path, "import settingz\nimport torch\n"), cwd=tmp_path)
    assert run.exit_code == 1
    assert "ModuleNotFoundError: No module named 'settingz'\n" in run.stderr
    assert "script_runner" not in run.stderr


def test_a_recording_without_a_graph_is_not_recommended(tmp_path: Path) -> None:
    run = gradviz("record", written_script(tmp_path, "import torch\nraise SystemExit(3)"), cwd=tmp_path)
    assert run.exit_code == 3
    assert run.stdout == "wrote train.gradviz: 0 graphs, 0 nodes\n"


def test_a_recording_without_a_graph_does_not_replace_a_good_one(tmp_path: Path) -> None:
    script = written_script(tmp_path, "import torch\nw = torch.ones(2, requires_grad=True)\nw.sum().backward()\n")
    gradviz("record", script, cwd=tmp_path)
    good = (tmp_path / "train.gradviz").read_bytes()
    written_script(tmp_path, "import torch\nraise SystemExit(3)\n")
    run = gradviz("record", script, cwd=tmp_path)
    assert run.exit_code == 3
    assert run.stdout == "train.gradviz is unchanged: this run recorded no graph\n"
    assert (tmp_path / "train.gradviz").read_bytes() == good


def test_a_failed_script_can_be_recorded_and_looked_at_later(tmp_path: Path) -> None:
    recorded = gradviz("record", "-o", "crash.gradviz", CRASHES, "--", "custom backward", cwd=tmp_path)
    assert recorded.exit_code == 1
    looked_at = gradviz("render", "crash.gradviz", "-o", "later.svg", cwd=tmp_path)
    assert looked_at.exit_code == 0, looked_at.stderr
    assert len(FAILED_ITEM.findall((tmp_path / "later.svg").read_text())) == 1
    assert "the script failed" in looked_at.stdout


def test_a_crash_after_the_recorded_backward_leaves_the_graph_unmarked(tmp_path: Path) -> None:
    run = gradviz("render", "--keep-going", "-o", "out.json", CRASHES, "--", "second backward", cwd=tmp_path)
    assert run.exit_code == 1
    assert "Trying to backward through the graph a second time" in run.stderr
    assert document(tmp_path / "out.json")["graph"]["backward"].get("failed_node") is None


def test_an_interrupted_script_keeps_what_was_recorded(tmp_path: Path) -> None:
    run = interrupted(SCRIPTS / "slow_after_backward.py", "--keep-going", "-o", "out.json", cwd=tmp_path)
    assert run.exit_code == 130
    assert "the script was interrupted" in run.stdout
    assert len(document(tmp_path / "out.json")["graph"]["nodes"]) == 3
    first, *_, last = run.stderr.splitlines()
    assert (first, last) == ("Traceback (most recent call last):", "KeyboardInterrupt")
    assert "script_runner" not in run.stderr


def test_a_script_interrupted_before_backward_keeps_what_its_functions_held(tmp_path: Path) -> None:
    run = interrupted(SCRIPTS / "slow_after_forward.py", "-o", "out.json", cwd=tmp_path)
    assert run.exit_code == 130
    assert [root["name"] for root in document(tmp_path / "out.json")["graph"]["roots"]] == ["loss"]
