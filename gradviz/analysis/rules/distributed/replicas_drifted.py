"""GV821."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.finding import Finding
from gradviz.analysis.ranks.job_case import JobCase
from gradviz.analysis.ranks.stand_words import is_refused_by_ddp
from gradviz.analysis.rules.bases.job_rule import JobRule


class ReplicasDrifted(JobRule):
    """Parameters that ranks should have in common have different values.

    What it finds
    -------------
    Parameters whose gradients are to be reduced over all ranks, with the same names and different values before a
    backward call. A line changed them, or their gradients, on one rank; settings of the optimizer differ; or the
    wrapper was never called, because the program calls the module inside it.

    Why it matters
    --------------
    ``DistributedDataParallel`` makes the replicas equal once, at the beginning, and gives all of them the same
    gradients. It never compares them again: a rank that changes a parameter alone trains another model from then on.

    Example
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    if dist.get_rank() == 1:
        torch.nn.init.ones_(model.module.weight)
    model(torch.randn(2, 4)).sum().backward()
    dist.destroy_process_group()

    Instead
    -------
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    net = torch.nn.Linear(4, 1)
    torch.nn.init.ones_(net.weight)
    model = DistributedDataParallel(net)
    model(torch.randn(2, 4)).sum().backward()
    dist.destroy_process_group()
    """

    code = "GV821"
    name = "replicas_drifted"
    severity = "error"

    def check_job(self, job: JobCase) -> Iterator[Finding]:
        if any(is_refused_by_ddp(each.error) for each in job.ends):
            return  # gradients were not reduced because of that
        for found in job.differences("drift"):
            yield self.finding(
                found.what,
                symptom="grad_wrong",
                why=f"a gradient that is the same for all is applied to different values: {'; '.join(found.details)}",
                fix=found.remedy
                or "change parameters before they are wrapped, or on all ranks alike; seed random changes alike",
                location=found.location,
                tensors=found.parameters,
                ranks=found.missing,
            )
