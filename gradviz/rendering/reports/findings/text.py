"""Findings for people: verdict, source line, cause, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from gradviz.analysis.check.report import Report, skipped_rules_in_words
from gradviz.analysis.finding import SEVERITIES, Finding, Location, Severity
from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.reports.findings.evidence import evidence_words
from gradviz.rendering.reports.terminal_tables import facts_table, printed, wrapped
from gradviz.rendering.words.common_words import counted, listed
from gradviz.safe_text import one_line

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
MAX_TENSORS = 6


@dataclass(frozen=True, slots=True)
class FindingsText:
    """The appearance of the report in a terminal."""

    width: int
    color: bool = False

    def text(self, report: Report) -> str:
        """The whole report."""
        return printed(_parts(report, self.width), self.width, color=self.color)


def _parts(report: Report, width: int) -> Iterator[RenderableType]:
    yield Text(f"{one_line(report.program)}: {_summary(report)}", style="bold")
    for finding in report.findings:
        yield Text()
        yield from _finding(report, finding)
    if report.hang:
        yield Text()
    for sentence in report.hang:
        yield wrapped(sentence, width, "")
    if report.trained:
        yield Text()
        yield wrapped("As it ran, to compare with what you meant (that, gradviz cannot know):", width, "")
        yield facts_table((fact.title, _at(fact.location).strip(), fact.text) for fact in report.trained)
    yield Text()
    if report.checked:
        yield Text("checked: " + "; ".join(report.checked), style="dim")
    for count, reason in ((report.suppressed, "by comments in the source"), (report.known, "in the baseline")):
        if count:
            yield Text(f"left out: {counted(count, 'finding')} {reason}", style="dim")
    for rules in skipped_rules_in_words(report):
        yield Text(f"not looked for on this torch: {rules}", style="yellow")
    for sentence in report.disclosures:
        yield Text(f"not recorded: {sentence}", style="yellow")


def _summary(report: Report) -> str:
    counts = {severity: sum(each.severity == severity for each in report.findings) for severity in SEVERITIES}
    said = [counted(count, severity) for severity, count in counts.items() if count]
    if report.hang:
        return ", ".join(["it hung: no rank got on", *said])
    if said:
        alarms = [each for each in report.findings if each.is_alarm]
        is_told = any(each.symptom == "raises" for each in alarms)
        if report.raised and report.raised != KeyboardInterrupt.__name__ and not is_told:
            may_be_explained = alarms or report.known or report.suppressed
            said.append(f"and it raised {report.raised}{'' if may_be_explained else ', which no rule explains'}")
        return ", ".join(said)
    if report.raised and not report.checked:
        return f"it raised {report.raised} before any backward(): there was nothing to check"
    found = "nothing new found" if report.known or report.suppressed else "nothing wrong found"
    if report.disclosures or report.not_looked_for:
        found += " in what was recorded"
    if report.raised == KeyboardInterrupt.__name__:
        return f"{found} before it was interrupted"
    if report.raised:
        return f"it raised {report.raised}, which no rule explains"
    if report.is_empty:
        return "nothing to check"
    return f"{found} before it exited with an error code of its own" if report.exited_with_error else found


def _finding(report: Report, finding: Finding) -> Iterator[RenderableType]:
    head = Text.assemble(
        (finding.severity, _STYLES[finding.severity]),
        f" {finding.code} {finding.cause}",
        (_at(finding.location), "bold"),
    )
    yield head
    yield Padding(Text(finding.message), (0, 0, 0, 2))
    source = report.line_at(finding.location).strip()
    if source and finding.location is not None:
        yield Padding(Text.assemble((f"{finding.location.line} | ", "dim"), source), (0, 0, 0, 4))
    yield facts_table(_rows(report, finding))


def _rows(report: Report, finding: Finding) -> Iterator[tuple[str, str]]:
    if finding.tensors:
        yield "tensors", listed(finding.tensors, MAX_TENSORS)
    if finding.why:
        yield "why", finding.why
    if finding.symptom_location is not None:
        source = report.line_at(finding.symptom_location).strip()
        yield "shows", _at(finding.symptom_location).strip() + (f": {source}" if source else "")
    if finding.path:
        yield "path", " > ".join(finding.path)
    if finding.evidence:
        yield "evidence", evidence_words(finding.evidence)
    if finding.fix:
        yield "next", finding.fix
    if finding.changed_line is not None:
        yield "", finding.changed_line.strip()


def _at(location: Location | None) -> str:
    return "" if location is None else f" {line_words_of(location.file, location.line)}"
