"""Checks all ranks of a job: one that ran now, or one whose captures are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gradviz.capture.capture import Capture, Rank
from gradviz.capture.job_file import JobFile, is_job, named_file
from gradviz.capture.rank_end import RankEnd

if TYPE_CHECKING:
    from gradviz.analysis.check.baseline import Baseline
    from gradviz.analysis.check.installed_rules import RuleSet
    from gradviz.analysis.check.report import Report
    from gradviz.analysis.finding import SourceText
    from gradviz.cli.captures.source import Source, SourceOptions


@dataclass(frozen=True)
class Ranks:
    """The ranks of a job."""

    captures: Iterator[Capture]
    world_size: int
    disclosures: tuple[str, ...] = ()
    ends: tuple[RankEnd, ...] = ()
    """How each rank ended that is known."""
    hung_for: float | None = None
    """If no rank got on and the job was ended: after how many seconds."""


def capture_of_rank(source: Source, options: SourceOptions) -> Callable[[int], Capture]:
    """Reads the capture of any rank of a job once more."""
    if source.job is not None:
        files = {each.rank.number: each for each in source.job.ranks}
        return lambda rank: files[rank].capture()
    return JobFile.load(named_file(options.name)[0]).capture_of


def other_ranks(source: Source, options: SourceOptions) -> Ranks | None:
    """All ranks of the job that the source is one of; None if it is of no job, or the user asked for one rank."""
    if options.rank is not None:
        return None
    if source.job is not None:
        job = source.job
        return Ranks(job.captures(), job.world_size, job.disclosures, job.ends, job.hung_for)
    start = options.start_of_file
    if start is None or not is_job(start) or named_file(options.name)[1] is not None:
        return None
    file = JobFile.load(named_file(options.name)[0])
    wanted = options.ranks
    missing = [f"rank {each.rank}: its recording {each.file} is missing" for each in file.missing]
    captures = (
        each for each in file.captures() if wanted is None or (each.rank is not None and each.rank.number in wanted)
    )
    told = (*file.job.disclosures, *missing)
    return Ranks(captures, file.job.world_size, told, file.job.ends, file.job.hung_for)


def report_of_job(
    own: Report, source: Source, ranks: Ranks, load: Callable[[int], Capture], rules: RuleSet, baseline: Baseline | None
) -> Report:
    """One report for all ranks; `own` is that of the source's capture, which is one of them; `load` reads any again."""
    from gradviz.analysis.case import Case
    from gradviz.analysis.check.job_report import job_report
    from gradviz.analysis.check.report import check_report
    from gradviz.analysis.ranks.job_case import JobCase
    from gradviz.analysis.ranks.job_findings import job_findings
    from gradviz.analysis.ranks.rank_comparison import compared_ranks
    from gradviz.analysis.ranks.rank_summary import summary_of
    from gradviz.analysis.ranks.rank_words import kind_words
    from gradviz.analysis.ranks.stand_words import standing_words

    reports, summaries = [], []
    sources: SourceText = {}
    for each in ranks.captures:
        is_own = each.rank == source.capture.rank
        report = own if is_own else check_report(Case(each), rules.rules, baseline, rules.unusable)
        if each.rank is None and ranks.world_size == 1:  # the only process that trained, and no member of a group
            reports.append((Rank(0, 1, "", is_in_order=True), report))
        elif each.rank is not None:
            reports.append((each.rank, report))
            summaries.append(summary_of(each, each.rank))
            sources = each.sources or sources
    rank = reports[0][0] if reports else Rank(0, ranks.world_size, "")
    comparison = compared_ranks(summaries, ranks.world_size, load) if summaries else None
    job = JobCase(ranks.ends, ranks.hung_for, rank, ranks.world_size, comparison)
    about_all = job_findings(job, rules.rules, sources, baseline)
    standing = standing_words(ranks.ends, ranks.hung_for)
    merged = job_report(reports or [(rank, own)], ranks.world_size, ranks.disclosures, standing, about_all)
    if reports:
        return merged
    title = f"{own.program}, 0 of {ranks.world_size:,} {kind_words(rank, ranks.world_size)}"
    return replace(merged, program=title, checked=("no rank was recorded, so no gradient could be checked",))
