"""One report for a job: what all its ranks share is told once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from msgspec.structs import replace

from gradviz.analysis.check.report import Report
from gradviz.analysis.finding import SEVERITIES, Finding, SourceText
from gradviz.capture.capture import Rank
from gradviz.graph.number_words import counted

MAX_GROUPS = 6
"""How many groups of ranks that say different things are told one by one."""


def job_report(
    reports: Sequence[tuple[Rank, Report]],
    world_size: int,
    disclosures: Iterable[str] = (),
    hang: tuple[str, ...] = (),
) -> Report:
    """The reports of some ranks of a job (at least one) as a single one; `disclosures` are about the whole job."""
    first = reports[0][1]
    source: SourceText = {}
    for _, report in reports:
        for file, lines in report.source.items():
            source.setdefault(file, {}).update(lines)
    raised: dict[str, list[int]] = {}
    for rank, report in reports:
        if report.raised is not None:
            raised.setdefault(report.raised, []).append(rank.number)
    noun = _kind(reports[0][0], world_size)
    recorded = "" if len(reports) == world_size else f"{len(reports):,} of "
    return replace(
        first,
        program=f"{first.program}, {recorded}{world_size:,} {noun}",
        findings=_merged_findings(reports, world_size),
        source=source,
        checked=tuple(_shared(reports, world_size, lambda report: "; ".join(report.checked))),
        suppressed=max(report.suppressed for _, report in reports),
        known=max(report.known for _, report in reports),
        disclosures=(*_shared_sentences(reports, world_size), *disclosures),
        raised=" and ".join(
            f"{kind} on {rank_words(ranks, reports[0][0], world_size)}" for kind, ranks in raised.items()
        )
        or None,
        exited_with_error=any(report.exited_with_error for _, report in reports),
        hang=hang,
        is_empty=all(report.is_empty for _, report in reports),
    )


def rank_words(numbers: Sequence[int], rank: Rank, world_size: int | None = None) -> str:
    """``all 4 ranks``, ``rank 1``, ``ranks 0, 2-5``; `rank` is one of them."""
    world_size = rank.world_size if world_size is None else world_size
    if len(numbers) == world_size > 1:
        return f"all {world_size:,} {_kind(rank, world_size)}"
    if len(numbers) == 1:
        return f"{rank.kind} {numbers[0]}"
    return f"{_kind(rank, 2)} {_ranges(numbers)}"


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    more = f" and {counted(len(words) - MAX_GROUPS, 'more group')}" if len(words) > MAX_GROUPS else ""
    return ", ".join(words[:MAX_GROUPS]) + more


def _kind(rank: Rank, count: int) -> str:
    return rank.kind if count == 1 else "processes" if rank.is_in_order else "ranks"


def _merged_findings(reports: Sequence[tuple[Rank, Report]], world_size: int) -> tuple[Finding, ...]:
    """Findings of the same cause at the same lines are one; the figures are those of the first rank that has it."""
    found: dict[Hashable, list[tuple[Rank, Finding]]] = {}
    for rank, report in reports:
        seen: dict[Hashable, int] = {}
        for finding in report.findings:
            what = _identity(finding)
            seen[what] = seen.get(what, 0) + 1
            found.setdefault((what, seen[what]), []).append((rank, finding))
    merged = [_merged(each, world_size) for each in found.values()]
    return tuple(sorted(merged, key=lambda finding: SEVERITIES.index(finding.severity)))


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
        yield f"on each of {world_size:,} {_kind(reports[0][0], world_size)}: {next(iter(groups))}"
        return
    for text, ranks in list(groups.items())[:MAX_GROUPS]:
        yield f"{rank_words([each.number for each in ranks], ranks[0], world_size)}: {text}"
    if len(groups) > MAX_GROUPS:
        yield f"and {counted(len(groups) - MAX_GROUPS, 'group')} more of ranks"
