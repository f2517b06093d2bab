"""GV815."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.finding import Finding
from gradviz.analysis.ranks.job_case import JobCase
from gradviz.analysis.ranks.rank_difference import RankDifference
from gradviz.analysis.ranks.stand_words import is_refused_by_ddp, own_line
from gradviz.analysis.rules.bases.job_rule import JobRule, location_of
from gradviz.capture.rank_end import RankEnd


class UnusedOnSomeRanks(JobRule):
    """A parameter takes part in a backward on some ranks only, and the others send no gradient for it.

    What it finds
    -------------
    Graphs of the same backward call that differ between ranks in the parameters that they have, where
    ``DistributedDataParallel`` does not look for unused parameters; and a rank that waits in ``backward()`` while
    another one is through with it.

    Why it matters
    --------------
    ``DistributedDataParallel`` sends gradients in buckets, and a bucket is sent when all its gradients are there. A
    rank that does not use a parameter never sends that bucket. The others wait for it in this backward, and the rank
    itself is refused its next forward.

    Example
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.extra = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            h = self.body(x)
            return self.extra(h) if dist.get_rank() == 0 else h

    dist.init_process_group("gloo")
    model = DistributedDataParallel(Net())
    for step in range(2):
        model(torch.randn(2, 4)).sum().backward()
    dist.destroy_process_group()

    Instead
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.extra = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            h = self.body(x)
            return self.extra(h) if dist.get_rank() == 0 else h

    dist.init_process_group("gloo")
    model = DistributedDataParallel(Net(), find_unused_parameters=True)
    for step in range(2):
        model(torch.randn(2, 4)).sum().backward()
    dist.destroy_process_group()
    """

    code = "GV815"
    name = "unused_on_some_ranks"
    severity = "error"

    def check_job(self, job: JobCase) -> Iterator[Finding]:
        refused = [each for each in job.ends if is_refused_by_ddp(each.error)]
        latest = max((each.backward_calls for each in job.in_backward), default=None)
        through = latest is not None and any(_is_through(each, latest) for each in job.ends)
        if not (refused or through):
            return
        for difference in job.differences("structure"):
            if difference.parameters:
                yield self._finding(job, difference)
                return
        for end in refused[:1]:
            yield self.finding(
                f"rank {end.rank} did not use all parameters in its last step, and cannot go on",
                symptom="raises",
                why="DDP waits for the gradient of every parameter in every backward",
                fix="use every parameter, or pass find_unused_parameters=True",
                location=location_of(own_line(end)),
                ranks=(end.rank,),
            )

    def _finding(self, job: JobCase, found: RankDifference) -> Finding:
        names = ", ".join(found.parameters[:4]) + (" ..." if len(found.parameters) > 4 else "")
        waiting = [each for each in job.in_backward if each.rank in found.having]
        return self.finding(
            f"only {job.who(found.having)} use{'s' if len(found.having) == 1 else ''} {names}: "
            f"{job.who(found.missing)} send{'s' if len(found.missing) == 1 else ''} no gradient for "
            f"{'it' if len(found.parameters) == 1 else 'them'}, and DistributedDataParallel waits for it",
            symptom="none" if waiting else "raises",
            why="a bucket of gradients is sent when all its gradients are there",
            fix="use them on every rank, such as with a factor of zero, or pass find_unused_parameters=True",
            location=found.location,
            symptom_location=location_of(own_line(waiting[0])) if waiting else None,
            tensors=found.parameters,
            ranks=found.missing,
        )


def _is_through(end: RankEnd, latest: int) -> bool:
    """Whether this rank has ended the backward in which others wait, the one with this number."""
    is_inside = end.stand is not None and end.stand.is_in_backward
    return not is_inside and end.backward_calls >= latest
