"""Runs a program as ``python`` would, and records it.

torch is not imported here: the program imports it when it needs it, and recording begins then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal

from gradviz.capture.capture import Capture, ScriptError
from gradviz.errors import BadInput, GradvizError, MissingDependency, NothingRecorded
from gradviz.recording.run import user_traceback
from gradviz.recording.run.program import Program, as_main_program
from gradviz.recording.run.recording_plan import RecordingPlan, StopScript
from gradviz.recording.run.sudden_end import SuddenEnds
from gradviz.recording.run.user_traceback import run_users_code
from gradviz.recording.torch_access.import_notice import ImportNotice

if TYPE_CHECKING:
    from gradviz.recording.recorder import Recorder


@dataclass(frozen=True)
class RunResult:
    """The result of a run."""

    capture: Capture
    printed_error: str | None = None
    """The program's traceback, for standard error."""
    exit_code: int = 0
    """The program's own, as under ``python``; 0 if gradviz stopped it."""


def run(program: Program, arguments: tuple[str, ...], plan: RecordingPlan) -> RunResult:
    """Run the program to its end, or to its last wanted backward, and return what was recorded.

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
    session = _Session(plan, program.name, arguments)
    notice = ImportNotice("torch", session.begin)
    sudden_ends = SuddenEnds(session.keep_before)
    process = os.getpid()
    with as_main_program(program, arguments) as namespace:
        notice.start()
        sudden_ends.start()
        try:
            ending = _run_to_its_end(program.code, namespace, session)
        finally:
            sudden_ends.stop()
            notice.stop()
            session.end()
        if os.getpid() != process:
            # A child process that the script forked came back here. It ends as under python, and reports nothing.
            _, printed = session.script_error(ending)
            sys.stderr.write(printed or "")
            raise SystemExit(ending.exit_code)
        return session.result(ending, namespace)


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
    except StopScript as request:
        session.note_stop(request)
        return _Ending("stopped")
    except SystemExit as request:
        return _exit_ending(request)
    except KeyboardInterrupt as error:
        session.note_traceback(error)
        return _Ending("interrupted", 130, error)
    except BaseException as error:
        session.note_traceback(error)
        return _Ending("failed", 1, error)
    return _Ending("finished")


def _exit_ending(request: SystemExit) -> _Ending:
    if request.code is None:
        return _Ending("finished")
    if isinstance(request.code, int):
        code = request.code & 0xFF  # what the operating system keeps of it: 256 is success
        return _Ending("failed" if code else "finished", code)
    return _Ending("failed", 1, message=f"{request.code}\n")


class _Session:
    """The recorder of a run, which exists from the moment the program has imported torch."""

    def __init__(self, plan: RecordingPlan, name: str, arguments: tuple[str, ...]) -> None:
        self._plan = plan
        self._name = name
        self._arguments = arguments
        self._recorder: Recorder | None = None
        self._defect: Exception | None = None

    def begin(self) -> None:
        """Start recording; called when torch has been imported."""
        recorder: Recorder | None = None
        try:
            # What torch lacks may already show here.
            from gradviz.recording.recorder import Recorder

            recorder = Recorder(self._plan)
            recorder.program = self._name, self._arguments
            recorder.start()
        except Exception as defect:
            # The program is importing torch now, and must not see this error.
            if recorder is not None:
                recorder.stop()
            self._defect = defect
        else:
            self._recorder = recorder

    def end(self) -> None:
        """Stop recording and put torch back."""
        if self._recorder is not None:
            self._recorder.stop()
            self._recorder.forget_stopped_tasks()

    def keep_before(self, function: str) -> None:
        """The program calls `function`, which ends the process: write what was recorded, and say where it is."""
        recorder, spool = self._recorder, self._plan.spool
        if recorder is None or spool is None or not recorder.has_graphs():
            return
        if spool.write(recorder.unfinished_capture):
            spool.warn(f"the script called {function}; what was recorded until then is in {spool.path}")

    def note_stop(self, request: StopScript) -> None:
        """The program was ended early: read the variables of its frames, which are about to go."""
        recorder = self._recorder
        if recorder is None:
            return
        recorder.stop()
        from gradviz.recording.forward.tensor_names import namespaces_of_traceback

        recorder.note_end(namespaces_of_traceback(request.__traceback__, with_libraries=False))
        recorder.note_limit(user_traceback.own_line_of(request.__traceback__))

    def note_traceback(self, error: BaseException) -> None:
        """The program failed: if it has no graph recorded yet, take results that its frames hold."""
        recorder = self._recorder
        if recorder is None:
            return
        recorder.stop()
        from gradviz.recording.forward.tensor_names import namespaces_of_traceback

        recorder.note_end(namespaces_of_traceback(error.__traceback__, with_libraries=False))
        namespaces = namespaces_of_traceback(error.__traceback__)
        recorder.note_refused_backward(error, namespaces)
        if not recorder.has_graphs():
            recorder.record_unconsumed_results(namespaces)

    def result(self, ending: _Ending, namespace: Mapping[str, Any]) -> RunResult:
        """The capture, or an error that says why there is none."""
        error, printed = self.script_error(ending)
        recorder = self._recorder
        if self._defect is not None:
            sys.stderr.write(printed or "")
            raise self._defect
        if recorder is None:
            return self._without_torch(ending, error, printed)
        if ending.error is None and ending.outcome != "stopped":
            recorder.note_end([namespace])
        if self._plan.root is not None and ending.outcome != "interrupted":
            self._record_root(namespace, failed=ending.outcome == "failed")
        elif not recorder.has_graphs() and ending.error is None:
            self._check_number_of_calls(ending)
            recorder.record_unconsumed_results([namespace])
            if not recorder.has_graphs() and ending.outcome == "finished" and not self._plan.calls:
                raise NothingRecorded(
                    f"{self._name} called no backward() or grad(), "
                    "and no variable at its end holds a tensor with a grad_fn",
                    hint="call backward() on the loss, or keep it in a variable of the script and name it with --root",
                )
        outcome = "stopped" if recorder.was_stopped and ending.outcome == "finished" else ending.outcome
        if ending.outcome != "interrupted":
            recorder.check_custom_functions()
        capture = recorder.capture(self._name, self._arguments, outcome, error)
        recorder.release_all()
        return RunResult(capture, printed, ending.exit_code)

    def _record_root(self, namespace: Mapping[str, Any], *, failed: bool) -> None:
        assert self._recorder is not None
        try:
            self._recorder.record_root(namespace)
        except GradvizError:
            # A script that failed may not have reached its root: its own error is shown.
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

    def script_error(self, ending: _Ending) -> tuple[ScriptError | None, str | None]:
        """How the program failed, and what is still to be printed about it."""
        if ending.error is None:
            return None, ending.message
        error = user_traceback.without_our_frames(ending.error)
        in_backward = self._recorder is not None and self._recorder.failed_in_backward
        facts = user_traceback.script_error(error, in_backward=in_backward)
        if sys.excepthook is not sys.__excepthook__:
            # The program, or a library it uses, shows its errors in its own way.
            sys.excepthook(type(error), error, error.__traceback__)
            return facts, None
        return facts, facts.traceback

    def _without_torch(self, ending: _Ending, error: ScriptError | None, printed: str | None) -> RunResult:
        if ending.outcome == "finished":
            raise NothingRecorded(
                f"{self._name} ran but never imported torch", hint="there is no autograd graph to show"
            )
        from gradviz.capture.capture import Program

        capture = Capture(Program(self._name, self._arguments), error=error, outcome=ending.outcome)
        return RunResult(capture, printed, ending.exit_code)
