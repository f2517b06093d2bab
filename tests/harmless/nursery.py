"""A process that has torch and gradviz loaded, and has each run begin from that very state, in a child of its own.

Loading torch takes longer than most programs. Each line on standard input is a `Request` as JSON; each line on standard
output is the exit code of its child.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

_ROOT = Path(__file__).parents[2]
_DRIVER = Path(__file__).with_name("examined.py")


class Nursery:
    """Starts the process; `run` has it run a program."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harmless.nursery"],
            cwd=_ROOT,
            env=environment(_ROOT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, command: list[str], folder: Path, cwd: Path, seconds: float) -> int:
        """Run ``python COMMAND`` or ``gradviz COMMAND``, in `cwd`; what it prints goes to files in `folder`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"command": command, "folder": str(folder), "cwd": str(cwd), "seconds": seconds}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def environment(folder: Path) -> dict[str, str]:
    """In which every program runs, in whichever way; `folder`, emptied between runs, gets what is compiled."""
    ours = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TERM": "dumb"}
    ours["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "cache")
    return {**os.environ, "PYTHONPATH": str(_ROOT), **ours}


def _serve() -> None:
    import numpy  # noqa: F401 - so that no run has to load it
    import torch  # noqa: F401

    import gradviz.capture.capture_file
    import gradviz.cli.record
    import gradviz.recording.recorder
    import gradviz.recording.script_runner  # noqa: F401

    requests = os.fdopen(os.dup(0))
    replies = os.fdopen(os.dup(1), "w")
    for line in requests:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            requests.close()
            replies.close()
            _be_the_program(**{name: request[name] for name in ("command", "folder", "cwd")})
        print(_exit_code(child, request["seconds"]), file=replies, flush=True)


def _exit_code(child: int, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return TIMED_OUT


TIMED_OUT = 124
LOGGING_CALLS = "gradviz, logging calls"


def _be_the_program(command: list[str], folder: str, cwd: str) -> None:
    code = 1
    try:
        os.chdir(cwd)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder) / "cache")
        for name, number in (("stdout", 1), ("stderr", 2)):
            os.dup2(os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _reset_peak_memory()
        code = _run_command(command)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _run_command(command: list[str]) -> int:
    sys.argv = command
    try:
        if command[0] == "gradviz":
            from gradviz.cli import main

            main()
        elif command[0] == LOGGING_CALLS:
            from tests.harmless.logging_calls import run

            run()
        else:
            _run_as_main_program(command[1:])
    except SystemExit as request:
        if request.code is None or isinstance(request.code, int):
            return request.code or 0
        print(request.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def _run_as_main_program(words: list[str]) -> None:
    main = ModuleType("__main__")
    namespace: dict[str, Any] = main.__dict__
    namespace.update(__file__=words[0], __builtins__=sys.modules["builtins"], __cached__=None, __annotations__={})
    sys.modules["__main__"] = main
    sys.argv = words
    sys.path[0] = str(_DRIVER.parent)
    exec(compile(_DRIVER.read_text(encoding="utf-8"), words[0], "exec", dont_inherit=True), namespace)


def _reset_peak_memory() -> None:
    # Where that cannot be, the peak is that of the parent, in both runs.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    _serve()
