"""GV813."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.finding import Finding
from gradviz.analysis.ranks.job_case import JobCase
from gradviz.analysis.rules.bases.job_rule import JobRule, call_words, location_of, number_words
from gradviz.analysis.rules.distributed.collective_on_some_ranks import only_called_by_some
from gradviz.analysis.rules.distributed.uneven_steps import UnevenSteps
from gradviz.analysis.rules.distributed.unused_on_some_ranks import UnusedOnSomeRanks

_SKIPPED = "; see whether a rank skips a backward, as after an exception that is caught"


class CollectiveOrder(JobRule):
    """Ranks call different collectives at the same point of their order.

    What it finds
    -------------
    A job that hangs, in which ranks of one process group have called collectives that do not belong together: one waits
    in ``all_reduce()``, another one in ``barrier()``.

    Why it matters
    --------------
    Collectives have no names: the fifth of one rank is paired with the fifth of another. If they are not the same, the
    ranks wait for each other, or numbers are mixed up.

    Example
    -------
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.ones(1)
    if dist.get_rank() == 0:
        dist.all_reduce(total)
        dist.broadcast(total, 0)
    else:
        dist.broadcast(total, 0)
        dist.all_reduce(total)
    dist.destroy_process_group()

    Instead
    -------
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    dist.broadcast(total, 0)
    dist.destroy_process_group()
    """

    code = "GV813"
    name = "collective_order"
    severity = "error"

    def check_job(self, job: JobCase) -> Iterator[Finding]:
        found = job.divergence
        if found is None or job.by_rank is not None or only_called_by_some(found) is not None:
            return
        groups = found.groups
        if len(groups) < 2 or all(call.is_in_backward for call, _ in groups):
            return
        if any(True for rule in (UnevenSteps, UnusedOnSomeRanks) for _ in rule().check_job(job)):
            return  # which is why
        told = " and ".join(f"{job.who(ranks)} {call_words(call)}" for call, ranks in groups[:4])
        yield self.finding(
            f"ranks call different collectives at the same point{number_words(found)}: {told}",
            why="the collectives of a process group are paired by their order alone",
            fix="call the same collectives in the same order on every rank; let no order depend on the rank, on a set "
            "or on its data" + _SKIPPED * any(call.is_in_backward for call, _ in groups),
            location=location_of(groups[-1][0].at),
            symptom_location=location_of(groups[0][0].at),
            ranks=tuple(groups[-1][1]),
        )
