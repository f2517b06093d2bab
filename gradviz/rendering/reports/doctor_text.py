"""What ``gradviz doctor`` found, for a terminal and for bug reports: what does not work comes first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gradviz.graph.number_words import counted
from gradviz.rendering.reports.doctor_document import CapabilityResult, DoctorDocument, Part, State
from gradviz.rendering.reports.terminal_tables import printed, wrapped
from gradviz.rendering.tree.signs import Sign

STATE_SIGNS: dict[State, Sign] = {
    "works": Sign("✓", "+", "green"),
    "absent": Sign("·", "."),
    "limited": Sign("!", "!", "bold yellow"),
    "problem": Sign("✗", "x", "bold red"),
}

Row = tuple[State, str, str]


def doctor_text(document: DoctorDocument, width: int, *, color: bool = False, only_ascii: bool = False) -> str:
    """The text, in `width` columns."""
    parts: list[RenderableType] = [wrapped(_verdict(document), width, "bold")]
    for title, rows in (("", _wrong(document)), *_sections(document)):
        if rows:
            parts += [Text(), *([Text(title, style="bold")] if title else []), _table(rows, only_ascii)]
    return printed(parts, width, color=color)


def _verdict(document: DoctorDocument) -> str:
    limits = f" and {counted(document.limits, 'limit')}" * bool(document.limits)
    if document.problems:
        return counted(document.problems, "problem") + limits
    if any(each.name == "torch" and each.state == "absent" for each in document.versions):
        return f"torch is not installed{limits}: recordings can be shown, nothing can be recorded"
    return f"gradviz works here, with {counted(document.limits, 'limit')}" if limits else "no problem found"


def _wrong(document: DoctorDocument) -> list[Row]:
    """Problems, then limits, in full; below, each is one line of its section."""
    parts = [(each.state, each.name, _part_in_full(each)) for each in (*document.versions, *document.machine)]
    found = [*parts, *((each.state, each.name, _capability_in_full(each)) for each in document.capabilities)]
    return [row for state in ("problem", "limited") for row in found if row[0] == state]


def _part_in_full(part: Part) -> str:
    return _phrases(part.found, part.lost, part.remedy)


def _capability_in_full(result: CapabilityResult) -> str:
    return _phrases(
        result.lost and f"lost: {result.lost}",
        result.instead and f"instead: {result.instead}",
        f"seen to work with torch {result.seen}",
    )


def _phrases(*phrases: str) -> str:
    return "; ".join(filter(None, phrases))


def _sections(document: DoctorDocument) -> Iterator[tuple[str, list[Row]]]:
    yield "versions", [(each.state, each.name, _short(each)) for each in document.versions]
    yield "on this machine", [(each.state, each.name, _short(each)) for each in document.machine]
    working = sum(each.state == "works" for each in document.capabilities)
    title = f"taken from torch's insides: {working} of {len(document.capabilities)} work"
    yield title, [(each.state, each.name, each.used_for) for each in document.capabilities]


def _short(part: Part) -> str:
    return _part_in_full(part) if part.state == "absent" else part.found


def _table(rows: Iterable[Row], only_ascii: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=max(map(len, STATE_SIGNS)) + 2)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for state, name, words in rows:
        sign = STATE_SIGNS[state]
        mark = Text(f"{sign.ascii if only_ascii else sign.character} {state}", style=sign.style)
        table.add_row(mark, Text(name), Text(words))
    return table
