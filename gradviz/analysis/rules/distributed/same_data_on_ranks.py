"""GV822."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.finding import Finding
from gradviz.analysis.ranks.job_case import JobCase
from gradviz.analysis.rules.bases.job_rule import JobRule


class SameDataOnRanks(JobRule):
    """Ranks compute the same gradients from the same data, and their work is done twice.

    What it finds
    -------------
    Ranks whose own gradients, before the reduction, are the same in all backward calls that were compared.

    Why it matters
    --------------
    The mean of equal gradients is one of them: more ranks make no difference to the training. The usual reasons are one
    seed for all samplers, and a ``DataLoader`` without ``DistributedSampler``.

    Example
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    model(torch.randn(2, 4)).sum().backward()
    dist.destroy_process_group()

    Instead
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    torch.manual_seed(dist.get_rank())
    model(torch.randn(2, 4)).sum().backward()
    dist.destroy_process_group()
    """

    code = "GV822"
    name = "same_data_on_ranks"
    severity = "warning"

    def check_job(self, job: JobCase) -> Iterator[Finding]:
        for found in job.differences("same_data"):
            if found.is_reduced:
                yield self.finding(
                    found.what,
                    why="the mean of gradients that are equal is the same as each of them",
                    fix="pass a DistributedSampler, or seed the data of each rank with its number",
                    location=found.location,
                    ranks=found.having,
                )
