"""One mutant from its seed, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

from gradviz.capture.capture import Capture, Program
from gradviz.capture.capture_file import load_capture, read_capture
from gradviz.capture.run_log import (
    RunEnd,
    RunHeader,
    StepFigures,
    WatchedParameter,
    packed_floats,
    packed_integers,
)
from gradviz.capture.run_log_file import read_run_log
from gradviz.errors import BadCapture
from tests.captures import small_capture
from tests.hostile.driving import EVERY_COMMAND, EVERY_COMMAND_ON_A_LOG, outcomes
from tests.hostile.mutating import Mutator, capture_file, full, run_log_file
from tests.hostile.whole_capture import whole_capture


@dataclass(frozen=True)
class Examined:
    """What came of one mutant."""

    seed: int
    change: str
    refusal: str
    faults: tuple[tuple[str, tuple[str, ...]], ...]
    seconds: float


@lru_cache(maxsize=1)
def originals(more: tuple[Path, ...] = ()) -> tuple[Mutator, ...]:
    """What mutants are made of; the last is a run log."""
    demo = load_capture(Path(str(files("gradviz.cli") / "demo.gradviz")))
    captures: list[Capture] = [small_capture(), whole_capture(), demo, *map(load_capture, more)]
    return (*map(Mutator, captures), Mutator(log_records()))


def log_records() -> dict[str, Any]:
    """The records of a run log; rows of numbers are lists here, so that each number can be changed."""
    watched = tuple(WatchedParameter(f"model.{name}", (3, 2), "float32") for name in "abc")
    rows = {
        "norms": [0.5, 1e-7, 3.0],
        "weight_norms": [1.0, 2.0, 3.0],
        "zeros": [0, 6, 1],
        "nans": [0, 0, 2],
        "infs": [0, 0, 1],
        "unmeasured": {"sparse": [1]},
    }
    return {
        "header": RunHeader(
            Program("train.py", ("--lr",), "3.11.7", "2.13.0", "0.1.0"),
            watched,
            every=2,
            frozen=("model.d",),
            is_unscaled=True,
        ),
        "steps": [full(StepFigures(step)) | rows for step in (1, 2, 5)],
        "end": RunEnd(9, ("One thing was not measured.",)),
    }


def _log_file(content: Any) -> bytes:
    steps = content["steps"] if isinstance(content["steps"], list) else [content["steps"]]
    return run_log_file(
        [(b"H", content["header"]), *((b"S", _with_packed_rows(step)) for step in steps), (b"E", content["end"])]
    )


def _with_packed_rows(step: Any) -> Any:
    if not isinstance(step, dict):
        return step
    packed = {}
    for name, pack in (("norms", packed_floats), ("weight_norms", packed_floats), ("zeros", packed_integers),
                       ("nans", packed_integers), ("infs", packed_integers)):  # fmt: skip
        try:
            packed[name] = pack(step[name])
        except (TypeError, ValueError, OverflowError, KeyError):
            packed[name] = b"no row"
    return {**step, **packed}


def examined(seed: int, mutators: Sequence[Mutator], folder: Path, commands: int, random: Random) -> Examined:
    """Load the mutant of that seed; if it loads, run some commands, or with 0 every command."""
    which = seed % len(mutators)
    content, change = mutators[which].mutant(seed)
    is_log = which == len(mutators) - 1
    data = _log_file(content) if is_log else capture_file(content)
    try:
        (read_run_log if is_log else read_capture)(data, "mutant.gradviz")
    except BadCapture as refusal:
        fault = "\n" in str(refusal) or len(str(refusal)) > 400
        return Examined(seed, change, str(refusal), ((f"a bad refusal: {refusal}", ()),) if fault else (), 0.0)
    file = folder / "mutant.gradviz"
    file.write_bytes(data)
    if not is_log:
        (folder / "original.gradviz").write_bytes(mutators[which].original)
    every = EVERY_COMMAND_ON_A_LOG if is_log else EVERY_COMMAND
    chosen = random.sample(every, min(commands, len(every))) if commands else every
    done = list(outcomes(file, chosen))
    return Examined(
        seed,
        change,
        "",
        tuple((each.fault, each.command) for each in done if each.fault is not None),
        max(each.seconds for each in done),
    )
