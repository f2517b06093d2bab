"""The pytest plugin, as a project's own tests use it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.end_to_end.command import Run, installed_python

REPOSITORY = Path(__file__).parents[2]
HEAD = """
import pytest
import torch
from torch import nn

@pytest.fixture
def net():
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
"""


def run_tests(folder: Path, text: str, *options: str) -> Run:
    """``pytest`` in a project with these tests, with the plugin installed as pip would install it."""
    facts = folder / "site" / "plugged-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n", encoding="utf-8")
    (facts / "entry_points.txt").write_text("[pytest11]\ngradviz = gradviz.pytest_plugin\n", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n", encoding="utf-8")
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    path = [str(folder / "site"), str(REPOSITORY)]
    return installed_python("-m", "pytest", "-q", *options, cwd=folder, env={"PYTHONPATH": os.pathsep.join(path)})


def test_the_fixture_fails_a_test_whose_gradients_are_wrong_and_names_the_line(tmp_path: Path) -> None:
    run = run_tests(
        tmp_path,
        HEAD
        + """
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
""",
    )
    assert "2 failed, 2 passed" in run.stdout, run.stdout
    assert "detached test_it.py:22" in run.stdout, run.stdout
    assert "no_grad_block test_it.py:26" in run.stdout
    assert "gradviz/" not in run.stdout


def test_the_marker_checks_all_that_a_test_computes(tmp_path: Path) -> None:
    run = run_tests(
        tmp_path,
        HEAD
        + """
@pytest.mark.gradviz
def test_cut(net):
    net[1](net[0](torch.ones(3, 2)).detach()).sum().backward()

@pytest.mark.gradviz(ignore=["detached"])
def test_cut_on_purpose(net):
    net[1](net[0](torch.ones(3, 2)).detach()).sum().backward()

@pytest.mark.gradviz
def test_own_failure_comes_first(net):
    assert 1 == 2
""",
    )
    assert "2 failed, 1 passed" in run.stdout, run.stdout
    assert "detached test_it.py:12" in run.stdout
    assert "assert 1 == 2" in run.stdout


def test_wrong_options_and_arguments_fail_in_one_line_without_our_frames(tmp_path: Path) -> None:
    run = run_tests(
        tmp_path,
        HEAD
        + """
@pytest.mark.gradviz(ignore="detachd")
def test_unknown_rule(): raise AssertionError("the test itself ran")

@pytest.mark.gradviz(selct="GV1")
def test_unknown_option(): raise AssertionError("the test itself ran")

def test_no_loss(gradviz_check):
    gradviz_check(3)
""",
    )
    assert "no rule 'detachd'; did you mean 'detached'" in run.stdout, run.stdout
    assert "unknown option of the marker gradviz: 'selct'; did you mean 'select'?" in run.stdout
    assert "takes a loss that is a tensor, not an object of type int" in run.stdout
    assert "gradviz/" not in run.stdout
    assert "the test itself ran" not in run.stdout


def test_pytest_starts_without_torch(tmp_path: Path) -> None:
    run = run_tests(
        tmp_path, "import sys\ndef test_light(pytestconfig):\n    assert 'torch' not in sys.modules\n", "--markers"
    )
    assert "@pytest.mark.gradviz(select=(), ignore=(), fail_on='warning')" in run.stdout
    path = os.pathsep.join([str(tmp_path / "site"), str(REPOSITORY)])
    run = installed_python("-m", "pytest", "-q", cwd=tmp_path, env={"PYTHONPATH": path})
    assert run.exit_code == 0, run.stdout
