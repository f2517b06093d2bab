"""GV817."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.finding import Finding
from gradviz.analysis.ranks.job_case import JobCase, is_waiting
from gradviz.analysis.ranks.stand_words import end_words, own_line
from gradviz.analysis.rules.bases.job_rule import JobRule, location_of
from gradviz.analysis.rules.distributed import (
    collective_on_some_ranks,
    collective_order,
    collective_shapes,
    rank_failed,
    uneven_steps,
    unused_on_some_ranks,
)

_CAUSES: tuple[type[JobRule], ...] = (
    uneven_steps.UnevenSteps,
    collective_on_some_ranks.CollectiveOnSomeRanks,
    collective_order.CollectiveOrder,
    collective_shapes.CollectiveShapes,
    unused_on_some_ranks.UnusedOnSomeRanks,
    rank_failed.RankFailed,
)


class NoProgress(JobRule):
    """No rank gets on, and one of them is not waiting for the others.

    What it finds
    -------------
    A job that hangs without one of the causes GV811 to GV816: a rank stands in code of its own, such as the loading of
    data, a lock or a server, or a rank has never come.

    Why it matters
    --------------
    The other ranks wait in their next collective, and show nothing but that.

    Example
    -------
    import time

    import torch.distributed as dist

    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        time.sleep(600)  # a server that does not answer
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()

    Instead
    -------
    import time

    import torch.distributed as dist

    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        time.sleep(0.1)
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
    """

    code = "GV817"
    name = "no_progress"
    severity = "error"

    def check_job(self, job: JobCase) -> Iterator[Finding]:
        if not job.hangs or any(True for rule in _CAUSES for _ in rule().check_job(job)):
            return
        busy = [each for each in job.waiting if not is_waiting(each)]
        seen = {each.rank for each in job.ends}
        unseen = [rank for rank in range(job.world_size) if rank not in seen]
        shown = busy[:2] or job.ends[:2]
        told = "; ".join(f"rank {each.rank} {end_words(each)}" for each in shown)
        never = f"{job.who(unseen)} never came; " if unseen else ""
        yield self.finding(
            f"no rank got on for {job.hung_for:g} s: {never}{told}",
            why="the others wait for it in a collective" if busy else "",
            fix="give it a time limit of its own, or a larger --hang if it is only slow"
            if busy
            else "start as many processes as the world size says"
            if unseen
            else "let one rank send while the other receives"
            if len(job.in_message) == len(job.waiting) > 1
            else "see where each rank stands, below",
            location=location_of(own_line(shown[0])) if shown else None,
            ranks=tuple(each.rank for each in busy) or tuple(unseen),
        )
