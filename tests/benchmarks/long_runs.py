"""Memory that a process holds while it trains 10,000 steps, in MiB after 100, 1,000, 2,500, 5,000, 7,500, all steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.benchmarks.measuring import Row, python

PROGRAM = Path(__file__).parent / "programs" / "small_training.py"
_COMMAND = ("-m", "gradviz", "record", PROGRAM, "-o", "{folder}/out.gradviz")
WAYS: dict[str, tuple[str | Path, ...]] = {
    "plain": (PROGRAM, "plain"),
    "gradviz.watch(model, every=100)": (PROGRAM, "watch"),
    "record(backward='last'), every step recorded": (PROGRAM, "last"),
    "record(), every step kept": (PROGRAM, "record"),
    "record(calls=True), every call logged": (PROGRAM, "calls"),
    "gradviz record --keep-going": (*_COMMAND, "--keep-going", "--", "plain"),
    "gradviz record --backward 10000": (*_COMMAND, "--backward", "10000", "--", "plain"),
    "gradviz record --backward last": (*_COMMAND, "--backward", "last", "--", "plain"),
    "gradviz record --backward all": (*_COMMAND, "--backward", "all", "--", "plain"),
}
"""Arguments of Python; the file for the curve goes before the last one."""


def measure() -> Iterator[Row]:
    for way, arguments in WAYS.items():
        with TemporaryDirectory() as folder:
            curve_file = Path(folder) / "curve.json"
            start = perf_counter()
            python(_with_curve(arguments, curve_file))
            seconds = perf_counter() - start
            yield Row(way, seconds, "  ".join(f"{each:.0f}" for each in json.loads(curve_file.read_text())))


def _with_curve(arguments: tuple[str | Path, ...], curve_file: Path) -> list[str | Path]:
    *before, way = (str(argument).format(folder=curve_file.parent) for argument in arguments)
    return [*before, curve_file, way]
