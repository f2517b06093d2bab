"""Run logs written by hand, for tests that need only a run log."""

from __future__ import annotations

from math import nan

from gradviz.capture.capture import Program
from gradviz.capture.run_log import (
    RunEnd,
    RunHeader,
    RunLog,
    StepFigures,
    WatchedParameter,
    packed_floats,
    packed_integers,
)

BROKEN = (nan, -1)
"""A gradient whose elements are all NaN."""


def run_log(series: dict[str, list[tuple[float, int]]], *, elements: int = 4, is_ended: bool = True) -> RunLog:
    """Norm and zeros of each parameter at steps 1, 10, 20, ...; all have this many elements."""
    header = RunHeader(Program("train.py"), tuple(WatchedParameter(name, (elements,)) for name in series), every=10)
    rows = list(zip(*series.values(), strict=True))
    steps = tuple(
        StepFigures(
            max(10 * place, 1),
            packed_floats([norm for norm, _ in row]),
            packed_floats([1.0] * len(row)),
            packed_integers([max(zeros, 0) for _, zeros in row]),
            packed_integers([elements if zeros < 0 else 0 for _, zeros in row]),
        )
        for place, row in enumerate(rows)
    )
    return RunLog(header, steps, RunEnd(steps[-1].step) if is_ended else None)
