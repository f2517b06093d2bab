"""The words of each row of the tree, before the widths of the columns are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gradviz.graph.query.find_by_expression import Found
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.palette import failed_item, role_of
from gradviz.rendering.tree.columns import Column, RowFacts
from gradviz.rendering.tree.rows import Row
from gradviz.rendering.tree.signs import ABOVE, BELOW, FAILED, FLAG_STYLES, MATCH, OMITTED, ROLE_SIGNS, Sign
from gradviz.rendering.words.common_words import counted
from gradviz.rendering.words.item_words import ItemText, ItemTexts
from gradviz.rendering.words.source_links import source_link
from gradviz.safe_text import one_line
from gradviz.view.model import Item, View


@dataclass(frozen=True, slots=True)
class Cells:
    """The words of one row."""

    lines: str
    title: str
    sign: Sign | None = None
    """Before the title; a title without a sign runs over all columns."""
    columns: tuple[str, ...] = ()
    link: str | None = None
    """The link of the source line."""
    style: str = ""
    is_match: bool = False
    gutter: Sign | None = None
    """The sign before the lines, in a table with a gutter."""
    shorter_titles: tuple[str, ...] = ()
    """Used if the title does not fit; the longest first."""
    runs_over_columns: bool = False
    """The title also uses the space of the columns, because the row has no other words."""

    @property
    def first(self) -> str:
        """The words in the column of the operation."""
        return f"{self.lines}{self.sign.character} {self.title}" if self.sign else self.lines + self.title


class CellWriter:
    """Finds the words for the rows of one subject."""

    def __init__(
        self, subject: Subject, columns: Sequence[Column], matches: frozenset[int], link_template: str | None
    ) -> None:
        self._subject, self._columns, self._matches, self._template = subject, columns, matches, link_template
        self._facts = subject.facts
        self._texts = ItemTexts(self._facts)
        self._failed = failed_item(subject.view, subject.graph)
        self._tells_parameters = any(column.name == "params" for column in columns)

    def cells(self, row: Row, below: str = "") -> Iterator[Cells]:
        """The words of a row; after it, under its title, a row for a failed backward or a lost gradient there.

        Args:
            row: the row.
            below: the lines between it and the next row.
        """
        yield self._of_row(row)
        if row.kind == "item" and row.item is not None:
            lines = below.ljust(len(row.lines) + 2)
            if row.item == self._failed:
                yield Cells(lines, f"{FAILED.character} backward failed here", style=FAILED.style)
            flag = self._texts[row.item].flag
            if flag is not None and flag.level != "quiet":
                yield Cells(lines, flag.text, style=FLAG_STYLES[flag.level])

    def _of_row(self, row: Row) -> Cells:
        if row.kind == "gap":
            return Cells(row.lines, f"{OMITTED.character} {counted(row.hidden, 'row')}", style="italic")
        if row.kind == "heading":
            title, *shorter = self._headings(row)
            is_match = row.item in self._matches
            return Cells(
                row.lines,
                title,
                style="italic",
                is_match=is_match,
                gutter=MATCH if is_match else None,
                shorter_titles=tuple(shorter),
            )
        assert row.item is not None, "only a heading or a gap may lack an item"
        return self._of_item(row, self._subject.view.items[row.item])

    def _of_item(self, row: Row, item: Item) -> Cells:
        text = self._texts[item.id]
        number = f"#{row.number} " if row.number else ""
        if row.kind == "reference":
            return Cells(row.lines, number + one_line(text.title), ABOVE if row.is_above else BELOW)
        facts = RowFacts(item, text, self._facts)
        sign = FAILED if item.id == self._failed else ROLE_SIGNS[role_of(item, self._subject.graph)]
        title = self._titled(item, " ".join(filter(None, (text.title, text.settings))))
        is_match = item.id in self._matches
        if item.kind == "cut_off":
            return Cells(row.lines, f"{number}{title}: {text.subtitle}", sign, style=sign.style, runs_over_columns=True)
        return Cells(
            row.lines,
            number + title,
            sign,
            tuple(one_line(column.words(facts)) for column in self._columns),
            self._link(text),
            sign.style,
            is_match,
            MATCH if is_match else None,
        )

    def _titled(self, item: Item, title: str) -> str:
        """Title and badge: ``h.0 … h.11 ×12 · 85.1M params``, ``[mm, add, tanh] ×300``, ``fc · 850 params``."""
        badge = self._texts[item.id].badge
        if item.kind == "box" and self._tells_parameters:
            badge = f"×{item.repeat:,}" if item.repeat > 1 else ""
        if item.kind == "box" and item.scope is None and badge and "," in title:
            title = f"[{title}]"
        gap = " " if item.repeat > 1 else " · "
        return one_line(f"{title}{gap}{badge}" if badge else title)

    def _headings(self, row: Row) -> Iterator[str]:
        """The heading of a box: ``in model.h.0 … h.11 (Block) ×12 · 1.7k params``, then shorter and shorter ones."""
        if row.item is None:
            yield "at the outermost level"
            return
        item, text = self._subject.view.items[row.item], self._texts[row.item]
        title = one_line(text.path or text.title)
        times = f" ×{item.repeat:,}" if item.repeat > 1 else ""
        if not row.is_return:
            subtitle = f" ({text.subtitle})" if text.path and text.subtitle else ""
            each = self._in_each(item)
            yield f"in {self._titled(item, title + subtitle)}{each}"
            yield one_line(f"in {title}{subtitle}{times}{each}")
        if times:
            yield f"in {title}{times}"
        yield f"in {title}"

    def _in_each(self, item: Item) -> str:
        """`` · in each of ×100``, for repeated boxes around an item that no heading tells: they hold only boxes."""
        count = 1
        items = self._subject.view.items
        while item.parent is not None and item.parent not in self._with_rows:
            item = items[item.parent]
            count *= item.repeat
        return f" · in each of ×{count:,}" if count > 1 else ""

    @cached_property
    def _with_rows(self) -> frozenset[int | None]:
        """The open boxes that have a row of their own, below a heading."""
        return frozenset(item.parent for item in self._subject.view.items if not item.is_open)

    def _link(self, text: ItemText) -> str | None:
        if self._template is None or text.source is None:
            return None
        return source_link(self._template, *text.source)


def matching_items(view: View, found: Found) -> frozenset[int]:
    """Ids of the items that show matches, and of folded boxes with matches inside."""
    return frozenset(item.id for item in view.items if _shows(item, found))


def _shows(item: Item, found: Found) -> bool:
    if item.kind == "carried":
        return False
    if item.constant is not None:
        return item.constant in found.constants
    if item.root is not None:
        return item.root in found.roots
    if item.refused is not None:
        return item.refused in found.refused
    if item.cut_edge is not None:
        return item.kind == "cut" and not found.cut_edges.isdisjoint(item.cut_edges)
    if item.scope in found.scopes or item.last_scope in found.scopes:
        return True
    return not item.is_open and not found.nodes.isdisjoint(item.nodes)
