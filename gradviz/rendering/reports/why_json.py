"""The gradient that one parameter or variable gets, and why, as JSON for programs."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from gradviz.analysis.check.why import Answer, AnswerKind
from gradviz.analysis.finding import Location, SourceText, text_at
from gradviz.capture.encoding import json_text

WHY_VERSION = 1
"""Increased when a program that reads the older form would misread the newer one.

1   first form
"""


class Said(Struct, frozen=True):
    """One fact: words, or a source line."""

    title: str
    """``optimizer``, ``used``, ``path``; for a finding its severity."""
    text: str
    """For a line its source text; empty if it is not known."""
    file: str | None = None
    line: int | None = None


class WhyDocument(Struct, frozen=True):
    """What ``gradviz check --why NAME --format json`` prints."""

    schema: str
    version: int
    program: str
    name: str
    """The full name."""
    kind: AnswerKind
    verdict: str
    decided_at: Said | None
    """The line that decides the answer."""
    facts: tuple[Said, ...]


def why_json(answer: Answer, program: str, sources: SourceText) -> str:
    """The answer as a `WhyDocument`."""
    document = WhyDocument(
        "gradviz why",
        WHY_VERSION,
        program,
        answer.name,
        answer.kind,
        answer.verdict,
        None if answer.location is None else _said("line", answer.location, sources),
        tuple(_said(title, said, sources) for title, said in answer.facts),
    )
    return json_text(document)


def why_schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    return msgspec.json.schema(WhyDocument)


def _said(title: str, said: str | Location, sources: SourceText) -> Said:
    if isinstance(said, str):
        return Said(title, said)
    return Said(title, text_at(sources, said).strip(), said.file, said.line)
