"""``python -m tests.prepared.forks SOCKET``: loads torch and gradviz, then forks a program for each request.

A request is a byte on the socket with file descriptors beside it: of a file that says in JSON what to run and for how
long, of a pipe that hears the exit code, and of the program's standard streams.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import io
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from tests.prepared.process import TIMED_OUT
from tests.prepared.unloaded import unload

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_DESCRIPTORS = 2 + len(_STREAMS)
_PR_SET_CHILD_SUBREAPER = 36


def serve(requests: socket.socket) -> None:
    """Answer until the other end is closed."""
    _load_all()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us will close the socket
    busy, idle = list[socket.socket](), list[socket.socket]()
    while True:
        for ready in select.select([requests, *busy], [], [])[0]:
            if ready is not requests:
                busy.remove(ready)
                if ready.recv(1):
                    idle.append(ready)
                else:
                    ready.close()  # something killed it
                continue
            overseer = idle.pop() if idle else _new_overseer([requests, *busy])
            busy.append(overseer)
            byte, descriptors, _, _ = socket.recv_fds(requests, 1, _DESCRIPTORS)
            if not byte:
                _let_go([overseer, *idle])
                return
            socket.send_fds(overseer, [byte], descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
        _forget_the_ended()


def _load_all() -> None:
    """Import what programs need, and make it look as if it were not: in groups whose modules come together, those of
    torch, those that it imports itself for an optimizer, and those for what is compiled.

    Here rather than in each program, which would copy every page of memory that it changes.
    """
    import numpy  # noqa: F401
    import torch  # noqa: F401

    load_gradviz()
    groups = [{name for name in sys.modules if name.partition(".")[0] == "torch"}]
    for name in ("torch._dynamo", "torch._inductor.compile_fx"):
        before = set(sys.modules)
        with warnings.catch_warnings():  # they bring filters of their own
            import_module(name)
        groups.append(set(sys.modules) - before)
    for modules in reversed(groups):  # a module is an attribute of its package, which must still be there
        unload(modules)
    _let_go_at_the_end()
    gc.collect()
    gc.freeze()  # no program needs to copy what it only looks through for garbage


def _let_go_at_the_end() -> None:
    """Have no program take back the operators that torch registered when it was loaded: its memory goes anyway, and
    would first be copied. What a program registers itself is taken back."""
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False


def load_gradviz() -> None:
    """Import all its modules, and with them torch."""
    import gradviz

    for module in pkgutil.walk_packages(gradviz.__path__, "gradviz."):
        if module.name not in ("gradviz.__main__", "gradviz.pytest_plugin"):
            import_module(module.name)


def _forget_the_ended() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _let_go(overseers: Sequence[socket.socket]) -> None:
    """End them, and wait for it: only then the time of their programs counts as ours."""
    for each in overseers:
        each.close()
    with contextlib.suppress(ChildProcessError):
        for _ in overseers:
            os.wait()


def _new_overseer(not_for_it: Sequence[socket.socket]) -> socket.socket:
    """Fork a process that forks programs, one after the other: a fork of all that is loaded takes longer than many a
    program, and each needs a process of its own that looks after what it leaves behind."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        for each in (ours, *not_for_it):
            each.close()
        # A process that outlives the one that started it becomes a child of ours, also in a session of its own.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        while True:
            byte, descriptors, _, _ = socket.recv_fds(theirs, 1, _DESCRIPTORS)
            if not byte:
                os._exit(0)
            _oversee(theirs, *descriptors)
            with contextlib.suppress(BrokenPipeError):
                theirs.send(byte)
    theirs.close()
    return ours


def _oversee(requests: socket.socket, request: int, replies: int, *streams: int) -> None:
    """Fork the program, and tell how it ended; at the time limit, end it and every process that it has started."""
    with os.fdopen(request) as file:
        asked: dict[str, Any] = json.load(file)
    program = os.fork()
    if program == 0:
        requests.close()
        os.close(replies)
        _be_the_program(asked, streams)
    for stream in streams:
        os.close(stream)  # or who reads what the program prints would wait for us
    time_limit = time.monotonic() + asked["seconds"]
    is_in_time = _has_ended(program, time_limit)
    if not is_in_time:
        os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    os.write(replies, f"{os.waitstatus_to_exitcode(status) if is_in_time else TIMED_OUT}\n".encode())
    os.close(replies)
    while left := Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split():
        for process in map(int, left):
            if not _has_ended(process, time_limit):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def _has_ended(process: int, time_limit: float) -> bool:
    """Wait until that child has ended, or that time has come."""
    descriptor = os.pidfd_open(process)
    try:
        return bool(select.select([descriptor], [], [], max(0.0, time_limit - time.monotonic()))[0])
    finally:
        os.close(descriptor)


def _be_the_program(asked: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    code = 1
    try:
        _take_surroundings(asked, streams)
        code = _exit_code(asked["entry"])
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)


def _take_surroundings(asked: dict[str, Any], streams: Sequence[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv = asked["words"]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.path[0] = "" if sys.argv[0] == "-c" else str(Path(sys.argv[0]).resolve().parent)
    main = ModuleType("__main__")
    main.__file__ = sys.argv[0]
    sys.modules["__main__"] = main
    for number, ((name, mode), stream) in enumerate(zip(_STREAMS, streams, strict=True)):
        os.dup2(stream, number)
        os.close(stream)
        setattr(sys, name, _standard_stream(number, name, mode))
        setattr(sys, f"__{name}__", getattr(sys, name))


def _standard_stream(number: int, name: str, mode: str) -> io.TextIOWrapper:
    """As Python opens it when it starts."""
    at_our_start = getattr(sys, f"__{name}__")
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    return io.TextIOWrapper(
        open(number, f"{mode}b", closefd=False),
        encoding or at_our_start.encoding,
        at_our_start.errors if name == "stderr" else errors or (encoding and "strict") or at_our_start.errors,
        line_buffering=name == "stderr" or os.isatty(number),
    )


def _exit_code(entry: str) -> int:
    module, _, function = entry.partition(":")
    try:
        getattr(import_module(module), function)()
    except SystemExit as request:
        if request.code is None or isinstance(request.code, int):
            return (request.code or 0) & 0xFF
        print(request.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
