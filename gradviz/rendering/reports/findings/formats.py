"""The visible table of formats for findings."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from gradviz.errors import check_choice

if TYPE_CHECKING:
    # The table below is read by ``gradviz check --help``, which loads nothing else.
    from gradviz.analysis.check.report import Report


class FindingRenderer(Protocol):
    """Turns a report into text that programs read."""

    def __call__(self, report: Report) -> str:
        """The whole text, with a line end."""
        ...


@dataclass(frozen=True)
class FindingFormat:
    """How a format is called, and where its function lives."""

    name: str
    location: str
    summary: str

    @property
    def renderer(self) -> FindingRenderer:
        """Its function, imported now."""
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
"""Besides ``terminal``, which is for people."""


def finding_format(name: str) -> FindingFormat:
    """The format of that name; raises `BadInput` where there is none."""
    by_name = {each.name: each for each in FINDING_FORMATS}
    check_choice("format", name, ("terminal", *by_name))
    return by_name[name]
