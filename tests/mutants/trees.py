"""Copies of the project, in which one module is changed and the tests are run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_COPIED = ("gradviz", "tests", "samples", "pyproject.toml", "README.md", "Makefile", "LICENSE")
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "node_modules", "actual", ".*_cache")
_PYTEST = ("-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=line")


class Tree:
    """One copy. Nothing outside it is written to, so that you can work on while mutants run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=_NOT_COPIED)
            else:
                shutil.copy2(source, folder / name)

    def write(self, module: str, source: str) -> None:
        """Give the module this source. Compiled code goes: it is told apart by whole seconds and size only."""
        path = self._folder / module
        path.write_text(source, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def run(self, tests: Sequence[str], timeout: float | None = None) -> Run:
        """Run these test files up to the first failure; what takes longer than `timeout` seconds is ended."""
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, *_PYTEST, *tests],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(self._folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # A group of its own: tests start further processes, which must end with it.
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            return Run(False, "timeout", time.monotonic() - began)
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
        return Run(process.returncode == 0, _first_failure(output) or last, time.monotonic() - began)


class Run:
    """How one run of tests went."""

    def __init__(self, has_passed: bool, told: str, seconds: float) -> None:
        self.has_passed = has_passed
        self.told = told
        """The first test that failed, or else the last line."""
        self.seconds = seconds


def _first_failure(output: str) -> str:
    failures = (line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR ")))
    return next(failures, "").partition(" - ")[0]
