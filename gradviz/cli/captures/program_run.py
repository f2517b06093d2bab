"""Runs the program of a command, and all processes that it starts, and collects what they recorded."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradviz.capture.capture import Capture, Program
from gradviz.capture.spool import Spool
from gradviz.cli.terminal.printing import tell, tell_as_it_is
from gradviz.cli.terminal.progress import announce, working
from gradviz.errors import BadInput, NothingRecorded
from gradviz.recording.ranks.collected_job import CollectedJob, collected_job
from gradviz.recording.ranks.environment import recorded_children
from gradviz.recording.ranks.job_folder import JobPlan
from gradviz.recording.ranks.launch import run_command
from gradviz.recording.ranks.launched import collected_if_last, is_launched, launched_job
from gradviz.recording.ranks.member import Member
from gradviz.recording.run.program import find_module, find_script
from gradviz.recording.run.recording_plan import MAX_VALUES, RecordingPlan
from gradviz.recording.run.root_expression import parse_root
from gradviz.recording.script_runner import run

if TYPE_CHECKING:
    from gradviz.cli.captures.source import SourceOptions

MAX_BACKWARD = 1 << 62
"""No program comes to this backward call."""


@dataclass(frozen=True)
class ProgramRun:
    """How a program ended, and what was recorded."""

    capture: Capture
    """Of the process that ran the program."""
    exit_code: int
    printed_error: str | None
    spool: Spool | None
    job: CollectedJob | None
    """The processes that it started and that trained, if there are any."""


def run_program(options: SourceOptions, output: Path) -> ProgramRun:
    """Run the program of these options; what is recorded so far lies beside `output` meanwhile.

    Raises `NothingRecorded` if neither the program nor a process that it started called backward.
    """
    plan = _plan(options, output)
    if is_launched() and not options.is_command:
        return _run_rank(options, plan, output)
    children = _plan_of_children(options, plan, output, secrets.token_hex(8), str(os.getpid()))
    with recorded_children(children):
        ran = _command(options, plan) if options.is_command else _script(options, plan)
    own = ran if isinstance(ran, ProgramRun) else None
    job = collected_job(children, None if own is None else own.capture)
    if options.is_command and own is not None and job is None:
        refusal = NothingRecorded(
            f"{options.command_words[0]} failed, and nothing was recorded: no process that was seen called backward()"
        )
        refusal.exit_code = own.exit_code
        raise refusal
    if own is not None:
        return ProgramRun(own.capture, own.exit_code, own.printed_error, own.spool, job)
    assert isinstance(ran, NothingRecorded)
    if job is None:
        raise ran
    return ProgramRun(Capture(Program(options.name)), 0, None, plan.spool, job)


def _run_rank(options: SourceOptions, plan: RecordingPlan, output: Path) -> ProgramRun:
    """Run the program as the rank that a launcher started; only the last rank to end has something to show."""
    job = launched_job(str(output.absolute()))
    member = Member(_plan_of_children(options, plan, output, job, job), options.name)
    if not member.is_wanted:
        plan = replace(
            plan,
            gradients=False,
            calls=False,
            fingerprints=False,
            root_shares=False,
            inside=False,
            backward=MAX_BACKWARD,
        )
    member.begin()
    ran = _script(options, replace(plan, member=member))
    own = ran if isinstance(ran, ProgramRun) else None
    collected = collected_if_last(member, None if own is None else own.capture)
    if own is not None and own.printed_error is not None:
        tell_as_it_is(own.printed_error)
    if plan.spool is not None:
        plan.spool.remove()
    if collected is None:
        raise click.exceptions.Exit(0 if own is None else own.exit_code)
    return ProgramRun(Capture(Program(options.name)), 0 if own is None else own.exit_code, None, None, collected)


def _command(options: SourceOptions, plan: RecordingPlan) -> ProgramRun | NothingRecorded:
    if options.root is not None:
        raise BadInput("--root needs a script", hint="the processes of a command have variables of their own")
    code = run_command(options.command_words)
    if code:
        return ProgramRun(Capture(Program(options.name), outcome="failed"), code, None, plan.spool, None)
    return NothingRecorded(
        f"{options.command_words[0]} ran, and nothing was recorded: no process that was seen called backward()",
        hint="processes are recorded that run Python on this machine, with the environment of this command, and not "
        "with -E or -I; for others, start 'python -m gradviz record train.py' there",
    )


def _script(options: SourceOptions, plan: RecordingPlan) -> ProgramRun | NothingRecorded:
    program = find_module(options.module) if options.module is not None else find_script(options.name)
    try:
        result = run(program, options.arguments, plan)
    except NothingRecorded as refusal:
        return refusal
    return ProgramRun(result.capture, result.exit_code, result.printed_error, plan.spool, None)


def _plan(options: SourceOptions, output: Path) -> RecordingPlan:
    if options.root is not None and options.backward is not None:
        raise BadInput("--root and --backward exclude each other", hint="--root records the graph at the script's end")
    for name, is_given in (("--root-shares", options.root_shares), ("--inside", options.inside)):
        if is_given and not options.gradients:
            raise BadInput(f"{name} and --no-gradients exclude each other")
        if is_given and options.root is not None:
            raise BadInput(f"{name} measures backward calls, and --root runs none", hint="pick one with --backward N")
    if options.root is not None:
        parse_root(options.root)  # raises now, not after hours of training
    return RecordingPlan(
        backward=None if options.backward in ("all", "last") else int(options.backward or 1),
        only_last=options.backward == "last",
        keep_going=options.keep_going,
        limits=options.limits,
        root=options.root,
        gradients=options.gradients,
        values_up_to=options.values_up_to or (MAX_VALUES if options.values else 0),
        for_pictures=options.for_pictures,
        calls=options.calls or options.fingerprints,
        fingerprints=options.fingerprints,
        root_shares=options.root_shares,
        inside=options.inside,
        working=working,
        announce=announce,
        spool=Spool(output, tell),
    )


def _plan_of_children(options: SourceOptions, plan: RecordingPlan, output: Path, job: str, mark: str) -> JobPlan:
    """What processes that the program starts are to record: the same as the program."""
    return JobPlan(
        job=job,
        folder=str(output.absolute().with_name(f"{output.stem}.unfinished-{mark}-ranks")),
        backward=plan.backward,
        only_last=plan.only_last,
        keep_going=plan.keep_going,
        seconds=plan.limits.seconds,
        steps=plan.limits.steps,
        gradients=plan.gradients,
        values_up_to=plan.values_up_to,
        for_pictures=plan.for_pictures,
        calls=plan.calls,
        fingerprints=plan.fingerprints,
        root_shares=plan.root_shares,
        inside=plan.inside,
        ranks=options.ranks,
        hang=options.hang,
    )
