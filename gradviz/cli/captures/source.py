"""Opens the source of a command: runs a script or module, or loads a capture file."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import CAPTURE_SUFFIX, is_capture
from gradviz.capture.job_file import is_job, named_capture, named_file, shown_rank
from gradviz.cli.captures.launchers import LAUNCHERS, command_of_module, is_command, script_of
from gradviz.cli.terminal.printing import tell, tell_as_it_is
from gradviz.cli.terminal.progress import working
from gradviz.errors import BadInput, NothingRecorded
from gradviz.graph.model import Graph
from gradviz.graph.query.own_line import file_name
from gradviz.recording.run.recording_plan import NO_LIMITS, RunLimits

if TYPE_CHECKING:
    from gradviz.capture.rank_end import RankEnd
    from gradviz.capture.spool import Spool
    from gradviz.recording.ranks.collected_job import CollectedJob


@dataclass(frozen=True)
class SourceOptions:
    """The recording options of a command."""

    words: tuple[str, ...]
    module: str | None = None
    backward: int | str | None = None
    keep_going: bool = False
    root: str | None = None
    gradients: bool = True
    values: bool = False
    values_up_to: int | None = None
    for_pictures: bool = True
    """Whether to take what only pictures and reports of memory show; `check` leaves it out if it writes no file."""
    calls: bool = False
    """Whether to log every torch call; not an option of the command line, `check` sets it."""
    fingerprints: bool = False
    """Whether to take fingerprints of all tensors, and so to log every torch call."""
    limits: RunLimits = NO_LIMITS
    root_shares: bool = False
    inside: bool = False
    check: bool | None = None
    """Whether to mark the findings of a check on the graphs; None: only if the capture has logged calls."""
    rank: int | None = None
    """Of a job of several processes, the one to show."""
    ranks: tuple[int, ...] | None = None
    """Of such a job, those to record."""
    hang: float | None = None
    """Seconds in which no rank of such a job gets on, after which it is ended."""
    may_be_command: bool = False
    """Whether the user wrote ``--``, after which a command may come in place of a script."""
    outputs: tuple[str, ...] = ()
    """The files that the command is to write: the spool of the run lies beside the first."""

    @property
    def name(self) -> str:
        """The script, module or capture as the user named it."""
        if self.module is not None:
            return script_of((self.module, *self.words)) if self.is_command else self.module
        if not self.words:
            raise BadInput("nothing to run", hint="name a script or a recording, or a module with -m")
        return script_of(self.words) if self.is_command else self.words[0]

    @cached_property
    def is_command(self) -> bool:
        """Whether the words are a command that starts other processes, such as ``torchrun train.py``."""
        if self.module is not None:
            return self.module.startswith(LAUNCHERS)
        return self.may_be_command and bool(self.words) and is_command(self.words)

    @property
    def command_words(self) -> tuple[str, ...]:
        """That command."""
        return self.words if self.module is None else command_of_module(self.module, self.words)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the program."""
        return self.words if self.module is not None else self.words[1:]

    @property
    def file(self) -> Path | None:
        """The script or capture file."""
        return None if self.module is not None else named_file(self.name)[0]

    @property
    def inputs(self) -> list[Path]:
        """Files that the command reads, and must not overwrite."""
        try:
            return [self.file] if self.file is not None and self.file.exists() else []
        except OSError as error:
            raise BadInput(f"cannot read {self.name}: {error.strerror}") from error

    @property
    def is_capture(self) -> bool:
        """Whether the name is that of a capture file."""
        start = self.start_of_file
        if self.file is None or start is None:
            return False
        return is_capture(start) or is_job(start) or self.file.suffix == CAPTURE_SUFFIX

    @property
    def start_of_file(self) -> bytes | None:
        """The first bytes of the file, which show its type; None if there is no file."""
        if self.file is None:
            return None
        try:
            with self.file.open("rb") as file:
                return file.read(64)
        except (FileNotFoundError, IsADirectoryError):
            return None
        except OSError as error:
            raise BadInput(f"cannot read {self.name}: {error.strerror}") from error

    @property
    def can_run_on(self) -> bool:
        """Whether ``--keep-going`` would help; not for a check, which itself reports where it stopped."""
        return not (self.is_capture or self.check)

    def command(self, name: str) -> str:
        """The command line for another command on the same source and graph, for the user to paste."""
        words = [self.name] if self.module is None else ["-m", self.module]
        if self.backward is not None:
            words += ["--backward", str(self.backward)]
        if self.root is not None:
            words += ["--root", self.root]
        if self.values_up_to is not None:
            words += ["--values-up-to", str(self.values_up_to)]
        elif self.values:
            words.append("--values")
        if self.inside:
            words.append("--inside")
        if not self.gradients:
            words.append("--no-gradients")
        if self.check is not None and name in ("render", "tree"):
            words.append("--check" if self.check else "--no-check")
        tail = ["--", *self.arguments] if self.arguments else []
        if self.is_command and self.module is None:
            words, tail = words[1:], ["--", *self.words]
        return shlex.join(["gradviz", name, *words, *tail])


@dataclass(frozen=True)
class Source:
    """A capture, and how the program that made it ended."""

    capture: Capture
    graphs: tuple[Graph, ...]
    """The graphs that the options select."""
    exit_code: int = 0
    notes: tuple[str, ...] = ()
    """Notes for every graph."""
    job: CollectedJob | None = None
    """The processes of which the capture is one, if there are several."""
    spool: Spool | None = None
    """What was kept while the program ran; to be removed when the output is written."""


def open_source(
    options: SourceOptions,
    *,
    own_output: bool = False,
    needs_graph: bool = True,
    tells_how_ranks_ended: bool = False,
) -> Source:
    """Load the capture or run the program. The program's traceback goes to standard error, as under python.

    Args:
        own_output: the command prints to standard output, so the program's output goes to standard error.
        needs_graph: raise `NothingRecorded` if there is no graph.
        tells_how_ranks_ended: the command has something to tell of a job of which no rank was recorded.
    """
    _name_spools(options)
    if options.is_capture:
        return _load(options, needs_graph=needs_graph)
    from gradviz.cli.captures.program_run import run_program

    with _standard_output_to_error() if own_output else _unchanged_output():
        ran = run_program(options, _kept_outputs(options)[0])
        sys.stdout.flush()
    if ran.printed_error is not None:
        tell_as_it_is(ran.printed_error)
    capture = ran.capture
    exit_code = ran.exit_code
    if ran.job is not None and ran.job.hung_for is not None:
        tell(f"the job was ended: no rank got on for {ran.job.hung_for:g} s")
        if needs_graph:  # a report tells it otherwise
            from gradviz.analysis.ranks.stand_words import standing_words

            for sentence in standing_words(ran.job.ends, ran.job.hung_for):
                tell(sentence)
        exit_code = 1
    if ran.job is not None:
        if ran.job.ranks or not (tells_how_ranks_ended and _lost_ranks(ran.job)):
            capture = chosen_capture(ran.job, options, exit_code)
        if needs_graph:
            tell_rank(ran.job, capture, options)
    if needs_graph and not capture.graphs:
        raise _no_graph(capture, exit_code)
    return Source(capture, capture.graphs, exit_code, job=ran.job, spool=ran.spool)


def _name_spools(options: SourceOptions) -> None:
    """Name, on standard error, what earlier runs of this command have left when they ended suddenly."""
    from gradviz.capture.spool import spools_beside, words_for

    for output in _kept_outputs(options):
        found = spools_beside(output)
        if found:
            tell(words_for(found))


def _kept_outputs(options: SourceOptions) -> list[Path]:
    """The files that runs with these options write, or would write if they wrote one; none twice."""
    files = [Path(path) for path in options.outputs if path != "-"]
    if options.is_capture:
        files.insert(0, Path(options.name))
    if not files:
        stem = options.name if options.module is not None else Path(options.name).name.removesuffix(".py") or "run"
        folder = Path() if os.access(".", os.W_OK) else Path(tempfile.gettempdir())
        files.append(folder / f"{stem}{CAPTURE_SUFFIX}")
    return list({file.with_suffix(CAPTURE_SUFFIX): file for file in files}.values())


def _lost_ranks(job: CollectedJob) -> list[RankEnd]:
    return [end for end in job.ends if end.how in ("died", "failed")]


def chosen_capture(job: CollectedJob, options: SourceOptions, exit_code: int) -> Capture:
    """The capture of the rank that the options name, else of the first; says on standard error which it is."""
    if not job.ranks:
        from gradviz.analysis.ranks.stand_words import end_words

        job.remove()
        lost = [f"rank {end.rank} {end_words(end)}" for end in _lost_ranks(job)[:4]]
        why = "; ".join([*lost, *job.disclosures])
        refusal = NothingRecorded(f"no process of {options.name} was recorded", hint=why or None)
        refusal.exit_code = exit_code or refusal.exit_code
        raise refusal
    numbers = [each.rank.number for each in job.ranks]
    if options.rank is not None and options.rank not in numbers:
        kind = job.ranks[0].rank.kind
        raise BadInput(f"{kind} {options.rank} was not recorded", hint=f"recorded: {', '.join(map(str, numbers[:8]))}")
    return job.ranks[0 if options.rank is None else numbers.index(options.rank)].capture()


def tell_rank(job: CollectedJob, capture: Capture, options: SourceOptions) -> None:
    """Print on standard error which rank of a job is shown, and what of the job was not recorded."""
    rank = capture.rank
    if rank is not None:
        recorded = [each.rank.number for each in job.ranks]
        tell(shown_rank(rank, recorded, is_chosen=options.rank is not None))
    for sentence in job.disclosures:
        tell(f"not recorded: {sentence}")


def report_early_stop(source: Source, options: SourceOptions) -> None:
    """Print one line on standard error, for commands whose output does not say that the script was stopped."""
    if source.capture.outcome == "stopped" and options.can_run_on:
        call = source.capture.graphs[-1].backward
        after = f" after backward {call.number}" if call is not None else ""
        tell(f"{file_name(source.capture.program.name)} was stopped{after} (--keep-going runs it to its end)")


def _no_graph(capture: Capture, exit_code: int) -> NothingRecorded:
    how = "was interrupted" if capture.outcome == "interrupted" else "failed"
    if capture.disclosures:
        why = capture.disclosures[0]
    elif capture.backward_calls:
        why = f"it {how} after {capture.backward_calls} backward calls, before the one to record"
    else:
        why = f"it {how} before any variable held a tensor with a grad_fn"
    refusal = NothingRecorded(f"no graph of {capture.program.name} to show: {why}")
    refusal.exit_code = exit_code or 2
    return refusal


def _load(options: SourceOptions, *, needs_graph: bool) -> Source:
    for name, given in (
        ("--root", options.root),
        ("--keep-going", options.keep_going),
        ("--no-gradients", not options.gradients),
        ("--values", options.values),
        ("--values-up-to", options.values_up_to is not None),
        ("--root-shares", options.root_shares),
        ("--inside", options.inside),
        ("--fingerprints", options.fingerprints),
    ):
        if given:
            raise BadInput(f"{name} needs a script to run; {options.name} is a recording")
    if options.arguments:
        raise BadInput(f"unexpected {options.arguments[0]!r}: {options.name} is a recording and is not run")
    assert options.file is not None
    with working(f"reading {options.name}"):
        named = named_capture(options.name, options.rank)
    capture = named.capture
    if named.taken is not None and needs_graph:
        tell(f"{options.name}: {named.taken}")
    if not capture.graphs and (needs_graph or capture.calls is None):
        raise NothingRecorded(f"{options.name} has no graph: its script {capture.outcome} before there was one")
    return Source(capture, _select(capture, options))


def selected(source: Source, options: SourceOptions) -> Source:
    """The source with only the selected graphs; raises `BadInput` for a call that was not recorded."""
    return replace(source, graphs=_select(source.capture, options))


def _select(capture: Capture, options: SourceOptions) -> tuple[Graph, ...]:
    if options.backward is None or options.backward == "all":
        return capture.graphs
    if options.backward == "last":
        return capture.graphs[-1:]
    chosen = tuple(graph for graph in capture.graphs if graph.backward and graph.backward.number == options.backward)
    if not chosen:
        numbers = ", ".join(str(graph.backward.number) for graph in capture.graphs if graph.backward) or "none"
        raise BadInput(
            f"--backward {options.backward}: {options.name} does not have that call", hint=f"it has {numbers}"
        )
    return chosen


@contextmanager
def _standard_output_to_error() -> Iterator[None]:
    """Redirect everything that the program prints, from Python or C, to standard error."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:
        yield  # no standard output at all
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


@contextmanager
def _unchanged_output() -> Iterator[None]:
    yield
