"""GV816."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.finding import Finding
from gradviz.analysis.ranks.job_case import JobCase, is_aborted_in_collective
from gradviz.analysis.ranks.stand_words import at_words, end_words, is_refused_by_ddp, own_line
from gradviz.analysis.rules.bases.job_rule import JobRule, location_of
from gradviz.capture.rank_end import RankEnd
from gradviz.graph.number_words import counted


class RankFailed(JobRule):
    """One rank failed or was killed, and the others fail or wait because of it.

    What it finds
    -------------
    A rank whose process was killed, or that raised an exception before the others did, which then raised
    ``Connection closed by peer`` or the like, were ended by their launcher, or wait for ever.

    Why it matters
    --------------
    The log of such a job shows the exceptions of all ranks, in any order, and most of them are only consequences.

    Example
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    for step in range(3):
        x = torch.randn(2, 3 if step == 2 and dist.get_rank() == 1 else 4)
        model(x).sum().backward()
    dist.destroy_process_group()

    Instead
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    for step in range(3):
        model(torch.randn(2, 4)).sum().backward()
    dist.destroy_process_group()
    """

    code = "GV816"
    name = "rank_failed"
    severity = "error"

    def check_job(self, job: JobCase) -> Iterator[Finding]:
        lost = [each for each in job.lost if not is_aborted_in_collective(each) and not is_refused_by_ddp(each.error)]
        for end in lost[:1]:
            alike = [each for each in lost if _is_same_death(each, end)]
            yield self._finding(job, end, [each.rank for each in alike])

    def _finding(self, job: JobCase, end: RankEnd, ranks: list[int]) -> Finding:
        after = counted(end.backward_calls, "backward call")
        others = [each for each in job.ends if each.rank not in ranks and each.how != "finished"]
        told = "; ".join(f"rank {each.rank} {end_words(each)}" for each in others[:2])
        line = own_line(end)
        if end.how == "died":
            what = f"{job.who(ranks)} ended suddenly{at_words(line)}, in or after {after}"
            fix = "look for a signal in the launcher's log: SIGKILL is most often a lack of memory (dmesg says so)"
        elif end.how == "terminated":
            what = f"rank {end.rank} was ended by SIGTERM{at_words(line)}, after {after}, before the others failed"
            fix = "look in the launcher's log for who ended it: a time limit, or a batch system"
        else:
            what = f"rank {end.rank} failed first{at_words(line)}, after {after}: {end.error}"
            fix = "mend what this rank raises; what the others raise comes of it"
        return self.finding(
            what,
            symptom="raises",
            why=f"{'its' if len(ranks) == 1 else 'their'} peers lose their connection, or wait: {told}" if told else "",
            fix=fix,
            location=location_of(line),
            ranks=tuple(ranks),
        )


def _is_same_death(one: RankEnd, other: RankEnd) -> bool:
    """Whether both died at the same line, so that nothing says which was first."""
    where = own_line(one), one.backward_calls
    return one is other or (one.how == other.how == "died" and where == (own_line(other), other.backward_calls))
