"""The chip on an item: what a check found about it, or else that its gradient is zero, missing, NaN or infinite."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Literal

from gradviz.graph.node_findings import Verdict
from gradviz.rendering.words.gradient_marks import GradientMark, MarkLevel, gradient_mark
from gradviz.rendering.words.subject_words import SubjectWords
from gradviz.view.model import Item

_LEVELS: dict[Literal["error", "warning", "note"], MarkLevel] = {
    "error": "alarm", "warning": "warning", "note": "quiet",
}  # fmt: skip


def item_mark(subject: SubjectWords, item: Item) -> GradientMark | None:
    """The mark of an item; a finding explains what the gradient only shows, so it stands first."""
    findings = findings_about(subject, item)
    worst = worst_finding(subject, item)
    if worst is None:
        return gradient_mark(subject, item)
    others = len({finding.code for finding in findings}) - 1
    inside = " inside" if item.kind == "box" else ""
    more = f" +{others}" if others else ""
    return GradientMark(f"{worst.code} {worst.cause}{inside}{more}", _LEVELS[worst.severity], worst.message)


def worst_finding(subject: SubjectWords, item: Item) -> Verdict | None:
    """The gravest of what was found about an item."""
    return min(findings_about(subject, item), key=lambda finding: list(_LEVELS).index(finding.severity), default=None)


def findings_on(subject: SubjectWords, item: Item) -> Iterator[str]:
    """What was found, in sentences for the small print."""
    for finding in findings_about(subject, item):
        yield f"{finding.severity} {finding.code} {finding.cause}: {finding.message}"


def findings_about(subject: SubjectWords, item: Item) -> list[Verdict]:
    """What was found about the nodes of an item, and about cuts that it hides."""
    if item.kind == "cut":
        return [subject.graph.ghost_edges[item.ghost or 0].finding]
    if item.is_open:
        return []
    on_nodes = (subject.findings.get(node, ()) for node in item.nodes) if subject.findings else ()
    return [*chain.from_iterable(on_nodes), *subject.hidden_cuts.get(item.id, ())]
