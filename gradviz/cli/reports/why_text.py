"""What one parameter gets in backward, and why, for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradviz.analysis.check.why import Answer
from gradviz.analysis.finding import Place, SourceText, text_at
from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.text.printing import printed


def why_text(answer: Answer, sources: SourceText, width: int, *, color: bool) -> str:
    """The answer, with the lines that it names."""
    return printed(_parts(answer, sources), width, color=color)


def _parts(answer: Answer, sources: SourceText) -> Iterator[RenderableType]:
    yield Text.assemble((answer.name, "bold"), f" {answer.verdict}")
    if answer.place is not None:
        yield Padding(Text(_line(answer.place, sources)), (0, 0, 0, 4))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for title, said in answer.facts:
        table.add_row(title, Text(said if isinstance(said, str) else _line(said, sources)))
    yield Padding(table, (0, 0, 0, 2))


def _line(place: Place, sources: SourceText) -> str:
    source = text_at(sources, place).strip()
    words = line_words_of(place.file, place.line)
    return f"{words}: {source}" if source else words
