"""Runs the benchmarks, or those named on the command line, and prints one table."""

from __future__ import annotations

import math
import sys
from importlib import import_module

from gradviz.errors import near_matches
from tests.benchmarks.measuring import Row, duration

BENCHMARKS = (
    "help_time",
    "walk_cost",
    "training_step",
    "recorded_step",
    "compiled_run",
    "check_cost",
    "render_time",
    "page_time",
    "page_cost",
    "peers",
    "saved_capture_time",
    "capture_file_time",
    "memory_total",
    "watched_training",
    "long_runs",
)


def main(wanted: list[str]) -> None:
    for name in wanted or BENCHMARKS:
        if name not in BENCHMARKS:
            sys.exit(f"unknown benchmark {name!r}; {near_matches(name, BENCHMARKS)}")
        module = import_module(f"tests.benchmarks.{name}")
        print(f"\n{(module.__doc__ or name).splitlines()[0]}")
        for row in module.measure():
            print(row if isinstance(row, str) else _line(row), flush=True)


def _time(row: Row) -> str:
    return "-" if math.isnan(row.seconds) else duration(row.seconds)


def _line(row: Row) -> str:
    return f"  {row.what:<44} {_time(row):>10}  {row.remark}".rstrip()


if __name__ == "__main__":
    main(sys.argv[1:])
