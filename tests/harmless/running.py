"""Runs a script plain and recorded, and tells what differed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from gradviz.capture.capture_file import load_capture
from tests.harmless.comparing import Difference, differences
from tests.harmless.examination import AT_EXIT, AT_THE_END
from tests.harmless.forked_programs import CACHE, LOGGING_CALLS, environment, run_forked
from tests.prepared.process import TIMED_OUT, PreparedProcess

DRIVER = Path(__file__).with_name("examined.py")
_GRADVIZ = Path(sysconfig.get_path("scripts")) / "gradviz"
_LOGGING = "tests.harmless.logging_calls"
_FILLED_CACHE = "filled_cache"
SECONDS = 240.0

WAYS = {
    "every": ("--backward", "all", "--keep-going"),
    "first": ("--keep-going",),
    "values": ("--backward", "all", "--keep-going", "--values"),
    "calls": ("--backward", "all", "--keep-going"),
    "structure": ("--backward", "all", "--keep-going", "--no-gradients"),
    "inside": ("--backward", "all", "--keep-going", "--inside"),
}
"""Ways to record a script that runs to its end; ``calls`` logs every torch call as well."""

Runner = Callable[[list[str], Path, Path], int]
"""Runs a command that begins with ``python``, ``gradviz`` or `LOGGING_CALLS`; gets its folder and working directory."""


@dataclass(frozen=True)
class Comparison:
    """What came of one script."""

    name: str
    differences: list[Difference]
    varies: list[str] = field(default_factory=list)
    """What differs between two plain runs as well, and could not be compared."""
    disclosures: list[str] = field(default_factory=list)
    nodes: int = 0
    graphs: int = 0


def compare(
    script: Path,
    folder: Path,
    run: Runner,
    way: str = "every",
    arguments: tuple[str, ...] = (),
    *,
    with_filled_cache: bool = False,
) -> Comparison:
    """Run the script twice; and a third time, plain, where something differed: it may do so by itself.

    Args:
        with_filled_cache: every run finds on disk what an earlier plain run compiled; otherwise it finds nothing.
    """
    words = [str(folder), str(script), *arguments]
    cache = folder / _FILLED_CACHE
    shutil.rmtree(cache, ignore_errors=True)
    if with_filled_cache:
        _observed(run, ["python", str(DRIVER), *words], folder)
        (folder / CACHE).rename(cache)
    plain = _observed(run, ["python", str(DRIVER), *words], folder)
    capture = folder / "run.gradviz"
    command = [
        LOGGING_CALLS if way == "calls" else "gradviz",
        "record",
        *WAYS[way],
        "-o",
        str(capture),
        str(DRIVER),
        "--",
        *words,
    ]
    recorded = _observed(run, command, folder)
    told = _told_by(capture)
    recorded["nodes"] = told[1]
    found = differences(plain, recorded)
    varies: list[str] = []
    if found:
        again = differences(plain, {**_observed(run, ["python", str(DRIVER), *words], folder), "nodes": 0})
        unstable = {difference.place for difference in again}
        varies = sorted(unstable & {difference.place for difference in found})
        found = [difference for difference in found if difference.place not in unstable]
    name = script.parent.name if script.stem == "script" else script.stem
    return Comparison(" ".join((name, *arguments)), found, varies, *told)


def forked(process: PreparedProcess) -> Runner:
    """Runs in a process in which importing torch takes no time."""
    return lambda command, folder, cwd: run_forked(process, command, folder, cwd, SECONDS)


def fresh(command: list[str], folder: Path, cwd: Path) -> int:
    """Runs in a process of its own, as from a shell."""
    programs = {"python": [sys.executable], "gradviz": [str(_GRADVIZ)], LOGGING_CALLS: [sys.executable, "-m", _LOGGING]}
    words = [*programs[command[0]], *command[1:]]
    options: dict[str, Any] = {"cwd": cwd, "env": environment(folder), "stdin": subprocess.DEVNULL, "timeout": SECONDS}
    with (folder / "stdout").open("w") as out, (folder / "stderr").open("w") as error:
        try:
            return subprocess.run(words, stdout=out, stderr=error, **options).returncode
        except subprocess.TimeoutExpired:
            return TIMED_OUT


def _observed(run: Runner, command: list[str], folder: Path) -> dict[str, Any]:
    """Everything that is compared of one run."""
    cwd = folder / "work"
    for each in (cwd, folder / CACHE):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    if (folder / _FILLED_CACHE).exists():
        shutil.copytree(folder / _FILLED_CACHE, folder / CACHE, dirs_exist_ok=True)
    for name in (AT_THE_END, AT_EXIT, "run.gradviz"):
        (folder / name).unlink(missing_ok=True)
    exit_code = run(command, folder, cwd)
    printed = {
        name: (folder / name).read_text(encoding="utf-8", errors="backslashreplace") for name in ("stdout", "stderr")
    }
    written = {path.name: sha256(path.read_bytes()).hexdigest()[:16] for path in cwd.rglob("*") if path.is_file()}
    return {
        "exit code": exit_code,
        **printed,
        "files": written,
        "end": _json(folder / AT_THE_END),
        "exit": _json(folder / AT_EXIT),
    }


def _json(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else {}


def _told_by(path: Path) -> tuple[list[str], int, int]:
    """Disclosures, nodes and graphs of a capture, where one was written."""
    if not path.exists():
        return [], 0, 0
    capture = load_capture(path)
    return list(capture.disclosures), sum(len(graph.nodes) for graph in capture.graphs), len(capture.graphs)
