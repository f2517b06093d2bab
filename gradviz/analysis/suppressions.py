"""Findings that the reader's source asks to be left out: ``# gradviz: ignore[GV101]``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradviz.analysis.finding import Finding, text_at
from gradviz.analysis.rule import is_called
from gradviz.capture.capture import Capture

_COMMENT = re.compile(r"#\s*gradviz:\s*ignore(?:\[([^\]]*)\])?")


def without_suppressed(capture: Capture, findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Those to show, and those that a comment on their line of cause or of symptom leaves out."""
    shown: list[Finding] = []
    hidden: list[Finding] = []
    for finding in findings:
        (hidden if _is_suppressed(capture, finding) else shown).append(finding)
    return shown, hidden


def _is_suppressed(capture: Capture, finding: Finding) -> bool:
    return any(_says(text_at(capture.sources, place), finding) for place in (finding.place, finding.symptom_place))


def _says(line: str, finding: Finding) -> bool:
    """``ignore`` alone stands for all rules; in brackets are codes, beginnings of codes, or names."""
    found = _COMMENT.search(line)
    if found is None:
        return False
    if found[1] is None:
        return True
    words = {word.strip() for word in found[1].split(",")} - {""}
    return any(is_called(finding.code, finding.cause, word) for word in words)
