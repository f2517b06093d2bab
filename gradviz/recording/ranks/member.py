"""This process as one of a job: it tells the others how far it is, and does not end before they may.

A rank that leaves early kills its peers, which wait for it in a collective. So a rank whose last wanted backward has
ended runs on, unrecorded, until all ranks have come as far. The last one says so in the folder of the job; each of the
others then ends at its next backward call, or is ended after `PATIENCE` seconds, for it may wait for one that has left.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Literal, NoReturn

from gradviz.capture.capture import Rank
from gradviz.capture.rank_end import RankEnd, Stand
from gradviz.recording.ranks.call_counter import CallCounter, note_unwritten_end
from gradviz.recording.ranks.collectives_called import collectives_called
from gradviz.recording.ranks.environment import record_collectives
from gradviz.recording.ranks.job_folder import JobFolder, JobPlan, Process, own_host
from gradviz.recording.ranks.line_times import LineTimes
from gradviz.recording.ranks.rank_facts import rank_in_environment, rank_in_group
from gradviz.recording.ranks.standstill import Standstill, where_it_raised, where_it_stands
from gradviz.recording.ranks.sudden_stack import SuddenStack
from gradviz.recording.ranks.termination import TerminationNotice

PATIENCE = 3.0
"""Seconds from the moment at which all ranks may end."""
LOOK_EVERY = 0.05
LOOK_FOR_GROUP_EVERY = 0.1
"""Seconds."""
PATIENCE_FOR_UNSEEN = 2.0
"""How many times as long is waited while some ranks have not been seen."""
MAX_ERROR = 500


class Member:
    """One process of a job. Implements `JobMember`."""

    def __init__(self, plan: JobPlan, program: str) -> None:
        self.plan = plan
        self.folder = JobFolder(plan.path)
        self.key = self.folder.new_key()
        self._program = program
        self._process = os.getpid()
        self._rank = rank_in_environment(plan.job)
        self._backward_calls = 0
        self._has_recorded_all = False
        self._went_on = False
        """Whether it recorded all that is wanted, and ran on for the others."""
        self._has_ended = False
        self._standstill = Standstill()
        self._line_times = LineTimes()
        self._end: RankEnd | None = None
        self._noting = threading.Lock()
        self._error: tuple[str, Stand, float] | None = None
        self._watcher: threading.Thread | None = None
        self.keep: Callable[[], object] = _nothing
        """Writes what was recorded so far, if the process is about to end."""
        self.keep_result: Callable[[], object] = _nothing
        """Makes and writes the capture, when the last wanted backward has ended."""
        self._termination = TerminationNotice(self._be_terminated)
        self._sudden_stack = SuddenStack(self.folder.stack_path(self.key))
        self._counter = CallCounter(self.folder.counter_path(self.key))
        record_collectives()

    def rank(self) -> Rank | None:
        """Which process of the job it is; None as long as there is no other."""
        return self._rank

    @property
    def is_wanted(self) -> bool:
        """Whether it is to be recorded."""
        return self._rank is None or self.plan.is_wanted(self._rank.number)

    def before_backward(self) -> None:
        """The program is about to call backward: the process group, if any, is known now."""
        self._backward_calls += 1
        self.note_rank()
        if self._backward_calls == 1:
            self._appear()
            self.watch_the_others()
        self._counter.note(self._backward_calls)

    def note_rank(self) -> None:
        """See whether there is a process group now."""
        if self._rank is None or not self._rank.backend:
            self._rank = rank_in_group(self.plan.job) or self._rank or rank_in_environment(self.plan.job)

    def has_recorded_all(self) -> bool:
        """The last wanted backward has ended: True if the program may end; False if other ranks still need it."""
        if self._rank is None:
            return True
        self._has_recorded_all = True
        self.keep_result()
        self._tell()
        self._went_on = not self._has_let_all_end()
        return not self._went_on

    def may_end(self) -> bool:
        """Whether it ran on for the others, and all ranks have recorded what they want by now."""
        return self._went_on and self.folder.may_all_end

    def note_error(self, error: BaseException) -> None:
        """The program is about to fail with this exception."""
        text = f"{type(error).__name__}: {error}".partition("\n")[0][:MAX_ERROR]
        self._error = text, where_it_raised(error), time.time()

    def note_leaving(self, words: str, request: BaseException | None = None) -> None:
        """The program is about to end early, in another way than by an error."""
        self._error = words, where_it_stands() if request is None else where_it_raised(request), time.time()

    def end(self, problem: str = "") -> None:
        """The program has ended."""
        self._has_ended = True
        self._sudden_stack.stop()
        self._counter.stop()
        self._has_recorded_all = True
        if self._backward_calls or self._rank is not None or problem:
            self._tell(problem)
        if self._rank is not None:
            self._has_let_all_end()

    def begin(self) -> None:
        """This process may be a rank: from now on it is seen if it does not get on, before it calls backward."""
        if self._rank is not None:
            self._appear()
        if self.plan.hang is not None:
            self._watch()

    def tell_end(self, problem: str = "") -> None:
        """What this process recorded is written; nothing more comes."""
        self._tell(problem, has_ended=True)
        self._termination.stop()

    def tell_end_if_known(self, problem: str = "") -> None:
        """The same for a process that may have nothing to do with the job."""
        if self._backward_calls or self._rank is not None:
            self.tell_end(problem)
        else:
            self._termination.stop()

    def watch_the_others(self) -> None:
        """Begin to look whether all may end."""
        if self._rank is not None:
            self._watch()

    def _watch(self) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._await_end, name="gradviz-ranks", daemon=True)
            self._watcher.start()

    def _has_let_all_end(self) -> bool:
        assert self._rank is not None
        if not self.folder.may_all_end:
            there = {each.rank.number for each in self.folder.processes() if each.rank and each.has_recorded_all}
            if sum(map(self.plan.is_wanted, there)) < self.plan.wanted_of(self._rank.world_size):
                return False
            self.folder.let_all_end()
        return True

    def _appear(self) -> None:
        """Tell the others that this process is one of them."""
        self._tell()
        self._termination.start()
        self._sudden_stack.start()
        self._counter.start()

    def _await_end(self) -> None:
        while self._rank is None and not self._has_ended:
            time.sleep(LOOK_FOR_GROUP_EVERY)
            self.note_rank()
            if self._rank is not None and not self._backward_calls:
                self._appear()
        while not (self.folder.may_all_end or self._has_ended):
            began = time.monotonic()
            time.sleep(LOOK_EVERY)
            if self._backward_calls and not self._has_ended:
                self._line_times.look(time.monotonic() - began)
            if self.plan.hang is not None:
                self._look_for_hang(self.plan.hang)
        time.sleep(PATIENCE)
        if self._has_ended:
            return  # and writes what it recorded
        _end_process(0)

    def _look_for_hang(self, seconds: float) -> None:
        """If this rank does not move, say where it stands; if no rank does, end the process."""
        hangs = self.folder.hangs
        waited = self._standstill.look()
        stands = waited > seconds
        if not hangs and stands != (self._end is not None):
            self._note_stand("hung" if stands else None)
        if not hangs and stands and self._no_rank_moves(waited > seconds * PATIENCE_FOR_UNSEEN):
            self.folder.note_hang()
            hangs = True
        if hangs:
            self.keep()
            _end_process(1)

    def _no_rank_moves(self, may_be_unseen: bool) -> bool:
        ranks = [each for each in self.folder.processes() if each.rank is not None]
        assert self._rank is not None
        is_complete = len(ranks) == self._rank.world_size or may_be_unseen
        return is_complete and all(each.hangs or each.is_over for each in ranks)

    def _note_stand(self, how: Literal["hung", "terminated"] | None) -> None:
        """Say where this rank stands, if anywhere. Two threads do; what ends the process counts."""
        with self._noting:
            if self._end is None or self._end.how != "terminated":
                self._end = None if how is None else self._standing(how)
                self._tell()

    def _standing(self, how: Literal["hung", "terminated"]) -> RankEnd:
        assert self._rank is not None
        return self._rank_end(how, time.time(), "", where_it_stands())

    def _be_terminated(self) -> None:
        """The launcher ends this process, as a rule because another rank has failed; it does not wait for long."""
        if self._rank is not None and self._end is None:
            self._note_stand("terminated")
        self.keep()

    def _ended(self) -> RankEnd | None:
        if self._rank is None:
            return None
        if self._error is None:
            return self._rank_end("finished", time.time(), "", None)
        text, stand, at = self._error
        return self._rank_end("failed", at, text, stand)

    def _rank_end(
        self, how: Literal["finished", "failed", "hung", "terminated"], at: float, error: str, stand: Stand | None
    ) -> RankEnd:
        assert self._rank is not None
        called, lines = collectives_called(), self._line_times.lines()
        return RankEnd(self._rank.number, how, at, self._backward_calls, error, stand, *called, busy=lines)

    def _tell(self, problem: str = "", *, has_ended: bool = False) -> None:
        if self._end is not None and self.folder.hangs:
            has_ended = False  # only because another rank was ended: what counts is where this one stood
        try:
            self.folder.tell(
                Process(
                    self.key, self._process, own_host(), self._program, self._rank, self._has_recorded_all,
                    has_ended, self._backward_calls, problem, self._ended() if has_ended else self._end,
                )
            )  # fmt: skip
        except OSError as error:  # must not reach the program
            reason = f"cannot write to {str(self.folder.path)!r}: {error.strerror}"
            if has_ended and self._error is None:
                note_unwritten_end(self.folder.counter_path(self.key), reason)
            sys.stderr.write(f"gradviz: {reason}\n")


def _end_process(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _nothing() -> None:
    """The recording has not begun."""
