"""Runs a script or a module as ``python`` would, and records it.

torch is not imported here: the script does that, at the moment it wants, and recording begins then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

from gradviz.capture.capture import Capture, ScriptError
from gradviz.errors import BadInput, GradvizError, MissingDependency, NothingRecorded, near_matches
from gradviz.recording import user_traceback
from gradviz.recording.import_notice import ImportNotice
from gradviz.recording.plan import RecordingPlan, StopScript

if TYPE_CHECKING:
    from gradviz.recording.recorder import Recorder


@dataclass(frozen=True)
class Target:
    """A program that is ready to run."""

    name: str
    """As the user gave it."""
    code: CodeType
    argv0: str
    path0: str
    """What becomes ``sys.path[0]``."""
    file: str
    spec: ModuleSpec | None = None
    loader: Any = None


@dataclass(frozen=True)
class RunResult:
    """What came of a run."""

    capture: Capture
    exit_code: int
    """What the program itself would have ended with: 0, 1 after an exception, or its own ``sys.exit`` code."""
    printed_error: str | None = None
    """The program's traceback, for standard error."""


def script_target(path: str) -> Target:
    """A script file, compiled. Raises `BadInput` in one line, `SyntaxError` as Python shows it."""
    script = Path(path)
    if not script.exists():
        siblings = [str(p) for p in script.parent.glob("*.py")] if script.parent.is_dir() else []
        raise BadInput(f"no such script: {path}", hint=near_matches(path, siblings) if siblings else "check the path")
    if script.is_dir():
        raise BadInput(f"{path} is a directory, not a script", hint="name a .py file in it, or use -m for a package")
    try:
        source = script.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    if b"\0" in source or script.suffix == ".ipynb":
        raise BadInput(f"{path} is not a Python script", hint="give a .py file or a capture made by `gradviz record`")
    if not source.strip():
        raise BadInput(f"{path} is empty", hint="there is nothing to run")
    absolute = str(script.absolute())
    return Target(
        name=path,
        code=compile(source, absolute, "exec", dont_inherit=True),
        argv0=path,
        path0=os.path.realpath(script.parent),
        file=absolute,
        loader=SourceFileLoader("__main__", absolute),
    )


def module_target(name: str) -> Target:
    """A module or package, as ``python -m`` finds it."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
            if spec is None:
                raise BadInput(f"{name} is a package without __main__", hint="name a module inside it")
    except ModuleNotFoundError as error:
        raise BadInput(f"no module named {error.name!r}", hint="-m takes a dotted name, as python -m does") from error
    finally:
        sys.path.pop(0)
    if spec is None:
        raise BadInput(f"no module named {name!r}", hint="-m takes a dotted name, as python -m does")
    code = spec.loader.get_code(spec.name) if hasattr(spec.loader, "get_code") else None  # type: ignore[union-attr]
    if code is None or spec.origin is None:
        raise BadInput(f"module {name!r} has no Python code to run")
    return Target(name, code, spec.origin, str(Path.cwd()), spec.origin, spec, spec.loader)


def run(target: Target, arguments: tuple[str, ...], plan: RecordingPlan) -> RunResult:
    """Run the program to its end, or to its last wanted backward, and give back what was recorded.

    Raises:
        MissingDependency: torch is not installed.
        NothingRecorded: the program ended well but there is no graph to show.
        BadInput: the script has fewer backward calls than wanted, or lacks the root that was named.
    """
    if find_spec("torch") is None:
        raise MissingDependency(
            "recording needs torch, which is not installed for this Python",
            hint=f"install it for {sys.executable}, or give a capture recorded elsewhere",
        )
    session = _Session(plan)
    notice = ImportNotice("torch", session.begin)
    process = os.getpid()
    with _as_main_program(target, arguments) as namespace:
        notice.start()
        try:
            ending = _run_to_its_end(target.code, namespace, session)
        finally:
            notice.stop()
            session.end()
        if os.getpid() != process:
            # A child that the script forked came back here: it is not ours to report on.
            sys.stdout.flush()
            os._exit(ending.exit_code)
        return session.result(target.name, arguments, ending, namespace)


@dataclass
class _Ending:
    """How the program ended."""

    outcome: Literal["stopped", "finished", "failed", "interrupted"]
    exit_code: int = 0
    error: BaseException | None = None
    message: str | None = None
    """What ``sys.exit("text")`` prints."""


def _run_to_its_end(code: CodeType, namespace: dict[str, Any], session: _Session) -> _Ending:
    try:
        run_users_code(code, namespace)
    except StopScript:
        return _Ending("stopped")
    except SystemExit as request:
        return _exit_ending(request)
    except KeyboardInterrupt as error:
        session.look_at_traceback(error)
        return _Ending("interrupted", 130, error)
    except BaseException as error:
        session.look_at_traceback(error)
        return _Ending("failed", 1, error)
    return _Ending("finished")


def run_users_code(code: CodeType, namespace: dict[str, Any]) -> None:
    """The boundary: whatever stands below this frame in a stack is the user's, whatever stands above is ours."""
    exec(code, namespace)


def _exit_ending(request: SystemExit) -> _Ending:
    if request.code is None or request.code == 0:
        return _Ending("finished")
    if isinstance(request.code, int):
        return _Ending("failed", request.code & 0xFF)
    return _Ending("failed", 1, message=f"{request.code}\n")


class _Session:
    """The recorder of a run, which exists from the moment the program has imported torch."""

    def __init__(self, plan: RecordingPlan) -> None:
        self._plan = plan
        self._recorder: Recorder | None = None

    def begin(self) -> None:
        """Start recording; called when torch has been imported."""
        from gradviz.recording.recorder import Recorder

        self._recorder = Recorder(self._plan)
        self._recorder.start()

    def end(self) -> None:
        """Stop recording and put torch back."""
        if self._recorder is not None:
            self._recorder.stop()

    def look_at_traceback(self, error: BaseException) -> None:
        """The program broke off: if it had no graph recorded yet, take what its frames hold."""
        recorder = self._recorder
        if recorder is None:
            return
        recorder.stop()
        if not recorder.has_graphs:
            from gradviz.recording.recorder import namespaces_of_traceback

            recorder.record_loose_ends(namespaces_of_traceback(error.__traceback__))

    def result(self, name: str, arguments: tuple[str, ...], ending: _Ending, namespace: Mapping[str, Any]) -> RunResult:
        """The capture, or a clear word on why there is none."""
        error, printed = self._script_error(ending)
        recorder = self._recorder
        if recorder is None:
            return self._without_torch(name, arguments, ending, error, printed)
        if self._plan.root is not None and ending.outcome != "interrupted":
            self._record_root(namespace, failed=ending.outcome == "failed")
        elif not recorder.has_graphs and ending.error is None:
            self._check_number_of_calls(ending)
            recorder.record_loose_ends([namespace])
            if not recorder.has_graphs and ending.outcome == "finished":
                raise NothingRecorded(
                    f"{name} called no backward() or grad(), and no variable at its end holds a tensor with a grad_fn",
                    hint="call backward() on the loss, or keep it in a variable of the script and name it with --root",
                )
        capture = recorder.capture(name, arguments, ending.outcome, error)
        return RunResult(capture, ending.exit_code, printed)

    def _record_root(self, namespace: Mapping[str, Any], *, failed: bool) -> None:
        assert self._recorder is not None
        try:
            self._recorder.record_root(namespace)
        except GradvizError:
            # A script that failed may not have got as far as its root: its own error comes first.
            if not failed:
                raise

    def _check_number_of_calls(self, ending: _Ending) -> None:
        assert self._recorder is not None
        calls, wanted = self._recorder.backward_calls, self._plan.backward
        if calls and wanted is not None and wanted > calls and ending.outcome == "finished":
            times = "once" if calls == 1 else f"{calls} times"
            raise BadInput(
                f"--backward {wanted}: the script called backward or grad only {times}",
                hint=f"choose a number from 1 to {calls}" if calls > 1 else "use --backward 1",
            )

    def _script_error(self, ending: _Ending) -> tuple[ScriptError | None, str | None]:
        if ending.error is None:
            return None, ending.message
        error = user_traceback.without_our_frames(ending.error)
        printed = user_traceback.printed(error)
        in_backward = self._recorder is not None and self._recorder.failed_in_backward
        return (
            ScriptError(
                type(error).__name__, str(error), printed, user_traceback.innermost_own_line(error), in_backward
            ),
            printed,
        )

    def _without_torch(
        self,
        name: str,
        arguments: tuple[str, ...],
        ending: _Ending,
        error: ScriptError | None,
        printed: str | None,
    ) -> RunResult:
        if ending.error is None:
            raise NothingRecorded(f"{name} ran but never imported torch", hint="there is no autograd graph to show")
        from gradviz.capture.capture import Program

        capture = Capture(Program(name, arguments), error=error, outcome=ending.outcome)
        return RunResult(capture, ending.exit_code, printed)


@contextmanager
def _as_main_program(target: Target, arguments: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Make `target` the program that ``__main__``, ``sys.argv`` and ``sys.path`` speak of."""
    main = ModuleType("__main__")
    namespace = main.__dict__
    namespace.update(
        __file__=target.file,
        __spec__=target.spec,
        __loader__=target.loader,
        __package__=target.spec.parent if target.spec is not None else None,
        __builtins__=sys.modules["builtins"],
        __annotations__={},
    )
    if target.spec is not None:
        namespace["__cached__"] = target.spec.cached
    saved = sys.modules["__main__"], sys.argv, sys.path[:]
    sys.modules["__main__"] = main
    sys.argv = [target.argv0, *arguments]
    sys.path[0:1] = [target.path0]
    try:
        yield namespace
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = saved
        _finished_programs.append(main)


_finished_programs: list[ModuleType] = []
"""Modules of programs that ran: like under python, their variables live until the interpreter ends."""
