"""Records a process that another one started: a worker of a launcher, or a process of `multiprocessing`.

It runs as without gradviz, ends as it would have, and prints nothing of gradviz.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from functools import partial, wraps
from traceback import print_exception, walk_stack
from types import FrameType, TracebackType
from typing import Any

from gradviz.capture.capture_file import write_capture
from gradviz.capture.spool import Spool
from gradviz.capture.whole_file import write_whole_file
from gradviz.errors import GradvizError, NothingRecorded
from gradviz.recording.ranks.environment import plan_of_environment
from gradviz.recording.ranks.job_folder import JobPlan
from gradviz.recording.ranks.member import Member
from gradviz.recording.run.file_kinds import is_gradviz_code
from gradviz.recording.run.recording_plan import RecordingPlan, RunLimits, StopScript
from gradviz.recording.run.sudden_end import SuddenEnds
from gradviz.recording.run.user_traceback import traceback_without_our_frames, without_our_frames
from gradviz.recording.run_session import Ending, RunSession, run_to_its_end
from gradviz.recording.torch_access.import_notice import ImportNotice
from gradviz.recording.torch_access.patches import Replacement
from gradviz.safe_text import terminal_text

_LOADS_DATA = "torch.utils.data"
"""Processes whose function is defined there load data and train nothing."""

_FORKS = "multiprocessing/popen_fork.py"

_current: ChildSession | None = None


def attach() -> None:
    """Record this process, from its import of torch to its end."""
    global _current
    plan = plan_of_environment()
    if plan is not None and _current is None:
        _current = ChildSession(plan)
        _current.start()
        _current.end_with_interpreter()


def detach() -> None:
    """This process is recorded in another way: forget what `attach` began."""
    global _current
    session, _current = _current, None
    if session is not None:
        session.cancel()


class ChildSession:
    """The recording of one such process."""

    def __init__(self, plan: JobPlan) -> None:
        self._program = sys.argv[0] if getattr(sys, "argv", None) and sys.argv[0] else "<python>"
        self._member = Member(plan, self._program)
        spool = Spool(self._member.folder.capture_path(self._member.key), _warn)
        self._plan = RecordingPlan(
            backward=plan.backward, only_last=plan.only_last, keep_going=plan.keep_going,
            limits=RunLimits(plan.seconds, plan.steps), gradients=plan.gradients, values_up_to=plan.values_up_to,
            for_pictures=plan.for_pictures, calls=plan.calls, fingerprints=plan.fingerprints,
            root_shares=plan.root_shares, inside=plan.inside, member=self._member, spool=spool,
        )  # fmt: skip
        self._spool = spool
        self._process = os.getpid()
        self._session = RunSession(self._plan, self._program, tuple(sys.argv[1:]), shows_errors=False)
        self._notice = ImportNotice("torch", self._begin)
        self._sudden_ends = SuddenEnds(self._end_suddenly)
        self._ending: Ending | None = None
        self._is_written = False
        self._has_ended = False
        self._excepthook: Any = None
        self._member.keep = self._session.keep_until_now
        self._member.keep_result = self._write_result

    @property
    def is_of_this_process(self) -> bool:
        """False in a forked child, which has the object."""
        return self._process == os.getpid()

    def start(self) -> None:
        """Begin, as soon as torch is imported."""
        self._notice.start()
        self._sudden_ends.start()

    def cancel(self) -> None:
        """Put everything back, and write nothing."""
        self._has_ended = True
        self._notice.stop()
        self._sudden_ends.stop()
        self._session.end()

    def end_with_interpreter(self) -> None:
        """End when Python does; an exception that nobody catches is part of the recording."""
        atexit.register(self._end_at_exit)
        self._excepthook = sys.excepthook
        sys.excepthook = self._note_uncaught

    def run(self, process: Any, original: Callable[[Any], None]) -> None:
        """Run a process of `multiprocessing`, which may end without an end of Python."""
        ending = run_to_its_end(partial(original, process), self._session)
        self.end(ending)
        error = ending.raised
        if error is None or isinstance(error, StopScript) or self._member.may_end():
            return
        if isinstance(error, SystemExit):
            raise error
        _show_as_multiprocessing_would(process, error)
        raise SystemExit(1)

    def end(self, ending: Ending) -> None:
        """The program has ended: write what was recorded."""
        if self._has_ended or not self.is_of_this_process:
            return
        self._has_ended = True
        self._sudden_ends.stop()
        self._notice.stop()
        self._session.end()
        if self._member.may_end():
            pass  # it may have failed only because another rank has left
        elif ending.error is not None:
            self._member.note_error(ending.error)
        elif ending.exit_code:
            self._member.note_leaving(f"it ended with exit code {ending.exit_code}", ending.raised)
        problem = self._written(ending)
        self._member.end(problem)
        self._member.tell_end_if_known(problem)
        self._spool.remove()

    def _begin(self) -> None:
        record_other_processes()
        self._member.begin()
        if self._member.is_wanted:
            self._session.begin()
        else:
            self._member.watch_the_others()

    def _write_result(self) -> None:
        """The last wanted backward has ended."""
        self._session.keep_result()
        self._written(Ending("stopped"))

    def _written(self, ending: Ending) -> str:
        """Write the capture, once; returns why it could not be."""
        self._member.note_rank()
        if self._is_written or not self._member.is_wanted:
            return ""
        if not self._session.backward_calls and self._member.rank() is None:
            return ""  # it did not train
        try:
            main = vars(sys.modules["__main__"])
            capture = self._session.result(ending, main).capture
        except NothingRecorded:
            return ""
        except GradvizError as error:
            return str(error)
        try:
            write_whole_file(self._member.folder.capture_path(self._member.key), write_capture(capture))
        except OSError as error:
            return f"cannot write to {str(self._member.folder.path)!r}: {error.strerror}"
        self._is_written = True
        return ""

    def _end_suddenly(self, function: str) -> None:
        if self._sudden_ends.exit_code != 0:  # with 0, forked processes end as a rule
            self._member.note_leaving(f"it called {function}()")
        self.end(self._ending or Ending("finished"))

    def _end_at_exit(self) -> None:
        if self.is_of_this_process:
            self.end(self._ending or Ending("finished"))
            if self._member.may_end() and self._ending is not None:
                os._exit(0)

    def _note_uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not self.is_of_this_process or self._has_ended:
            self._excepthook(kind, error, trace)
            return
        self._session.note_traceback(error)
        outcome = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        self._ending = Ending(outcome, 1, error, raised=error)  # type: ignore[arg-type]
        if not self._member.may_end():
            shown = without_our_frames(error)
            self._excepthook(kind, shown, shown.__traceback__)


def _warn(sentence: str) -> None:
    sys.stderr.write(terminal_text(f"gradviz: {sentence}\n"))


# -- Processes of multiprocessing, and others that the program forks --------------------------------------------------

_run_of_process = Replacement("multiprocessing.process.BaseProcess.run")
_records_forks = False
_is_told_of_forks = False


def record_other_processes() -> None:
    """From now on, processes that this process forks, and those that `multiprocessing` spawns here, are recorded."""
    global _records_forks, _is_told_of_forks
    _run_of_process.put(_recorded)
    _records_forks = True
    if not _is_told_of_forks and hasattr(os, "register_at_fork"):
        _is_told_of_forks = True  # for ever: Python cannot forget it
        os.register_at_fork(after_in_child=_in_forked_child)


def leave_other_processes() -> None:
    """Put back what was there."""
    global _records_forks
    _run_of_process.take_back()
    _records_forks = False


def end_forked_process(ending: Ending) -> None:
    """A process that the program forked comes to the end of the script: what was recorded of it is written."""
    if _current is not None:
        _current.end(ending)


def _in_forked_child() -> None:
    """`os.fork` is about to return in the child."""
    if not _records_forks or any(_is_of_multiprocessing(frame) for frame, _ in walk_stack(None)):
        return  # the latter tells of its processes itself
    plan = plan_of_environment()
    if plan is not None:
        _begin_in_forked_child(plan).end_with_interpreter()


def _is_of_multiprocessing(frame: FrameType) -> bool:
    return frame.f_code.co_filename.endswith(_FORKS)


def _recorded(original: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(original)
    def run(process: Any) -> None:
        session = _session_of(process)
        if session is None:
            original(process)
        else:
            session.run(process, original)

    return run


def _show_as_multiprocessing_would(process: Any, error: BaseException) -> None:
    """Print the error, as the caller of ``run`` does for any error: with its own frame, and without ours."""
    trace = traceback_without_our_frames(error)
    caller = next((frame for frame, _ in walk_stack(None) if not is_gradviz_code(frame.f_code)), None)
    if caller is not None:
        trace = TracebackType(trace, caller, caller.f_lasti, caller.f_lineno)
    sys.stderr.write(terminal_text(f"Process {process.name}:\n"))
    print_exception(type(error), error, trace)


def _session_of(process: Any) -> ChildSession | None:
    """The recording of the process that runs `process`; None if it is not to be recorded."""
    target = getattr(process, "_target", None)
    if str(getattr(target, "__module__", "")).startswith(_LOADS_DATA):
        return None
    if _current is not None and _current.is_of_this_process:
        return _current
    plan = plan_of_environment()
    return None if plan is None else _begin_in_forked_child(plan)


def _begin_in_forked_child(plan: JobPlan) -> ChildSession:
    global _current
    if _current is not None:
        _current.cancel()  # of the process that was forked
    _stop_inherited_recorder()
    _current = ChildSession(plan)
    _current.start()
    return _current


def _stop_inherited_recorder() -> None:
    if "gradviz.recording.recorder" in sys.modules:
        from gradviz.recording.recorder import running_recorder

        recorder = running_recorder()
        if recorder is not None:
            recorder.stop()
