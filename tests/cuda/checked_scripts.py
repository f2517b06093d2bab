"""``gradviz check`` of scripts of the corpus that compute on a GPU: it finds there what it finds on the processor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cuda.device import DEVICE
from tests.end_to_end.command import Run, installed_gradviz

CASES = Path(__file__).parents[1] / "corpus" / "cases"
CHOSEN = ("c01", "c12", "e13", "e22", "f01", "f20", "f22", "n05", "n09")
"""Detached, cast to integers, dead ReLU, NaN, changed in place, graphs kept, a wrong backward; two are healthy."""


def _checked(source: str, folder: Path, device: str) -> Run:
    first = "import torch\n"
    assert source.count(f"\n{first}") == 1 or source.startswith(first)
    # On the same line: findings are compared by line.
    moved = source.replace(first, f'import torch; torch.set_default_device("{device}")\n', 1)
    folder.mkdir()
    (folder / "script.py").write_text(moved, encoding="utf-8")
    return installed_gradviz("check", "script.py", "--format", "json", cwd=folder)


def _findings(run: Run) -> set[tuple[str, int | None]]:
    assert "defect of gradviz" not in run.stdout + run.stderr
    return {(found["code"], found.get("line")) for found in json.loads(run.stdout)["findings"]}


@pytest.mark.parametrize("case", CHOSEN)
def test_the_findings_are_those_of_the_processor(case: str, tmp_path: Path) -> None:
    (folder,) = CASES.glob(f"{case}_*")
    source = (folder / "script.py").read_text(encoding="utf-8")

    there = _checked(source, tmp_path / "there", DEVICE)
    here = _checked(source, tmp_path / "here", "cpu")

    assert there.exit_code == here.exit_code, there.stderr
    assert _findings(there) == _findings(here)
    if case.startswith("n"):
        assert there.exit_code == 0, there.stdout
    else:
        lines = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["line"]
        wanted = lines if isinstance(lines, list) else [lines]
        assert any(line in wanted for _, line in _findings(there))
