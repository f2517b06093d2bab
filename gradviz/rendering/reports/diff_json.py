"""The difference of two runs as JSON, and as annotations for GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gradviz.analysis.diff.difference import Change, Difference, Origin, Where
from gradviz.capture.encoding import json_text
from gradviz.rendering.reports.diff_text import distance_words
from gradviz.rendering.reports.findings.github import escaped


class DiffDocument(msgspec.Struct, frozen=True):
    """What ``gradviz diff --json`` prints."""

    format: str
    version: int
    difference: Difference


def diff_json(difference: Difference) -> str:
    """The JSON text; an infinite distance is null there, as JSON has no other word for it."""
    return json_text(DiffDocument("gradviz diff", 1, difference))


def diff_schema() -> dict[str, Any]:
    """JSON Schema of `DiffDocument`."""
    return msgspec.json.schema(DiffDocument)


def diff_github(difference: Difference) -> str:
    """One line for the answer at the line where it began, and one for each difference in structure."""
    return "".join(f"{line}\n" for line in _annotations(difference))


def _annotations(found: Difference) -> Iterator[str]:
    if found.first is None:
        yield f"::notice title=gradviz diff::{escaped(found.sentence)}"
    else:
        yield _annotation("error", found.first.b or found.first.a, _words(found, found.first))
    for change in found.changes:
        yield _annotation("notice" if change.is_cosmetic else "warning", _location(change), change.what)


def _words(found: Difference, origin: Origin) -> str:
    apart = f" Results are {distance_words(origin.distance)} apart." if origin.distance else ""
    reason = f" Reason: {origin.reason}." if origin.reason else ""
    return f"{found.sentence}{apart}{reason}"


def _location(change: Change) -> Where | None:
    return change.b or change.a


def _annotation(command: str, where: Where | None, text: str) -> str:
    properties = {"title": "gradviz diff"}
    if where is not None and where.file is not None:
        properties = {"file": where.file, "line": str(where.line), **properties}
    listed = ",".join(f"{name}={escaped(value, also=':,')}" for name, value in properties.items())
    return f"::{command} {listed}::{escaped(text)}"
