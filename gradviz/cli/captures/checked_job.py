"""Checks all ranks of a job: one that ran now, or one whose captures are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradviz.capture.capture import Capture
from gradviz.capture.job_file import JobFile, is_job, named_file

if TYPE_CHECKING:
    from gradviz.analysis.check.baseline import Baseline
    from gradviz.analysis.check.installed_rules import RuleSet
    from gradviz.analysis.check.report import Report
    from gradviz.cli.captures.source import Source, SourceOptions


@dataclass(frozen=True)
class Ranks:
    """The ranks of a job."""

    captures: Iterator[Capture]
    world_size: int
    disclosures: tuple[str, ...] = ()
    hang: tuple[str, ...] = ()


def other_ranks(source: Source, options: SourceOptions) -> Ranks | None:
    """All ranks of the job that the source is one of; None if it is of no job, or the user asked for one rank."""
    if options.rank is not None:
        return None
    if source.job is not None:
        return Ranks(source.job.captures(), source.job.world_size, source.job.disclosures, source.job.hang)
    start = options.start_of_file
    if start is None or not is_job(start) or named_file(options.name)[1] is not None:
        return None
    file = JobFile.load(named_file(options.name)[0])
    wanted = options.ranks
    missing = [f"rank {each.rank}: its recording {each.file} is missing" for each in file.missing]
    captures = (
        each for each in file.captures() if wanted is None or (each.rank is not None and each.rank.number in wanted)
    )
    return Ranks(captures, file.job.world_size, (*file.job.disclosures, *missing))


def report_of_job(own: Report, capture: Capture, ranks: Ranks, rules: RuleSet, baseline: Baseline | None) -> Report:
    """One report for all ranks; `own` is that of `capture`, which is one of them."""
    from gradviz.analysis.case import Case
    from gradviz.analysis.check.job_report import job_report
    from gradviz.analysis.check.report import check_report

    reports = []
    for each in ranks.captures:
        is_own = each.rank == capture.rank
        report = own if is_own else check_report(Case(each), rules.rules, baseline, rules.unusable)
        if each.rank is not None:
            reports.append((each.rank, report))
    return job_report(reports, ranks.world_size, ranks.disclosures, ranks.hang) if reports else own
