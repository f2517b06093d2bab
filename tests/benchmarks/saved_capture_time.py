"""Showing a saved capture: the whole command, from its start to its end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.benchmarks.measuring import Row, medians_in_turns, python
from tests.benchmarks.render_time import PROGRAMS


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, (program, (script, *arguments)) in enumerate(PROGRAMS.items()):
            capture = folder / f"{number}.gradviz"
            python(["-m", "gradviz", "record", script, "-o", capture, "--", *arguments])
            show: list[str | Path] = ["-m", "gradviz", "render", capture, "-o"]
            rivals = {
                "svg": partial(python, [*show, folder / "graph.svg"]),
                "png": partial(python, [*show, folder / "graph.png"]),
                "tree": partial(python, ["-m", "gradviz", "tree", capture]),
            }
            for what, seconds in medians_in_turns(rivals, turns=3).items():
                yield Row(f"{what} of {program}", seconds, f"{capture.stat().st_size / 1e6:.2f} MB saved")
