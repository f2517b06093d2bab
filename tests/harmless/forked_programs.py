"""What a forked process becomes: the plain program, or the command that records it, both from the same state."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from tests.prepared import programs
from tests.prepared.process import PreparedProcess

LOGGING_CALLS = "gradviz, logging calls"
CACHE = "cache"
"""The folder that keeps what a run compiles."""


def environment(folder: Path) -> dict[str, str]:
    """In which every program runs, in whichever way; what is compiled goes into `CACHE`, in `folder`."""
    ours = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TERM": "dumb"}
    ours["TORCHINDUCTOR_CACHE_DIR"] = str(folder / CACHE)
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **ours}


def run_forked(process: PreparedProcess, command: list[str], folder: Path, cwd: Path, seconds: float) -> int:
    """Run ``python COMMAND`` or ``gradviz COMMAND``, in `cwd`; what it prints goes to files in `folder`."""
    entry = f"{__name__}:{_ENTRIES[command[0]].__name__}"
    words = command[1:] if command[0] == "python" else command
    with (
        Path(os.devnull).open() as nothing,
        (folder / "stdout").open("w") as out,
        (folder / "stderr").open("w") as error,
    ):
        streams = [file.fileno() for file in (nothing, out, error)]
        return process.run(entry, words, streams, cwd, environment(folder), seconds)


def run_script() -> None:
    """The script that ``sys.argv`` names."""
    _reset_peak_memory()
    programs.run_script()


def run_command() -> None:
    """``gradviz``."""
    _reset_peak_memory()
    from gradviz.cli import main

    main()


def run_command_logging_calls() -> None:
    """``gradviz``, where every recording logs all torch calls."""
    _reset_peak_memory()
    from tests.harmless.logging_calls import run

    run()


_ENTRIES: dict[str, Callable[[], None]] = {
    "python": run_script,
    "gradviz": run_command,
    LOGGING_CALLS: run_command_logging_calls,
}


def _reset_peak_memory() -> None:
    # Where that cannot be, the peak is that of the process it was forked from, in both runs.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
