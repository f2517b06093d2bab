"""Findings of the check that only one of two recordings has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import chosen_rules
from gradviz.analysis.check.installed_rules import all_rules
from gradviz.analysis.check.report import Report, check_report
from gradviz.analysis.diff.difference import Change, Where
from gradviz.analysis.finding import Finding
from gradviz.capture.capture import Capture


def are_comparable(a: Capture, b: Capture) -> bool:
    """Whether both have the log of torch calls, without which most rules find nothing."""
    return a.calls is not None and b.calls is not None


def findings_changed(a: Capture, b: Capture) -> Iterator[Change]:
    """Those that are gone in B, then those that are new there."""
    if not are_comparable(a, b):
        return
    reports = _report(a), _report(b)
    gone, new = list(reports[0].findings), list(reports[1].findings)
    # The same line first; then the same rule, as the line may be written differently.
    for key in (_by_line, _by_rule):
        gone, new = _unmatched(gone, new, reports, key)
    for finding in gone:
        yield Change("finding", f"finding gone in B: {_words(finding)}", _where(finding, reports[0]))
    for finding in new:
        yield Change("finding", f"new finding in B: {_words(finding)}", None, _where(finding, reports[1]))


def _report(capture: Capture) -> Report:
    known = all_rules()
    return check_report(Case(capture), chosen_rules(known.rules, (), ()), besides=known.unusable)


def _by_line(finding: Finding, report: Report) -> Hashable:
    return finding.code, report.line_at(finding.location).strip()


def _by_rule(finding: Finding, report: Report) -> Hashable:
    return finding.code


def _unmatched(
    gone: list[Finding],
    new: list[Finding],
    reports: tuple[Report, Report],
    key: Callable[[Finding, Report], Hashable],
) -> tuple[list[Finding], list[Finding]]:
    waiting: defaultdict[Hashable, list[Finding]] = defaultdict(list)
    for finding in reversed(new):
        waiting[key(finding, reports[1])].append(finding)
    left = []
    for finding in gone:
        same = waiting[key(finding, reports[0])]
        if same:
            same.pop()
        else:
            left.append(finding)
    return left, [finding for group in waiting.values() for finding in reversed(group)]


def _words(finding: Finding) -> str:
    return f"{finding.code} {finding.cause}: {finding.message}"


def _where(finding: Finding, report: Report) -> Where | None:
    if finding.location is None:
        return None
    source = report.line_at(finding.location).strip()
    return Where(finding.op or finding.cause, None, finding.location.file, finding.location.line, source)
