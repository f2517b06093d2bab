"""Runs programs plain and under ``gradviz check``, and compares."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.corpus_mutants.planting import Mutant
from tests.prepared.process import PreparedProcess

_LIMIT_S = 120
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Trace:
    """What one plain run did."""

    raised: str | None
    line: int | None
    steps: list[list[Any]]
    ends: dict[str, list[Any]]


@dataclass(frozen=True)
class Said:
    """What ``gradviz check`` told: its findings above notes, in order, and its notes."""

    findings: tuple[dict[str, Any], ...]
    failure: str | None = None
    notes: tuple[dict[str, Any], ...] = ()


class Runner:
    """Runs programs in processes that are forked from one where torch is loaded."""

    def __init__(self) -> None:
        self._process = PreparedProcess({**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})

    def close(self) -> None:
        self._process.close()

    def trace(self, source: str) -> Trace | None:
        """The gradients and parameters of a run; None if it did not come to an end that can be compared."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "train.py").write_text(source, encoding="utf-8")
            self._run(folder, "tests.corpus_mutants.traced:run_traced", ["traced", f"{folder}/train.py", "trace.json"])
            report = folder / "trace.json"
            return Trace(**json.loads(report.read_text())) if report.exists() else None

    def check(self, source: str) -> Said:
        """The findings about a program."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "train.py").write_text(source, encoding="utf-8")
            code, output = self._run(folder, "gradviz.cli:main", ["gradviz", "check", "train.py", "--format", "json"])
            errors = (folder / "errors").read_text(encoding="utf-8", errors="replace")
        start = [found.start() for found in re.finditer(r"^\{", output, re.MULTILINE)]
        for position in reversed(start):
            try:
                report, _ = json.JSONDecoder().raw_decode(output, position)
            except ValueError:
                continue
            if "findings" in report:
                notes = tuple(each for each in report["findings"] if each["severity"] == "note")
                return Said(tuple(each for each in report["findings"] if each not in notes), None, notes)
        return Said((), f"exit code {code}, no report: {output[-200:]} {errors[-1000:]}")

    def _run(self, folder: Path, entry: str, words: list[str]) -> tuple[int, str]:
        output = folder / "output"
        env = {**os.environ, "GRADVIZ_CACHE_DIR": str(folder / "cache")}
        with output.open("w") as file, Path(os.devnull).open() as nothing, (folder / "errors").open("w") as errors:
            streams = (nothing.fileno(), file.fileno(), errors.fileno())
            code = self._process.run(entry, words, streams, folder, env, _LIMIT_S)
        text = output.read_text(encoding="utf-8", errors="replace")
        shutil.rmtree(folder / "cache", ignore_errors=True)
        return code, text


def has_history(mutant: Mutant, runner: Runner) -> bool:
    """Whether the result that the fault takes the history from has one in the healthy program."""
    if mutant.probe is None:
        return True
    trace = runner.trace(mutant.probe)
    return trace is not None and (trace.raised or "").startswith("HasHistory")


def is_fault(mutant: Mutant, healthy: Trace, trace: Trace | None) -> bool:
    """Whether a mutant does something else than the healthy program, and it is autograd that does it."""
    if trace is None:
        return False
    if trace.raised is not None:
        return trace.raised.startswith(("RuntimeError", "ValueError")) and not _is_about_shapes(trace.raised)
    if mutant.operator.needs == "nothing":
        return True
    if mutant.operator.needs == "raise":
        return False
    if mutant.operator.needs == "loss":
        return bool(_lost(healthy, trace))
    return not _alike(healthy.steps, trace.steps) or not _alike(healthy.ends, trace.ends)


def _is_about_shapes(message: str) -> bool:
    return bool(
        re.search(
            r"shape|size|dimension|dtype|converted to Scalar|expected .* to have|must match|not aligned",
            message,
            re.IGNORECASE,
        )
    )


def _lost(healthy: Trace, trace: Trace) -> list[tuple[int, int]]:
    """Gradients that are there in the healthy run, and None or zero here."""
    return [
        (step, index)
        for step, (before, now) in enumerate(zip(healthy.steps, trace.steps, strict=False))
        for index, (one, other) in enumerate(zip(before, now, strict=False))
        if one and one[0] and (other is None or (other and not other[0]))
    ]


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_alike(one[name], other[name]) for name in one.keys() & other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-9)
    return bool(one == other)
