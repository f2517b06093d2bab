"""How times are taken: rivals in turns, medians shown."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    seconds: float
    remark: str = ""


def medians_in_turns(
    rivals: Mapping[str, Callable[[], object]], *, turns: int = 5, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each rival. The first turn warms caches up and does not count.

    `clock` may be `time.process_time` for what one process computes by itself: other programs then disturb less.
    """
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(turns + 1):
        for name, rival in rivals.items():
            seconds = _seconds(rival, clock)
            if turn > 0:
                times[name].append(seconds)
    return {name: median(values) for name, values in times.items()}


class Cost(NamedTuple):
    """What a process took."""

    seconds: float
    """Of the processor: other programs disturb it less than the clock."""
    peak: int
    """Bytes of memory, at most."""


def cost_of_python(arguments: Sequence[str | Path], byte_code: str | Path | None = None) -> Cost:
    """Runs a Python of its own in the repository root, as `python` does.

    In the folder `byte_code` it keeps compiled modules from one run to the next, as an installed package has them; some
    machines forbid Python to write them, and then it compiles 300 modules of gradviz at every start.
    """
    command = [sys.executable, *map(str, arguments)]
    kept = {} if byte_code is None else {"PYTHONPYCACHEPREFIX": str(byte_code), "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=output, stderr=output, env={**os.environ, **kept})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed:\n{output.read().decode()}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def costs_in_turns(rivals: Mapping[str, Callable[[], Cost]], *, turns: int = 5) -> dict[str, Cost]:
    """Medians of each rival. The first turn warms caches up and does not count."""
    found: dict[str, list[Cost]] = {name: [] for name in rivals}
    for turn in range(turns + 1):
        for name, rival in rivals.items():
            cost = rival()
            if turn > 0:
                found[name].append(cost)
    return {
        name: Cost(median(each.seconds for each in costs), int(median(each.peak for each in costs)))
        for name, costs in found.items()
    }


def python(arguments: Sequence[str | Path]) -> None:
    """Runs a Python of its own in the repository root; its output is dropped unless it fails."""
    command = [sys.executable, *map(str, arguments)]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stderr}")


def duration(seconds: float) -> str:
    """In seconds or milliseconds."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


def times_as_long(seconds: float, plain: float) -> str:
    return f"{seconds / plain:.2f} x plain"


def _seconds(action: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    action()
    return clock() - start
