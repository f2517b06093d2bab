"""How long the command takes to answer when there is nothing to do."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.measuring import Row, medians_in_turns, python


def measure() -> Iterator[Row]:
    found = medians_in_turns(
        {
            "python -c pass": lambda: python(["-c", "pass"]),
            "import gradviz": lambda: python(["-c", "import gradviz"]),
            "gradviz --help": lambda: python(["-m", "gradviz", "--help"]),
        }
    )
    for what, seconds in found.items():
        yield Row(what, seconds)
