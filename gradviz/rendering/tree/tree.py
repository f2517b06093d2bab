"""The graph as a tree of text, from the loss down to its inputs, for terminals, logs and pipes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from gradviz.rendering.formats import Subject
from gradviz.rendering.look.legend_words import role_words
from gradviz.rendering.tree.cells import Cells, CellWriter, matching_items
from gradviz.rendering.tree.column_widths import Line, Span, Table
from gradviz.rendering.tree.columns import Column, columns_named
from gradviz.rendering.tree.outline import outline
from gradviz.rendering.tree.signs import ABOVE, BELOW, MATCH, ROLE_SIGNS
from gradviz.rendering.tree.styled_text import plain, written
from gradviz.rendering.words.common_words import counted, listed
from gradviz.rendering.words.source_links import editor_template
from gradviz.safe_text import one_line

WIDEST = 120
"""If no width is given, rows are as wide as their words, up to this."""


@dataclass(frozen=True, slots=True)
class TreeRenderer:
    """Renders a subject as a tree; after a search, only the matches and where they are.

    Raises `BadInput` for an unknown column or editor.
    """

    width: int | None = None
    """Columns of the terminal; None for as many as the words need, up to `WIDEST`."""
    color: bool = False
    ascii: bool = False
    """Plain ASCII, for terminals that can show nothing else."""
    columns: str | None = None
    """Which columns, in which order: see `columns_named`."""
    reverse: bool = False
    """Leaves first, in the direction of the data."""
    editor: str | None = None
    """With `color`, source lines are links that open in this editor: a name or a template, see `source_links`."""
    _columns: tuple[Column, ...] = field(init=False, repr=False)
    _link_template: str | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_columns", columns_named(self.columns))
        object.__setattr__(self, "_link_template", editor_template(self.editor) if self.editor else None)

    def render(self, subject: Subject) -> str:
        """The whole tree, with notes and errors below it."""
        matches = None if subject.found is None else matching_items(subject.view, subject.found)
        rows = outline(subject.graph, subject.view, upside_down=self.reverse, wanted=matches)
        writer = CellWriter(subject, self._columns, matches or frozenset(), self._link_template)
        below = [*(row.above if row.kind in ("item", "reference") else row.lines for row in rows[1:]), ""]
        # Without any row, which a graph without nodes has, there is still the last entry of `below`.
        cells = [cell for row, lines in zip(rows, below, strict=False) for cell in writer.cells(row, lines)]
        width = self.width or WIDEST
        table = Table(cells, self._columns, width, has_gutter=matches is not None)
        remarks = [*_legend(subject, cells, width), *_remarks(subject, table, width, self.reverse)]
        return written([*table.lines(), [], *remarks], color=self.color, ascii=self.ascii)


def _legend(subject: Subject, cells: Sequence[Cells], width: int) -> Iterator[Line]:
    """The meaning of the signs that appear, as many on a line as fit."""
    meanings = {sign: role_words(role, subject) for role, sign in ROLE_SIGNS.items()}
    meanings |= {BELOW: "shown further down", ABOVE: "shown further up", MATCH: "match"}
    shown = {cell.sign for cell in cells} | ({MATCH} if any(cell.is_match for cell in cells) else set())
    line: Line = []
    for sign, words in meanings.items():
        if sign not in shown:
            continue
        entry = [Span("  " if line else ""), Span(sign.character, sign.style), Span(f" {words}", "italic")]
        if line and len(plain([*line, *entry])) > width:
            yield line
            line, entry = [], entry[1:]
        line += entry
    yield line


def _remarks(subject: Subject, table: Table, width: int, reverse: bool) -> Iterator[Line]:
    """The facts that the tree does not show: the program's error, what is folded, what could not be recorded."""
    capture = subject.capture
    direction = "from the inputs down to the loss" if reverse else "from the loss down to its inputs"
    size = counted(len(subject.graph.nodes), "autograd node") + f" in {one_line(capture.title)}, {direction}"
    yield from ([Span(line)] for line in wrap(size, max(width, 20)))
    if subject.found is not None:
        rows = sum(cell.is_match for cell in table.cells)
        yield [Span(f"{counted(len(subject.found), 'match', 'matches')} in {counted(rows, 'row')}", "bold")]
    remarks = [("error", f"{capture.error.type_name}: {capture.error.message}")] if capture.error else []
    remarks += [("note", sentence) for sentence in subject.view.notes]
    if table.without_room:
        remarks.append(("note", f"{width} columns have no room for {listed(table.without_room)} (--width, --columns)"))
    remarks += [("not recorded", sentence) for sentence in capture.disclosures]
    for word, sentence in remarks:
        first, *others = wrap(one_line(f"{word}: {sentence}"), max(width, 20), subsequent_indent="  ")
        yield [Span(word, _WORD_STYLES[word]), Span(first.removeprefix(word))]
        yield from ([Span(line)] for line in others)


_WORD_STYLES = {"error": "bold red", "note": "bold", "not recorded": "bold magenta"}
