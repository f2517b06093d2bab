"""GV811."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.ranks.job_case import JobCase, LeftLoop, has_left, line_of_loop
from gradviz.analysis.ranks.stand_words import at_words, end_words, own_line
from gradviz.analysis.rules.bases.job_rule import JobRule, location_of
from gradviz.capture.rank_end import CodeLine, RankEnd
from gradviz.graph.number_words import counted
from gradviz.graph.query.own_line import line_words_of


class UnevenSteps(JobRule):
    """A rank left the training loop earlier than others, which wait for its gradients.

    What it finds
    -------------
    A job that hangs, in which some ranks wait inside ``backward()``, for a message, or in a collective that all called
    in earlier steps, such as the gathering of ``fully_shard``, and others have left the loop: they ended, or stand
    behind it. Their data is shorter, or a ``break`` or ``continue`` depends on what each rank computed.

    Why it matters
    --------------
    ``DistributedDataParallel`` adds up the gradients of all ranks in every backward. A rank whose data ends early takes
    no part any more, and the others wait until a timeout ends the job, after half an hour if nobody says otherwise.

    Example
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    data = torch.randn(5, 4)[dist.get_rank() :: 2]  # 3 samples for rank 0, 2 for rank 1
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    for x in data:
        model(x).sum().backward()
    dist.destroy_process_group()

    Instead
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    data = torch.randn(6, 4)[dist.get_rank() :: 2]
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    for x in data:
        model(x).sum().backward()
    dist.destroy_process_group()
    """

    code = "GV811"
    name = "uneven_steps"
    severity = "error"

    def check_job(self, job: JobCase) -> Iterator[Finding]:
        if job.by_rank is not None:
            return  # a rank has not left a loop where it waits for the others
        for waiter in job.in_backward[:1]:
            line = line_of_loop(waiter)
            left = [each for each in job.ends if each.backward_calls < waiter.backward_calls and has_left(each, line)]
            if left:
                yield self._finding(job, waiter, line, left)
        for waiter in job.in_message[:1]:
            line = line_of_loop(waiter)
            left = [each for each in job.ends if each.rank != waiter.rank and has_left(each, line)]
            if left and line is not None and line.loop is not None:
                yield self._of_message(job, waiter, line, left)
        if job.left_loop is not None:
            yield self._of_collective(job, job.left_loop)

    def _of_collective(self, job: JobCase, found: LeftLoop) -> Finding:
        waiter, other, line = found.waiter, found.left[0], found.line
        assert line.loop is not None
        return self.finding(
            f"rank {waiter.rank} {end_words(waiter)}, and {job.who([each.rank for each in found.left])} left the loop, "
            "where all called the same before",
            why=f"{_ways_out(line)}: rank {other.rank} {end_words(other)}",
            fix=_alike(line) + "give every rank as many batches (DistributedSampler, drop_last=True)",
            location=Location(line.file, line.loop[0]),
            symptom_location=location_of(own_line(waiter)),
            ranks=tuple(each.rank for each in found.left),
        )

    def _of_message(self, job: JobCase, waiter: RankEnd, line: CodeLine, left: list[RankEnd]) -> Finding:
        assert line.loop is not None
        return self.finding(
            f"rank {waiter.rank} {end_words(waiter)}, and {job.who([each.rank for each in left])} left the loop",
            why=f"{_ways_out(line)}: rank {left[0].rank} {end_words(left[0])}",
            fix="give the ranks at both ends as many batches: each send needs a receive",
            location=Location(line.file, line.loop[0]),
            symptom_location=location_of(own_line(waiter)),
            ranks=tuple(each.rank for each in left),
        )

    def _finding(self, job: JobCase, waiter: RankEnd, line: CodeLine | None, left: list[RankEnd]) -> Finding:
        waiting = [each.rank for each in job.in_backward if each.backward_calls == waiter.backward_calls]
        other = left[0]
        loop = None if line is None or line.loop is None else Location(line.file, line.loop[0])
        return self.finding(
            f"{job.who(waiting)} wait{'s' if len(waiting) == 1 else ''} in backward {waiter.backward_calls}"
            f"{at_words(line)} for gradients of {job.who([each.rank for each in left])}, which made only "
            f"{counted(other.backward_calls, 'backward call')} and left the loop",
            why=f"{_ways_out(line)}: rank {other.rank} {end_words(other)}",
            fix=_alike(line) + "give every rank as many batches (DistributedSampler, drop_last=True), or train inside "
            "'with Join([model])', which answers for a rank that has no more data",
            location=loop or location_of(line),
            symptom_location=location_of(line) if loop is not None else None,
            ranks=tuple(each.rank for each in left),
            evidence={f"backward_calls_of_rank_{each.rank}": each.backward_calls for each in job.ends[:8]},
        )


def _ways_out(line: CodeLine | None) -> str:
    """How a rank may have come to make fewer steps."""
    if line is None or not line.exits:
        return "its data is shorter, or it skips a step"
    told = " or ".join(f"'{word}' at {line_words_of(line.file, number)}" for number, word in line.exits)
    return f"its data is shorter, or it leaves the loop or skips a step by {told}"


def _alike(line: CodeLine | None) -> str:
    if line is None or not line.exits:
        return ""
    return f"let all ranks take '{line.exits[0][1]}' in the same step (all_reduce what it depends on); or "
