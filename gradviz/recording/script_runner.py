"""Runs a program as ``python`` would, and records it.

torch is not imported here: the program imports it when it needs it, and recording begins then.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from importlib.util import find_spec
from typing import Any

from gradviz.errors import MissingDependency
from gradviz.recording.ranks.child_session import (
    end_forked_process,
    leave_other_processes,
    record_other_processes,
)
from gradviz.recording.ranks.environment import plan_of_environment
from gradviz.recording.run.left_threads import wait_for_threads
from gradviz.recording.run.program import Program, as_main_program
from gradviz.recording.run.recording_plan import JobMember, RecordingPlan
from gradviz.recording.run.sudden_end import SuddenEnds
from gradviz.recording.run.surroundings import Surroundings
from gradviz.recording.run.user_traceback import run_users_code
from gradviz.recording.run_session import Ending, RunResult, RunSession, run_to_its_end
from gradviz.recording.torch_access.import_notice import ImportNotice


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
            hint=f"install it for {sys.executable}, or give a recording made elsewhere",
        )
    session = RunSession(plan, program.name, arguments)
    notice = ImportNotice("torch", partial(_begin, session))
    sudden_ends = SuddenEnds(session.keep_before)
    member = plan.member
    if member is not None:
        member.keep, member.keep_result = session.keep_until_now, session.keep_result
    process, surroundings = os.getpid(), Surroundings.now()
    with as_main_program(program, arguments) as namespace:
        notice.start()
        sudden_ends.start()
        try:
            ending = run_to_its_end(partial(_run_with_its_threads, program, namespace, session), session)
        finally:
            sudden_ends.stop()
            notice.stop()
            leave_other_processes()
            session.end()
        if os.getpid() != process:
            # A child process that the script forked came back here. It ends as under python, and reports nothing.
            end_forked_process(ending)
            _, printed = session.script_error(ending)
            sys.stderr.write(printed or "")
            raise SystemExit(ending.exit_code)
        if member is not None:
            ending = _without_the_others(ending, member)
        surroundings.put_back()
        return session.result(ending, namespace)


def _run_with_its_threads(program: Program, namespace: dict[str, Any], session: RunSession) -> None:
    """Run the program's code, and wait for the threads that it leaves, as Python does; not if it failed."""
    known = frozenset(threading.enumerate())
    try:
        run_users_code(program.code, namespace)
    except SystemExit:
        wait_for_threads(known, lambda: session.was_stopped)
        raise
    wait_for_threads(known, lambda: session.was_stopped)


def _begin(session: RunSession) -> None:
    if plan_of_environment() is not None:
        record_other_processes()
    session.begin()


def _without_the_others(ending: Ending, member: JobMember) -> Ending:
    """How the program ended, apart from what comes of the other ranks' having left when all might."""
    may_end = member.may_end()
    if ending.error is not None:
        member.note_error(ending.error)
    elif ending.exit_code:
        member.note_leaving(f"it ended with exit code {ending.exit_code}", ending.raised)
    member.end()
    return Ending("stopped") if may_end and ending.exit_code else ending
