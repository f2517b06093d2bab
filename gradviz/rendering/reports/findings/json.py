"""Findings as JSON, for programs."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from gradviz.analysis.check.checker import SkippedRule
from gradviz.analysis.check.report import Report
from gradviz.analysis.check.training_facts import TrainingFact
from gradviz.analysis.finding import Finding, NodeAt, Severity, Symptom
from gradviz.capture.encoding import json_text
from gradviz.graph.model import Attribute

CHECK_VERSION = 1


class FindingRecord(Struct, frozen=True):
    """One finding. Every field is always present; unknown values are null."""

    code: str
    cause: str
    symptom: Symptom
    severity: Severity
    message: str
    why: str
    file: str | None
    line: int | None
    source: str | None
    symptom_file: str | None
    symptom_line: int | None
    op: str | None
    tensors: tuple[str, ...]
    nodes: tuple[NodeAt, ...]
    path: tuple[str, ...]
    evidence: dict[str, Attribute]
    fix: str
    changed_line: str | None
    ranks: tuple[int, ...]
    """In the report of a job: the ranks that have it."""


class CheckDocument(Struct, frozen=True):
    """What ``gradviz check --format json`` prints."""

    schema: str
    version: int
    program: str
    findings: tuple[FindingRecord, ...]
    """The most severe first."""
    checked: tuple[str, ...]
    trained: tuple[TrainingFact, ...]
    """What was trained, to compare with what was meant; only where nothing worse than a note was found."""
    rules: tuple[str, ...]
    suppressed: int
    known: int
    disclosures: tuple[str, ...]
    not_looked_for: tuple[SkippedRule, ...]
    """Rules that had nothing to look at on the torch of the recording, and why."""
    hang: tuple[str, ...]
    """Of a job in which no rank got on: where each rank stood, and why."""


def findings_json(report: Report) -> str:
    """The report as a `CheckDocument`."""
    document = CheckDocument(
        "gradviz check",
        CHECK_VERSION,
        report.program,
        tuple(_record(report, finding) for finding in report.findings),
        report.checked,
        report.trained,
        report.rules,
        report.suppressed,
        report.known,
        report.disclosures,
        report.not_looked_for,
        report.hang,
    )
    return json_text(document)


def check_schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    return msgspec.json.schema(CheckDocument)


def _record(report: Report, finding: Finding) -> FindingRecord:
    location, symptom = finding.location, finding.symptom_location
    return FindingRecord(
        finding.code,
        finding.cause,
        finding.symptom,
        finding.severity,
        finding.message,
        finding.why,
        location.file if location else None,
        location.line if location else None,
        report.line_at(location) or None,
        symptom.file if symptom else None,
        symptom.line if symptom else None,
        finding.op,
        finding.tensors,
        finding.nodes,
        finding.path,
        finding.evidence,
        finding.fix,
        finding.changed_line,
        finding.ranks,
    )
