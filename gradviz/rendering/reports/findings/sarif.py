"""Findings as SARIF 2.1.0, which code scanning services read.

The format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gradviz._version import __version__
from gradviz.analysis.check.report import Report, skipped_rules_in_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rules import ON_REQUEST, RULES
from gradviz.capture.encoding import json_text
from gradviz.safe_text import printable

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def findings_sarif(report: Report) -> str:
    """A log with one run."""
    known = {rule.code: rule for rule in (*RULES, *ON_REQUEST)}
    names = {finding.code: finding.cause for finding in report.findings}
    rules = [
        {"id": code, "name": name, **({"shortDescription": {"text": known[code].headline()}} if code in known else {})}
        for code, name in sorted(names.items())
    ]
    driver = {"name": "gradviz", "semanticVersion": __version__, "rules": rules}
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                # Code scanning refuses several runs at once if their ids are equal, and closes the findings of an
                # earlier run with the same id. What is after the last slash would name the single run.
                "automationDetails": {"id": f"gradviz/{printable(_uri(report.program))}/"},
                "results": [_result(finding) for finding in report.findings],
                "invocations": [_invocation(report)],
            }
        ],
    }
    return json_text(log)


def _invocation(report: Report) -> dict[str, Any]:
    """That the examination ran, and what it could not look for."""
    blind = [
        {"level": "note", "message": {"text": f"not looked for on this torch: {words}"}}
        for words in skipped_rules_in_words(report)
    ]
    return {"executionSuccessful": True, "toolExecutionNotifications": blind}


def _result(finding: Finding) -> dict[str, Any]:
    text = printable(finding.in_sentences)
    result: dict[str, Any] = {"ruleId": finding.code, "level": finding.severity, "message": {"text": text}}
    if finding.location is not None:
        result["locations"] = [_location(finding.location)]
    if finding.symptom_location is not None:
        result["relatedLocations"] = [{**_location(finding.symptom_location), "message": {"text": "where it shows"}}]
    return result


def _location(location: Location) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(location.file)},
            "region": {"startLine": max(1, location.line)},
        }
    }


def _uri(file: str) -> str:
    """Relative to the current folder if the file is inside it, so that services find it in a repository."""
    try:
        return Path(os.path.relpath(file)).as_posix() if Path(file).is_relative_to(Path.cwd()) else Path(file).as_uri()
    except ValueError:
        return file.replace("\\", "/")
