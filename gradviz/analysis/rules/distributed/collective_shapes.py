"""GV814."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.finding import Finding
from gradviz.analysis.ranks.job_case import JobCase, is_aborted_in_collective
from gradviz.analysis.ranks.stand_words import at_words, own_line, shapes_words
from gradviz.analysis.rules.bases.job_rule import JobRule, location_of, number_words
from gradviz.capture.rank_end import Collective, RankEnd


class CollectiveShapes(JobRule):
    """Ranks call the same collective with different shapes or dtypes.

    What it finds
    -------------
    An ``all_reduce()``, ``reduce()``, ``broadcast()`` or ``all_gather()`` to which ranks give tensors of different
    sizes, in a job that hangs; or a rank that the backend aborted inside a collective, as gloo does where it receives
    more than it expects.

    Why it matters
    --------------
    A collective sends bytes, and does not check what they mean. With NCCL the job hangs or mixes up numbers, with gloo
    a rank is aborted without a Python exception.

    Example
    -------
    import torch.distributed as dist

    dist.init_process_group("gloo")
    batch = torch.ones(5 - 2 * dist.get_rank())
    dist.all_reduce(batch)
    dist.destroy_process_group()

    Instead
    -------
    import torch.distributed as dist

    dist.init_process_group("gloo")
    batch = torch.ones(5 - 2 * dist.get_rank())
    total = torch.tensor([batch.sum(), len(batch)])
    dist.all_reduce(total)
    dist.destroy_process_group()
    """

    code = "GV814"
    name = "collective_shapes"
    severity = "error"

    def check_job(self, job: JobCase) -> Iterator[Finding]:
        found = job.divergence
        if found is not None and len(found.groups) == 1 and not found.without:
            calls = {rank: call for rank, call in found.calls.items() if call is not None}
            yield self._finding(calls, f"in {next(iter(calls.values())).name}(){number_words(found)}")
            return
        if (
            job.by_rank is not None
            or job.aborted_unseen is not None
            or (job.out_of_step is not None and job.out_of_step.is_certain)
        ):
            return  # not the shapes are wrong
        for end in job.lost:
            if is_aborted_in_collective(end):
                yield self._aborted(job, end)
                return

    def _finding(self, calls: dict[int, Collective], where: str) -> Finding:
        told = ", ".join(f"rank {rank} gives{shapes_words(call)[3:]}" for rank, call in list(calls.items())[:4])
        line = next(iter(calls.values())).at
        return self.finding(
            f"ranks give tensors of different sizes or dtypes {where}{at_words(line)}: {told}",
            why="all ranks must give as many bytes; who expects more waits for the rest",
            fix="pad to one size, or exchange the sizes first; if the line runs several times, see that the order of "
            "its tensors is the same on all ranks",
            location=location_of(line),
            ranks=tuple(calls),
        )

    def _aborted(self, job: JobCase, end: RankEnd) -> Finding:
        assert end.stand is not None
        line = own_line(end)
        peers = [
            f"rank {each.rank} gave{shapes_words(call)[3:]}"
            for each in job.ends
            if each.rank != end.rank and (call := _last(each)) is not None and location_of(call.at) == location_of(line)
        ]
        told = f"; there {', '.join(peers[:4])}" if peers else ""
        return self.finding(
            f"rank {end.rank} was aborted by its backend inside {end.stand.collective}(){at_words(line)}{told}",
            why="gloo aborts a process that receives more bytes than it expects: a rank gave another size or dtype"
            + _possibly_out_of_step(job),
            fix="give tensors of the same shape and dtype on all ranks, or exchange the sizes first",
            location=location_of(line),
            ranks=(end.rank,),
        )


def _possibly_out_of_step(job: JobCase) -> str:
    found = job.out_of_step
    if found is None or found.call.at is None:
        return ""
    return (
        f"; or it did not call {found.call.name}(){at_words(found.call.at)}, as rank {found.peer.rank} did under "
        f"'{found.call.at.condition_text}', and is out of step since"
    )


def _last(end: RankEnd) -> Collective | None:
    return end.collectives[-1] if end.collectives else None
