"""Scores `gradviz check` on distributed scripts with known faults or none; healthy ones must train the same without it.

    python -m tests.distributed [beginnings of names]

Each faulty script names its cause in its first line, and marks the line with ``# <- cause``. A healthy script prints
its parameters, which must be the same bit for bit, on two ranks and on four. It is checked on two, unless its first
line says ``Checked on 4 ranks.``
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
AS_RANKS = HERE.parent / "end_to_end" / "scripts" / "as_ranks.py"
HANG_SECONDS = 10
TIME_LIMIT = 300
SIZES = (2, 4)
WHOLE_LINES = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""The environment of a run. Without a buffer, the ranks would write parts of lines between each other's."""


@dataclass(frozen=True)
class Score:
    """What became of one script."""

    name: str
    is_right: bool
    told: str


def main(beginnings: Sequence[str]) -> int:
    """Run all scripts with these beginnings; 1 if any is not as it should be."""
    scripts = [
        path
        for path in sorted(HERE.glob("*/*.py"))
        if not beginnings or path.stem.startswith(tuple(beginnings)) or path.parent.name in beginnings
    ]
    scores = []
    for path in scripts:
        score = faulty(path) if path.parent.name == "faulty" else healthy(path)
        scores.append(score)
        print(f"{'right' if score.is_right else 'WRONG'}  {path.parent.name:8}{score.name:26}{score.told}", flush=True)
    right = sum(score.is_right for score in scores)
    print(f"{right} of {len(scores)} right")
    return int(right < len(scores))


def faulty(path: Path) -> Score:
    """Whether the cause and its line are told, and nothing else."""
    lines = path.read_text().splitlines()
    found = re.match(r'"""Expected: (\w+)\."""', lines[0])
    assert found is not None, path
    expected = found[1], next((n for n, line in enumerate(lines, 1) if "# <- cause" in line), None)
    told = checked(path, SIZES[0])
    wanted = f"{expected[0]} at {expected[1]}"
    return Score(path.stem, told == [expected], wanted if told == [expected] else f"expected {wanted}, told {told}")


def healthy(path: Path) -> Score:
    """Whether there is no alarm, and the parameters are the same with and without."""
    told = re.search(r"Checked on (\d+) ranks", path.read_text().partition("\n")[0])
    checked_on = SIZES[0] if told is None else int(told[1])
    alarms = checked(path, checked_on) or compared(path, checked_on)
    if alarms:
        return Score(path.stem, False, f"false alarms: {alarms}")
    for size in SIZES:
        plain, recorded = parameters(path, size, ()), parameters(path, size, ("-m", "gradviz", "record", *RECORD))
        if not plain or plain != recorded:
            return Score(path.stem, False, f"other parameters on {size} ranks: {len(plain)} and {len(recorded)} lines")
    return Score(path.stem, True, f"no alarm, the same parameters on {' and '.join(map(str, SIZES))} ranks")


RECORD = ("--backward", "all", "--keep-going", "-o", "run.gradviz")


def checked(path: Path, size: int) -> list[tuple[str, int | None]]:
    """Causes and lines of the errors and warnings of `gradviz check`; what it says itself if it makes no report."""
    words = ("-m", "gradviz", "check", "--hang", str(HANG_SECONDS), "--format", "json", "--seconds", str(TIME_LIMIT))
    run = _run(path, size, words, separator=("--",))
    if not run.stdout.startswith("{"):
        return [(" ".join(run.stderr.splitlines()[-1:]) or f"exit code {run.returncode}", None)]
    found = json.loads(run.stdout)["findings"]
    return [(each["cause"], each["line"]) for each in found if each["severity"] != "note"]


def compared(path: Path, size: int) -> list[str]:
    """The alarms of `gradviz ranks`; what it says itself if it compares nothing."""
    run = _run(path, size, ("-m", "gradviz", "ranks", "--hang", str(HANG_SECONDS), "--json"), separator=("--",))
    if not run.stdout.startswith("{"):
        return [" ".join(run.stderr.splitlines()[-1:]) or f"exit code {run.returncode}"]
    return [each["what"] for each in json.loads(run.stdout)["comparison"]["differences"] if each["is_alarm"]]


def parameters(path: Path, size: int, words: Sequence[str]) -> list[str]:
    """The parameters at the end, as the script prints them."""
    run = _run(path, size, words, separator=("--",) if words else ())
    return sorted(line for line in run.stdout.splitlines() if line.startswith("parameter "))


def _run(path: Path, size: int, words: Sequence[str], separator: Sequence[str]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        script = shutil.copy(path, Path(folder) / "train.py")
        return subprocess.run(
            [sys.executable, *words, str(AS_RANKS), *separator, str(script), str(size)],
            cwd=folder, env=WHOLE_LINES, capture_output=True, text=True, timeout=TIME_LIMIT, check=False,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
