"""Findings as commands that GitHub Actions turn into annotations beside the source lines.

The format: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from gradviz.analysis.check.report import Report, skipped_rules_in_words
from gradviz.analysis.finding import Finding
from gradviz.safe_text import printable

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def findings_github(report: Report) -> str:
    """One line for each finding, and for each rule that could not run."""
    blind = (
        f"::notice title=not looked for on this torch::{_escaped(words)}" for words in skipped_rules_in_words(report)
    )
    return "".join(f"{line}\n" for line in (*map(_command, report.findings), *blind))


def _command(finding: Finding) -> str:
    properties = {"title": f"{finding.code} {finding.cause}"}
    if finding.location is not None:
        properties = {"file": finding.location.file, "line": str(finding.location.line), **properties}
    text = finding.in_sentences
    listed = ",".join(f"{name}={_escaped(value, also=':,')}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {listed}::{_escaped(text)}"


def _escaped(text: str, *, also: str = "") -> str:
    text = printable(text)
    for sign in "%\n" + also:
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text
