"""What gradviz check adds to training scripts that run for some seconds, as processor time of the whole command."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.measuring import Row, cost_of_python, costs_in_turns, times_as_long

PROGRAMS = Path(__file__).parent / "checked_programs"
TURNS = 3
_CHECK = ("-m", "gradviz", "check", "--fail-on", "never", "--seconds", "3000")
"""On a busy machine a script may take longer than the usual minute."""


def measure() -> Iterator[Row]:
    for program in sorted(PROGRAMS.glob("*.py")):
        with TemporaryDirectory() as byte_code:
            ways = {"plain": (program,), "checked": (*_CHECK, program)}
            rivals = {way: partial(cost_of_python, words, byte_code) for way, words in ways.items()}
            costs = costs_in_turns(rivals, turns=TURNS)
        plain = costs["plain"].seconds
        yield Row(f"{program.stem}, plain", plain)
        yield Row(f"{program.stem}, checked", costs["checked"].seconds, times_as_long(costs["checked"].seconds, plain))
