"""The pytest plugin, as the tests of a project use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.end_to_end.command import Run, installed_python
from tests.shared_runs import SharedFolders

REPOSITORY = Path(__file__).parents[2]
HEAD = """
import pytest
import torch
from torch import nn

@pytest.fixture
def net():
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
"""
FIXTURE = """
def test_healthy(net, gradviz_check):
    result = gradviz_check(net(torch.ones(3, 2)).sum(), net)
    assert "4 parameters" in str(result)

def test_own_backward_is_not_repeated(net, gradviz_check):
    loss = net(torch.ones(3, 2)).sum()
    loss.backward()
    before = net[0].bias.grad.clone()
    assert gradviz_check(loss, net)
    assert torch.equal(net[0].bias.grad, before)

def test_cut(net, gradviz_check):
    hidden = net[0](torch.ones(3, 2)).detach()
    gradviz_check(net[1](hidden).sum(), net)

def test_refused(net, gradviz_check):
    with torch.no_grad():
        loss = net(torch.ones(3, 2)).sum()
    gradviz_check(loss, net)
"""
MARKER = """
@pytest.mark.gradviz
def test_cut(net):
    net[1](net[0](torch.ones(3, 2)).detach()).sum().backward()

@pytest.mark.gradviz(ignore=["detached"])
def test_cut_on_purpose(net):
    net[1](net[0](torch.ones(3, 2)).detach()).sum().backward()

@pytest.mark.gradviz
def test_own_failure_comes_first(net):
    assert 1 == 2
"""
WRONG_USE = """
@pytest.mark.gradviz(ignore="detachd")
def test_unknown_rule(): raise AssertionError("the test itself ran")

@pytest.mark.gradviz(selct="GV1")
def test_unknown_option(): raise AssertionError("the test itself ran")

def test_no_loss(gradviz_check):
    gradviz_check(3)
"""
SNAPSHOT = """
def test_net(net, gradviz_snapshot):
    hidden = net[0](torch.ones(3, 2))
    gradviz_snapshot(net[1](hidden).sum(), net)

@pytest.mark.parametrize("size", [3, 30])
def test_memory(net, gradviz_snapshot, size):
    gradviz_snapshot(net[1](net[0](torch.ones(3, 2))).sum(), net, name="small", memory_tolerance=0.5)

def test_wrong_use(net, gradviz_snapshot):
    gradviz_snapshot(net(torch.ones(3, 2)).sum(), net, memory_tolerance=-1)
"""


def run_tests(folder: Path, files: dict[str, str], *options: str) -> Run:
    """``pytest`` in a project with these files, with the plugin installed as pip would install it."""
    facts = folder / "site" / "plugged-1.0.dist-info"
    facts.mkdir(parents=True, exist_ok=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n", encoding="utf-8")
    (facts / "entry_points.txt").write_text("[pytest11]\ngradviz = gradviz.pytest_plugin\n", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n", encoding="utf-8")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    path = [str(folder / "site"), str(REPOSITORY)]
    return installed_python("-m", "pytest", "-q", *options, cwd=folder, env={"PYTHONPATH": os.pathsep.join(path)})


@pytest.fixture
def printed(shared: SharedFolders) -> str:
    """The output of all these tests."""
    files = {"test_fixture.py": FIXTURE, "test_marker.py": MARKER, "test_wrong_use.py": WRONG_USE}

    def fill(folder: Path) -> None:
        run = run_tests(folder, {name: HEAD + text for name, text in files.items()}, "-rA")
        (folder / "stdout.txt").write_text(run.stdout, encoding="utf-8")

    return (shared.folder("project_with_plugin", fill) / "stdout.txt").read_text(encoding="utf-8")


def passed(printed: str, file: str) -> set[str]:
    """Tests of one file that passed."""
    start = f"PASSED {file}::"
    return {line.removeprefix(start) for line in printed.splitlines() if line.startswith(start)}


def test_the_fixture_fails_a_test_whose_gradients_are_wrong_and_names_the_line(printed: str) -> None:
    assert passed(printed, "test_fixture.py") == {"test_healthy", "test_own_backward_is_not_repeated"}, printed
    assert "detached test_fixture.py:22" in printed
    assert "no_grad_block test_fixture.py:26" in printed


def test_the_marker_checks_all_that_a_test_computes(printed: str) -> None:
    assert passed(printed, "test_marker.py") == {"test_cut_on_purpose"}, printed
    assert "detached test_marker.py:12" in printed
    assert "assert 1 == 2" in printed


def test_wrong_options_and_arguments_fail_in_one_line(printed: str) -> None:
    assert "no rule 'detachd'; did you mean 'detached'" in printed
    assert "unknown option of the marker gradviz: 'selct'; did you mean 'select'?" in printed
    assert "takes a loss that is a tensor, not an object of type int" in printed
    assert "the test itself ran" not in printed


def test_no_failure_shows_our_own_frames(printed: str) -> None:
    assert "7 failed, 3 passed" in printed
    assert "gradviz/" not in printed


def test_pytest_starts_without_torch(tmp_path: Path) -> None:
    light = "import sys\ndef test_light(pytestconfig):\n    assert 'torch' not in sys.modules\n"
    run = run_tests(tmp_path, {"test_it.py": light}, "--markers")
    assert "@pytest.mark.gradviz(select=(), ignore=(), fail_on='warning')" in run.stdout
    path = os.pathsep.join([str(tmp_path / "site"), str(REPOSITORY)])
    run = installed_python("-m", "pytest", "-q", cwd=tmp_path, env={"PYTHONPATH": path})
    assert run.exit_code == 0, run.stdout


def test_a_snapshot_is_written_kept_and_fails_a_refactoring_that_cuts_a_gradient(tmp_path: Path) -> None:
    def run(tests: str, *options: str) -> str:
        return run_tests(tmp_path, {"test_net.py": HEAD + tests}, *options).stdout

    printed = run(SNAPSHOT)
    assert "4 failed" in printed
    assert "no snapshot gradviz_snapshots/test_net.test_net.txt; write it with pytest --gradviz-update" in printed
    assert "memory_tolerance=-1 is not a number from 0 on" in printed
    assert "1 failed, 3 passed" in run(SNAPSHOT, "--gradviz-update")
    kept = {path.name: path.read_text("utf-8") for path in tmp_path.glob("gradviz_snapshots/*.txt")}
    assert len(kept) == 3
    text = kept["test_net.test_net.txt"]
    assert "linear (3, 2) float32" in text and "net.0.weight (2, 2) float32: reached" in text
    changed = SNAPSHOT.replace("hidden = net[0](torch.ones(3, 2))", "hidden = net[0](torch.ones(3, 2)).detach()")
    printed = run(changed.replace("net[0](torch.ones(3, 2)))", "net[0](torch.ones(size, 2)))"))
    assert "3 failed, 1 passed" in printed
    assert "-  net.0.weight (2, 2) float32: reached" in printed
    assert "+  net.0.weight (2, 2) float32: cut off" in printed
    assert "GV101 detached" in printed
    assert "times as much" in printed
    assert "Traceback" not in printed and "pytest_plugin.py" not in printed
