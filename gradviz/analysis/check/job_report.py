"""One report for a job: what all its ranks share is told once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from msgspec.structs import replace

from gradviz.analysis.check.report import Report
from gradviz.analysis.finding import SEVERITIES, Finding, SourceText
from gradviz.analysis.ranks.job_findings import NOTHING_ABOUT_ALL, JobFindings
from gradviz.analysis.ranks.rank_words import MAX_GROUPS, kind_words, rank_words
from gradviz.capture.capture import Rank
from gradviz.graph.number_words import counted


def job_report(
    reports: Sequence[tuple[Rank, Report]],
    world_size: int,
    disclosures: Iterable[str] = (),
    hang: tuple[str, ...] = (),
    about_all: JobFindings = NOTHING_ABOUT_ALL,
) -> Report:
    """The reports of some ranks of a job (at least one) as a single one; `disclosures` are about the whole job."""
    first = reports[0][1]
    if len(reports) == world_size == 1:  # a launcher that started a single process
        return replace(first, disclosures=(*first.disclosures, *disclosures))
    source: SourceText = {}
    for known in (*(report.source for _, report in reports), about_all.source):
        for file, lines in known.items():
            source.setdefault(file, {}).update(lines)
    raised: dict[str, list[int]] = {}
    for rank, report in reports:
        if report.raised is not None:
            raised.setdefault(report.raised, []).append(rank.number)
    noun = kind_words(reports[0][0], world_size)
    recorded = "" if len(reports) == world_size else f"{len(reports):,} of "
    return replace(
        first,
        program=f"{first.program}, {recorded}{world_size:,} {noun}",
        findings=_most_severe_first((*about_all.findings, *_merged_findings(reports, world_size))),
        source=source,
        checked=tuple(
            _shared(reports, world_size, lambda report: "; ".join(report.checked) or "no gradient was checked")
        ),
        rules=tuple(sorted({*first.rules, *about_all.rules})),
        suppressed=max(report.suppressed for _, report in reports) + about_all.suppressed,
        known=max(report.known for _, report in reports) + about_all.known,
        disclosures=(*_shared_sentences(reports, world_size), *disclosures),
        raised=" and ".join(
            f"{kind} on {rank_words(ranks, reports[0][0], world_size)}" for kind, ranks in raised.items()
        )
        or None,
        exited_with_error=any(report.exited_with_error for _, report in reports),
        hang=hang,
        is_empty=all(report.is_empty for _, report in reports) and not about_all.findings,
    )


def _merged_findings(reports: Sequence[tuple[Rank, Report]], world_size: int) -> tuple[Finding, ...]:
    """Findings of the same cause at the same lines are one; the figures are those of the first rank that has it."""
    found: dict[Hashable, list[tuple[Rank, Finding]]] = {}
    for rank, report in reports:
        seen: dict[Hashable, int] = {}
        for finding in report.findings:
            what = _identity(finding)
            seen[what] = seen.get(what, 0) + 1
            found.setdefault((what, seen[what]), []).append((rank, finding))
    return tuple(_merged(each, world_size) for each in found.values())


def _most_severe_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def _identity(finding: Finding) -> Hashable:
    # At one line, the tensors may differ between ranks; what the first rank says of them is shown.
    tensors = finding.tensors if finding.location is None else ()
    return finding.code, finding.location, finding.symptom_location, finding.op, tensors


def _merged(found: Sequence[tuple[Rank, Finding]], world_size: int) -> Finding:
    rank, finding = found[0]
    who = rank_words([each.number for each, _ in found], rank, world_size)
    if any(other.message != finding.message for _, other in found):
        who += f", in the words for {rank.kind} {rank.number}"
    return replace(finding, message=f"{finding.message} ({who})", ranks=tuple(each.number for each, _ in found))


def _shared_sentences(reports: Sequence[tuple[Rank, Report]], world_size: int) -> Iterable[str]:
    sentences: dict[str, list[Rank]] = {}
    for rank, report in reports:
        for sentence in dict.fromkeys(report.disclosures):
            sentences.setdefault(sentence, []).append(rank)
    for sentence, ranks in sentences.items():
        if len(ranks) == world_size:
            yield sentence
        else:
            yield f"{rank_words([each.number for each in ranks], ranks[0], world_size)}: {sentence}"


def _shared(reports: Sequence[tuple[Rank, Report]], world_size: int, text_of: Callable[[Report], str]) -> Iterable[str]:
    groups: dict[str, list[Rank]] = {}
    for rank, report in reports:
        groups.setdefault(text_of(report), []).append(rank)
    if len(groups) == 1 and len(reports) == world_size:
        yield f"on each of {world_size:,} {kind_words(reports[0][0], world_size)}: {next(iter(groups))}"
        return
    for text, ranks in list(groups.items())[:MAX_GROUPS]:
        yield f"{rank_words([each.number for each in ranks], ranks[0], world_size)}: {text}"
    if len(groups) > MAX_GROUPS:
        yield f"and {counted(len(groups) - MAX_GROUPS, 'group')} more of ranks"
