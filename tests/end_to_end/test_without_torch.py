"""Showing a saved capture neither needs torch nor imports it, as that takes seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradviz.capture.capture_file import write_capture
from gradviz.cli import COMMANDS
from gradviz.cli.demo import DEMO
from tests.captures import small_capture

WITHOUT_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise AssertionError("torch was imported")

sys.meta_path.insert(0, NoTorch())
sys.argv = ["gradviz", *sys.argv[1:]]
from gradviz.cli import main
main()
"""

REPOSITORY = Path(__file__).parents[2]


def gradviz(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command in a Python that refuses to import torch."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


@pytest.fixture
def capture_path(tmp_path: Path) -> Path:
    path = tmp_path / "run.gradviz"
    path.write_bytes(write_capture(small_capture()))
    return path


def test_importing_gradviz_does_not_import_torch() -> None:
    program = "import sys, gradviz; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY).returncode == 0


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_is_there_without_torch(arguments: list[str]) -> None:
    result = gradviz(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert "gradviz" in result.stdout


@pytest.mark.parametrize("command", ["flow", "memory", "tree"])
def test_a_recording_reports_its_gradients_and_memory_without_torch(command: str) -> None:
    result = gradviz(command, DEMO)
    assert result.returncode == 0, result.stderr
    assert {"flow": "model.0.weight", "memory": "logits = model(inputs)", "tree": "NllLoss"}[command] in result.stdout


def test_a_recording_is_replayed_without_torch() -> None:
    result = gradviz("replay", DEMO)
    assert (result.returncode, result.stderr) == (0, "")
    assert "step 3 of 9   linear" in result.stdout


@pytest.mark.parametrize("source", [[], [DEMO]])
def test_an_operation_is_explained_without_importing_torch(source: list[Path]) -> None:
    result = gradviz("explain", "addmm" if not source else "logits", *source)
    assert result.returncode == 0, result.stderr
    assert "mm_mat1_backward(grad, mat2, " in result.stdout


def test_the_demo_is_shown_without_torch() -> None:
    result = gradviz("demo")
    assert result.returncode == 0, result.stderr
    assert "NllLossBackward0" in result.stdout


@pytest.mark.parametrize("suffix", ["svg", "png", "dot", "json", "txt"])
def test_a_saved_capture_is_rendered_without_torch(capture_path: Path, suffix: str) -> None:
    picture = capture_path.with_suffix(f".{suffix}")
    result = gradviz("render", capture_path, "-o", picture)
    assert result.returncode == 0, result.stderr
    assert picture.stat().st_size > 0


def test_the_tree_of_a_saved_capture_is_shown_without_torch(capture_path: Path) -> None:
    result = gradviz("tree", capture_path)
    assert result.returncode == 0, result.stderr
    assert "weight" in result.stdout


def test_the_memory_of_a_saved_capture_is_reported_without_torch(capture_path: Path) -> None:
    result = gradviz("memory", capture_path, "-o", capture_path.with_suffix(".svg"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("24 B kept")
