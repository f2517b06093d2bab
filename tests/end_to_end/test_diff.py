"""``gradviz diff`` on the command line: captures, scripts, commits, and what cannot be compared."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import gradviz
from gradviz.cli import run
from gradviz.cli.captures.compared_sources import work_tree
from tests.integration.diff.pairs import block_step, recorded


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two captures that differ in the eps of one norm."""
    folder = tmp_path_factory.mktemp("captures")
    paths = str(folder / "a.gradviz"), str(folder / "b.gradviz")
    for path, eps in zip(paths, (1e-5, 1e-6), strict=True):
        recorded(block_step(eps=eps)).save(path)
    return paths


def test_two_captures_are_compared_in_the_order_that_helps(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", *captures, "--width", "80"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Different: layer_norm: eps is 1e-05 in A, 1e-06 in B.\n")
    positions = [text.index(title) for title in ("Where it began", "In backward", "Structure", "Figures")]
    assert positions == sorted(positions)
    assert max(map(len, text.split("\n"))) <= 80
    assert run(["diff", captures[0]]) == 0
    assert capsys.readouterr().out.startswith("The same: structure, shapes, values and gradients, bit for bit.")


def test_the_difference_is_also_json_and_an_annotation(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", *captures, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["difference"]["first"]["cause"] == "arguments"
    assert document["difference"]["first"]["a"]["source"].startswith("x = self.norm")
    assert run(["diff", *captures, "--format", "github"]) == 1
    line = capsys.readouterr().out.split("\n")[0]
    assert line.startswith("::error file=") and "eps is 1e-05 in A, 1e-06 in B" in line
    assert run(["schema", "diff"]) == 0
    assert "DiffDocument" in capsys.readouterr().out


def test_two_backward_calls_of_one_recording_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    weight = torch.nn.Parameter(torch.ones(3))
    with gradviz.record(fingerprints=True) as recording:
        for limit in (1.0, 1.0, 2.0):
            weight.clamp(max=limit).exp().sum().backward()  # type: ignore[no-untyped-call]
    path = str(tmp_path / "run.gradviz")
    recording.save(path)
    numbers = [graph.backward.number for graph in recording.capture.graphs if graph.backward is not None]
    first, last = (f"{path}#{number}" for number in (numbers[0], numbers[-1]))
    code = run(["diff", first, last])
    text = capsys.readouterr().out
    assert (code, "argument max" in text or "max is" in text) == (1, True), text
    assert run(["diff", f"{path}#9", first]) == 2
    assert "backward 9 is not in the recording" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "no such file: 'nowhere.py'"),
        (["nowhere.gradviz"], "no such file: 'nowhere.gradviz'"),
        (["here.py@"], "names no commit after the @"),
        (["here.py", "--env", "A"], "--env 'A' is not NAME=VALUE"),
        (["here.py", "--args", "'open"], "No closing quotation"),
        (["here.py#2"], "no such file"),
    ],
)
def test_bad_input_gets_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["diff", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and not captured.out


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import os; os.kill(os.getpid(), 9)", "bad.py was not recorded: signal 9 ended its process"),
        ("x = 1", "bad.py ran but never imported torch; there is no autograd graph to show"),
        ("import torch; torch.ones(3)", "bad.py has no graph to compare: it finished before there was one"),
    ],
)
def test_a_script_that_cannot_be_compared_gets_one_line(
    source: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(source)
    assert run(["diff", "bad.py", "-o", "d.html"]) == 2
    captured = capfd.readouterr()
    assert captured.err.rstrip("\n").endswith(line) and captured.err.count("\n") == 1 and not captured.out
    assert not Path("d.html").exists()


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    ended = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return ended.stdout


SCRIPT = """
import torch
torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
y = torch.nn.functional.softplus(x, beta=1)
y.sum().backward()
"""


@pytest.mark.parametrize("other", ["missing.py", "missing.gradviz", "train.py@nothing"])
def test_no_script_runs_if_the_other_side_does_not_exist(
    other: str, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    Path("train.py").write_text("open('it ran', 'w').close()\n" + SCRIPT)
    assert run(["diff", "train.py", other]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not Path("it ran").exists()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits of a script, and a change that is not committed."""
    git(tmp_path, "init", "--quiet")
    script = tmp_path / "train.py"
    for beta in (1, 2):
        script.write_text(SCRIPT.replace("beta=1", f"beta={beta}"))
        git(tmp_path, "add", "train.py")
        git(tmp_path, "commit", "--quiet", "-m", f"beta {beta}")
    script.write_text(SCRIPT.replace("beta=1", "beta=3"))
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


def test_a_script_is_compared_with_itself_at_a_commit_and_the_work_tree_stays(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    before = git(repository, "status", "--porcelain")
    assert run(["diff", "train.py@HEAD~1", "train.py"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Different: softplus: beta is 1 in A, 3 in B.")
    assert git(repository, "status", "--porcelain") == before
    assert git(repository, "worktree", "list").count("\n") == 1


def test_commits_that_do_not_have_the_script_are_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(repository)
    assert run(["diff", "train.py@nowhere"]) == 2
    assert "no such commit: 'nowhere'" in capsys.readouterr().err
    assert run(["diff", "other.py@HEAD"]) == 2
    assert "other.py does not exist at HEAD" in capsys.readouterr().err
    with work_tree(repository / "train.py", "HEAD") as (folder, script):
        assert script.read_text() == SCRIPT.replace("beta=1", "beta=2")
        assert not folder.is_relative_to(repository)
    assert not folder.exists()
