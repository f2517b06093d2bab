"""The text that explains which gradient one parameter gets, and why."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from gradviz.analysis.check.why import Answer
from gradviz.analysis.finding import Location, SourceText, text_at
from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.reports.terminal_tables import facts_table, printed


def why_text(answer: Answer, sources: SourceText, width: int, *, color: bool) -> str:
    """The answer, with the source lines that it names."""
    return printed(_parts(answer, sources), width, color=color)


def _parts(answer: Answer, sources: SourceText) -> Iterator[RenderableType]:
    yield Text.assemble((answer.name, "bold"), f" {answer.verdict}")
    if answer.location is not None:
        yield Padding(Text(_line(answer.location, sources)), (0, 0, 0, 4))
    yield facts_table((title, fact if isinstance(fact, str) else _line(fact, sources)) for title, fact in answer.facts)


def _line(location: Location, sources: SourceText) -> str:
    source = text_at(sources, location).strip()
    words = line_words_of(location.file, location.line)
    return f"{words}: {source}" if source else words
