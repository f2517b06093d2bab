"""The recording of one run of a program: it begins when torch has been imported, and ends as the program does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, Literal

from gradviz.capture.capture import Capture, ScriptError
from gradviz.errors import BadInput, GradvizError, NothingRecorded
from gradviz.recording.run import user_traceback
from gradviz.recording.run.file_kinds import own_line
from gradviz.recording.run.recording_plan import RecordingPlan, StopScript

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


@dataclass
class Ending:
    """How the program ended."""

    outcome: Literal["stopped", "finished", "failed", "interrupted"]
    exit_code: int = 0
    error: BaseException | None = None
    message: str | None = None
    """What ``sys.exit("text")`` prints."""
    raised: BaseException | None = None
    """What the program raised, ``SystemExit`` included."""


def run_to_its_end(run: Callable[[], None], session: RunSession) -> Ending:
    """Run the program, and note how it ended."""
    try:
        run()
    except StopScript as request:
        session.note_stop(request)
        return Ending("stopped", raised=request)
    except SystemExit as request:
        return _exit_ending(request)
    except KeyboardInterrupt as error:
        session.note_traceback(error)
        return Ending("interrupted", 130, error, raised=error)
    except BaseException as error:
        session.note_traceback(error)
        return Ending("failed", 1, error, raised=error)
    return Ending("finished")


def _exit_ending(request: SystemExit) -> Ending:
    if request.code is None:
        return Ending("finished", raised=request)
    if isinstance(request.code, int):
        code = request.code & 0xFF  # what the operating system keeps of it: 256 is success
        return Ending("failed" if code else "finished", code, raised=request)
    return Ending("failed", 1, message=f"{request.code}\n", raised=request)


class RunSession:
    """The recorder of a run, which exists from the moment the program has imported torch."""

    def __init__(
        self, plan: RecordingPlan, name: str, arguments: tuple[str, ...], *, shows_errors: bool = True
    ) -> None:
        self._plan = plan
        self._shows_errors = shows_errors
        """False if Python shows the program's error itself, in a process that gradviz did not start."""
        self._name = name
        self._arguments = arguments
        self._recorder: Recorder | None = None
        self._defect: Exception | None = None
        self._kept: Capture | None = None
        """What was recorded, once the program goes on only for the other ranks of its job."""

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
        spool = self._plan.spool
        if spool is None or self._kept is not None:
            return
        if self.keep_until_now():
            spool.warn(f"the script called {function}; what was recorded until then is in {spool.path}")
        elif self._recorder is None or not self._recorder.has_graphs():
            spool.warn(f"the script called {function}; nothing was recorded until then, and nothing can be shown")

    def keep_until_now(self) -> bool:
        """Write what was recorded until now; False if there is nothing, or it cannot be written."""
        recorder, spool = self._recorder, self._plan.spool
        if recorder is None or spool is None or self._kept is not None or not recorder.has_graphs():
            return False
        return spool.write(recorder.unfinished_capture)

    @property
    def backward_calls(self) -> int:
        """How many backward calls were recorded or passed by."""
        return self._recorder.backward_calls if self._recorder is not None else 0

    @property
    def was_stopped(self) -> bool:
        """Whether the program, or its thread that called backward, was made to end."""
        return self._recorder is not None and self._recorder.was_stopped

    def keep_result(self) -> None:
        """The last wanted backward has ended, and the program goes on for the other ranks: make the capture now."""
        recorder = self._recorder
        if recorder is None or self._kept is not None:
            return
        from gradviz.recording.forward.namespaces import own_namespaces

        frame = sys._getframe(1)
        recorder.note_end(list(own_namespaces(frame)))
        recorder.note_limit(own_line((each.f_code, line) for each, line in walk_stack(frame)))
        self._kept = recorder.capture(self._name, self._arguments, "stopped", None)
        recorder.release_all()

    def note_stop(self, request: StopScript) -> None:
        """The program was ended early: read the variables of its frames, which are about to go."""
        recorder = self._recorder
        if recorder is None or self._kept is not None:
            return
        recorder.stop()
        from gradviz.recording.forward.namespaces import namespaces_of_traceback

        recorder.note_end(namespaces_of_traceback(request.__traceback__, with_libraries=False))
        recorder.note_limit(user_traceback.own_line_of(request.__traceback__))

    def note_traceback(self, error: BaseException) -> None:
        """The program failed: if it has no graph recorded yet, take results that its frames hold."""
        recorder = self._recorder
        if recorder is None or self._kept is not None:
            return
        recorder.stop()
        from gradviz.recording.forward.namespaces import namespaces_of_traceback

        recorder.note_end(namespaces_of_traceback(error.__traceback__, with_libraries=False))
        namespaces = namespaces_of_traceback(error.__traceback__)
        recorder.note_refused_backward(error, namespaces)
        if not recorder.has_graphs():
            recorder.record_unconsumed_results(namespaces)

    def result(self, ending: Ending, namespace: Mapping[str, Any]) -> RunResult:
        """The capture, or an error that says why there is none."""
        error, printed = self.script_error(ending)
        recorder = self._recorder
        if self._kept is not None:
            return RunResult(self._kept, printed, ending.exit_code)
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

    def _check_number_of_calls(self, ending: Ending) -> None:
        assert self._recorder is not None
        calls, wanted = self._recorder.backward_calls, self._plan.backward
        if calls and wanted is not None and wanted > calls and ending.outcome == "finished":
            times = "once" if calls == 1 else f"{calls} times"
            raise BadInput(
                f"--backward {wanted}: the script called backward or grad only {times}",
                hint=f"choose a number from 1 to {calls}" if calls > 1 else "use --backward 1",
            )

    def script_error(self, ending: Ending) -> tuple[ScriptError | None, str | None]:
        """How the program failed, and what is still to be printed about it."""
        if ending.error is None:
            return None, ending.message
        error = user_traceback.without_our_frames(ending.error)
        in_backward = self._recorder is not None and self._recorder.failed_in_backward
        facts = user_traceback.script_error(error, in_backward=in_backward)
        if not self._shows_errors:
            return facts, None
        if sys.excepthook is not sys.__excepthook__:
            # The program, or a library it uses, shows its errors in its own way.
            sys.excepthook(type(error), error, error.__traceback__)
            return facts, None
        return facts, facts.traceback

    def _without_torch(self, ending: Ending, error: ScriptError | None, printed: str | None) -> RunResult:
        if ending.outcome == "finished":
            raise NothingRecorded(
                f"{self._name} ran but never imported torch", hint="there is no autograd graph to show"
            )
        from gradviz.capture.capture import Program

        capture = Capture(Program(self._name, self._arguments), error=error, outcome=ending.outcome)
        return RunResult(capture, printed, ending.exit_code)
