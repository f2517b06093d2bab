"""A process that has torch and gradviz loaded, and forks programs: to load them takes longer than most tests.

A forked program begins as one from a shell does, with an environment, a folder and standard streams of its own, and
without torch: importing it takes no time, but happens when the program does it, and can be noticed then. What differs:
Python and torch read settings in the environment when they start (`reads_at_start`), hash values are the same in all
programs of a process, and modules are not taken apart in the end.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
TIMED_OUT = 124
_READ_AT_START = ("PYTHON", "OMP_", "MKL_", "LD_")


def reads_at_start(names: Iterable[str]) -> bool:
    """Whether one of these variables is read when Python or torch starts: too late for a forked program."""
    return any(name.startswith(_READ_AT_START) for name in names)


class PreparedProcess:
    """Starts the process; `run` has it fork a program. Several may run at once."""

    def __init__(self, env: dict[str, str] | None = None) -> None:
        self._requests, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.prepared.forks", str(theirs.fileno())],
            cwd=ROOT,
            env={**(env or os.environ), "OPENBLAS_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def run(
        self, entry: str, words: Sequence[str], streams: Sequence[int], cwd: Path, env: dict[str, str], seconds: float
    ) -> int:
        """Runs a function, named ``module:function``, as a program, and waits for its end.

        Args:
            words: what becomes ``sys.argv``.
            streams: file descriptors of standard input, output and error.

        Returns:
            The exit code; negative for a signal, as `subprocess` has it; `TIMED_OUT` when it was killed for that. What
            the program has started and left running is killed after the same `seconds`.
        """
        reading, writing = os.pipe()
        with tempfile.TemporaryFile("w+") as request, os.fdopen(reading) as replies:
            try:
                asked = {"entry": entry, "words": list(words), "cwd": str(cwd), "env": env, "seconds": seconds}
                json.dump(asked, request)
                request.flush()
                request.seek(0)
                socket.send_fds(self._requests, [b"."], [request.fileno(), writing, *streams])
            finally:
                os.close(writing)
            return int(replies.readline())

    def close(self) -> None:
        """Ends the process."""
        self._requests.close()
        self._process.wait()

    def __enter__(self) -> PreparedProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@cache
def prepared_process() -> PreparedProcess:
    """The one of this process, started when it is first needed."""
    process = PreparedProcess()
    atexit.register(process.close)
    return process
