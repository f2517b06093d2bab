"""What rules about a whole job find."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gradviz.analysis.check.baseline import Baseline, without_known
from gradviz.analysis.check.checker import failed_rule
from gradviz.analysis.check.suppressions import without_suppressed
from gradviz.analysis.finding import Finding, Location, SourceText
from gradviz.analysis.ranks.job_case import JobCase
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.job_rule import JobRule


class JobFindings(Struct, frozen=True):
    """Findings about all ranks, with what was left out."""

    findings: tuple[Finding, ...] = ()
    source: SourceText = {}
    """Text of the lines that they name."""
    rules: tuple[str, ...] = ()
    suppressed: int = 0
    known: int = 0


NOTHING_ABOUT_ALL = JobFindings()


def job_findings(
    job: JobCase, rules: Iterable[type[Rule]], source: SourceText, baseline: Baseline | None = None
) -> JobFindings:
    """The findings of those rules that are about jobs; `source` has lines of the program that captures know."""
    found: list[Finding] = []
    ran: list[str] = []
    for rule in rules:
        if not issubclass(rule, JobRule):
            continue
        try:
            found += rule().check_job(job)
        except Exception as defect:
            found.append(failed_rule(rule, defect))
        else:
            ran.append(rule.code)
    named = _source(job, source, found)
    shown, suppressed = without_suppressed(named, found)
    known: list[Finding] = []
    if baseline is not None:
        shown, known = without_known(baseline, shown, named)
    return JobFindings(tuple(shown), named, tuple(ran), len(suppressed), len(known))


def _source(job: JobCase, source: SourceText, findings: Iterable[Finding]) -> SourceText:
    texts = {Location(line.file, line.line): line.text for line in job.lines()}
    named: SourceText = {}
    for location in (each for finding in findings for each in (finding.location, finding.symptom_location)):
        if location is not None:
            text = texts.get(location) or source.get(location.file, {}).get(location.line, "")
            if text:
                named.setdefault(location.file, {})[location.line] = text
    return named
