"""The result of a check in Python: findings as data, and as the text that ``gradviz check`` prints."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gradviz.errors import BadInput, check_choice

if TYPE_CHECKING:
    from gradviz.analysis.check.installed_rules import RuleSet
    from gradviz.analysis.check.report import Report
    from gradviz.analysis.finding import Finding, Severity
    from gradviz.capture.capture import Capture

_WIDTH = 100


class Checked:
    """The findings of a check. It prints as text, and is true if nothing is wrong."""

    def __init__(self, report: Report) -> None:
        self.report = report
        """Everything that the check reports."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the gravest first."""
        return self.report.findings

    def of(self, program: str) -> Checked:
        """The same result with this program name, in place of the name of the recorded file."""
        from msgspec.structs import replace

        return Checked(replace(self.report, program=program))

    def at_least(self, severity: Severity = "warning") -> tuple[Finding, ...]:
        """The findings of this severity or graver; raises `BadInput` for an unknown severity."""
        from gradviz.analysis.finding import SEVERITIES, is_at_least

        check_choice("severity", severity, SEVERITIES)
        return tuple(finding for finding in self.findings if is_at_least(finding.severity, severity))

    def text(self, *, width: int = _WIDTH, color: bool = False) -> str:
        """The text that ``gradviz check`` prints."""
        from gradviz.rendering.reports.findings.text import FindingsText

        return FindingsText(width, color).text(self.report)

    def __bool__(self) -> bool:
        return not self.at_least()

    def __str__(self) -> str:
        width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else _WIDTH
        return self.text(width=width).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)


def selected_rules(select: Sequence[str] = (), ignore: Sequence[str] = (), *, model_is_given: bool = False) -> RuleSet:
    """The rules with these names or codes; for a given model, also the rule that each parameter gets a gradient.

    Raises `BadInput` for a name or code of no rule.
    """
    from gradviz.analysis.check.checker import chosen_rules
    from gradviz.analysis.check.installed_rules import RuleSet, all_rules
    from gradviz.analysis.rules.parameters.parameter_without_gradient import GivenParameterWithoutGradient

    known, wanted = all_rules(), _words("select", select)
    requested = [GivenParameterWithoutGradient] if model_is_given and not wanted else []
    rules = chosen_rules(known.rules, wanted, _words("ignore", ignore), requested)
    return RuleSet(tuple(rules), known.unusable)


def checked(capture: Capture, rules: RuleSet) -> Checked:
    """Run the rules on a capture."""
    from gradviz.analysis.case import Case
    from gradviz.analysis.check.report import check_report

    return Checked(check_report(Case(capture), rules.rules, besides=rules.unusable))


def marked(capture: Capture, rules: RuleSet) -> tuple[Capture, tuple[str, ...]]:
    """The capture with findings on its graphs, for pictures; and a sentence for each alarm."""
    from gradviz.analysis.check.marked_findings import finding_notes, with_findings

    findings = checked(capture, rules).findings
    return with_findings(capture, findings), finding_notes(findings)


def _words(name: str, given: Iterable[str]) -> tuple[str, ...]:
    words = (given,) if isinstance(given, str) else tuple(given)
    for word in words:
        if not isinstance(word, str):
            raise BadInput(f"{name}={word!r} is not the name or code of a rule", hint='such as "GV101" or "detached"')
    return words
