"""GV812."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.finding import Finding
from gradviz.analysis.ranks.divergences import Divergence
from gradviz.analysis.ranks.job_case import ByRank, JobCase, OutOfStep, is_waiting
from gradviz.analysis.ranks.stand_words import at_words, end_words, own_line
from gradviz.analysis.rules.bases.job_rule import JobRule, call_words, location_of, number_words
from gradviz.capture.rank_end import WRAPPER, CodeLine, Collective, RankEnd
from gradviz.graph.query.own_line import line_words_of

_REMEDY = "call it on every rank, outside of what depends on the rank or on its data"


class CollectiveOnSomeRanks(JobRule):
    """Only some ranks call a collective, and wait in it for the others.

    What it finds
    -------------
    A job that hangs, in which a ``barrier()``, a ``broadcast()``, an ``all_reduce()``, or something that calls one,
    such as saving a sharded model, ``full_tensor()``, or a forward of the wrapper for evaluation, is reached by some
    ranks only: inside ``if rank == 0:``, after an early ``return``, or in a branch that depends on the data of each
    rank.

    Why it matters
    --------------
    A collective ends when every rank of its process group has called it. The ranks that called it wait for the others,
    or are paired with a later collective of theirs, and then everything after it is out of step.

    Example
    -------
    import torch.distributed as dist

    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        dist.barrier()
    dist.destroy_process_group()

    Instead
    -------
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()
    """

    code = "GV812"
    name = "collective_on_some_ranks"
    severity = "error"

    def check_job(self, job: JobCase) -> Iterator[Finding]:
        found = list(self._of_calls(job))
        yield from found
        if not found and job.by_rank is not None:
            yield self._by_rank(job, job.by_rank)

    def _of_calls(self, job: JobCase) -> Iterator[Finding]:
        aborted = job.out_of_step
        if aborted is not None and aborted.is_certain:
            yield self._aborted(aborted)
        if job.aborted_unseen is not None:
            yield self._aborted_unseen(job.aborted_unseen)
        found = job.divergence
        if found is None or job.left_loop is not None:
            return
        if job.in_message:  # what a rank that gets no message does not call comes of that
            return
        only = only_called_by_some(found)
        if only is None or only[0].is_in_backward:
            return
        callers = set(only[1])
        others = [end for end in job.ends if end.rank in found.calls and end.rank not in callers]
        if any(end.how == "finished" or is_waiting(end) for end in others):
            yield self._finding(job, found, *only)

    def _by_rank(self, job: JobCase, found: ByRank) -> Finding:
        end, line = found.end, own_line(found.end)
        assert end.stand is not None
        through = "" if line == found.line else f", from {line_words_of(found.line.file, found.line.line)}"
        other = next((each for each in job.ends if each.rank != end.rank and each.stand is not None), None)
        what = "the forward of its wrapper" if end.stand.collective == WRAPPER else f"{end.stand.collective}()"
        return self.finding(
            f"only {job.who([end.rank])} calls {what}{at_words(line)}{through}{_under(found.line)}",
            why="all ranks must take part in what it exchanges"
            + (f"; rank {other.rank} {end_words(other)}" if other else ""),
            fix=_REMEDY
            + ("; to compute on one rank, call the module in the wrapper" if end.stand.collective == WRAPPER else ""),
            location=location_of(line),
            symptom_location=None if other is None else location_of(own_line(other)),
            ranks=(end.rank,),
        )

    def _finding(self, job: JobCase, found: Divergence, call: Collective, ranks: list[int]) -> Finding:
        others = found.calls.keys() - set(ranks)
        other = next((end for end in job.ends if end.rank in others), None)
        callers = f"{job.who(ranks)} call{'s' if len(ranks) == 1 else ''}"
        return self.finding(
            f"only {callers} {call_words(call)}{number_words(found)}{_under(call.at)}",
            why=f"it ends when all ranks have called it; rank {other.rank} {end_words(other)}" if other else "",
            fix=_REMEDY,
            location=location_of(call.at),
            ranks=tuple(ranks),
        )

    def _aborted_unseen(self, aborted: RankEnd) -> Finding:
        line = own_line(aborted)
        return self.finding(
            f"rank {aborted.rank} was aborted by its backend{at_words(line)}, in a collective of its wrapper: a rank "
            "has called a collective that the others have not",
            why="what a wrapper exchanges has the same size on all ranks, so they are out of step; which collectives "
            "they had called is not known with this torch (2.10 and newer note them)",
            fix=f"look for a collective under a condition, and {_REMEDY}",
            location=location_of(line),
            ranks=(aborted.rank,),
        )

    def _aborted(self, found: OutOfStep) -> Finding:
        aborted, call = found.aborted, found.call
        return self.finding(
            f"rank {found.peer.rank} calls {call_words(call)}{_under(call.at)}, and rank {aborted.rank} does not: its "
            f"backend aborted it{at_words(own_line(aborted))}, in a collective of its wrapper",
            why="what a wrapper exchanges has the same size on all ranks, so they are out of step; which collectives "
            "the aborted rank had called is lost",
            fix=_REMEDY,
            location=location_of(call.at),
            symptom_location=location_of(own_line(aborted)),
            ranks=(found.peer.rank,),
        )


def _under(line: CodeLine | None) -> str:
    if line is None or not line.condition:
        return ""
    branch = "the else of " if line.is_else else ""
    return f", under {branch}'{line.condition_text}' ({line_words_of(line.file, line.condition)})"


def only_called_by_some(found: Divergence) -> tuple[Collective, list[int]] | None:
    """The collective that the other ranks do not call, as far as the source shows; None if each calls another one."""
    groups = found.groups
    if len(groups) == 1:
        return groups[0] if found.without else None
    conditional = [group for group in groups if group[0].at is not None and group[0].at.condition]
    branches = {(group[0].at.file, group[0].at.condition) for group in conditional if group[0].at is not None}
    if len(conditional) == 1 or len(branches) > 1:
        return min(conditional, key=lambda group: len(group[1]))
    return None
