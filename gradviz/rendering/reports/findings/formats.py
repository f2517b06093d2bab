"""The table of formats for findings."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from gradviz.errors import check_choice

if TYPE_CHECKING:
    # ``gradviz check --help`` reads the table below and loads nothing else.
    from gradviz.analysis.check.report import Report


class FindingRenderer(Protocol):
    """Turns a report into text for programs."""

    def __call__(self, report: Report) -> str:
        """The whole text, with a line feed at its end."""
        ...


@dataclass(frozen=True)
class FindingFormat:
    """The name of a format, and where its function is."""

    name: str
    location: str
    summary: str

    @property
    def renderer(self) -> FindingRenderer:
        """Its function, imported only here."""
        module, _, function = self.location.partition(":")
        return cast("FindingRenderer", getattr(import_module(module), function))


FINDING_FORMATS = (
    FindingFormat(
        "json", "gradviz.rendering.reports.findings.json:findings_json", "for programs; see gradviz schema check"
    ),
    FindingFormat(
        "sarif", "gradviz.rendering.reports.findings.sarif:findings_sarif", "for code scanning (SARIF 2.1.0)"
    ),
    FindingFormat(
        "github", "gradviz.rendering.reports.findings.github:findings_github", "annotations of GitHub Actions"
    ),
    FindingFormat(
        "junit", "gradviz.rendering.reports.findings.junit:findings_junit", "a test report for build servers"
    ),
)
"""In addition to ``terminal``, which is for people."""


def finding_format(name: str) -> FindingFormat:
    """The format with that name; raises `BadInput` if there is none."""
    by_name = {each.name: each for each in FINDING_FORMATS}
    check_choice("format", name, ("terminal", *by_name))
    return by_name[name]
