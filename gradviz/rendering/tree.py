"""The graph as a tree of text: from the loss down to what it was computed from, for terminals, logs and pipes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from textwrap import wrap

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from gradviz.graph.view import Item
from gradviz.rendering.labels import ItemText, item_texts
from gradviz.rendering.renderer import Subject
from gradviz.rendering.tree_rows import Row, TreeRows
from gradviz.rendering.words import counted

WIDEST = 120
"""Where no width is given: rows get as wide as their words, up to this."""
COLUMNS = ("operation", "name", "shape", "grad_fn", "line")
NARROWEST_COLUMNS = (20, 6, 8, 10, 10)
GAP = 2

_ASCII = str.maketrans(
    {"│": "|", "├": "|", "└": "`", "─": "-", "◆": "=", "●": "*", "■": "+", "○": "o", "◇": "<", "·": ".", "×": "x"}
    | {"…": "~", "↓": "v", "↑": "^", "✗": "!", "╴": "-", "↻": "@"}
)
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_STYLES = {"◆": "bold green", "●": "bold", "■": "bold cyan", "○": "yellow", "◇": "magenta", "·": "dim", "↻": "dim"}


@dataclass(frozen=True, slots=True)
class TreeRenderer:
    """Renders a subject as a tree."""

    width: int | None = None
    """Columns of the terminal; None for as many as the words need, up to `WIDEST`."""
    color: bool = False
    ascii: bool = False
    """Plain ASCII, for where no other character can be shown."""

    def render(self, subject: Subject) -> str:
        """The whole tree, with what was left out and what went wrong below it."""
        tree = TreeRows(subject.graph, subject.view)
        texts = item_texts(subject.capture, subject.graph, subject.view)
        cells = [_cells(subject, tree, texts, row) for row in tree.rows]
        width = self.width or WIDEST
        widths = _column_widths(cells, width)
        lines = [_header(widths), *(_line(cell, widths, width) for cell in cells), *_remarks(subject, width)]
        return self._written(lines)

    def _written(self, lines: Sequence[Text]) -> str:
        if not self.color:
            text = "\n".join(line.plain.rstrip() for line in lines) + "\n"
            return _to_ascii(text) if self.ascii else text
        console = Console(
            file=StringIO(), force_terminal=True, color_system="standard", legacy_windows=False, no_color=False,
            width=10_000, highlight=False, _environ={},
        )  # fmt: skip
        with console.capture() as captured:
            for line in lines:
                line.rstrip()
                console.print(line, soft_wrap=True)
        return _to_ascii(captured.get()) if self.ascii else captured.get()


def _to_ascii(text: str) -> str:
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


@dataclass(frozen=True, slots=True)
class _Cells:
    """The words of one row, before it is known how wide the columns are."""

    lines: str
    marker: str
    title: str
    columns: tuple[str, str, str, str] = ("", "", "", "")
    """Variable, shape, autograd name, source line."""
    style: str = ""
    spans: bool = False
    """A heading may run over all columns."""

    @property
    def first(self) -> str:
        return self.lines + (f"{self.marker} " if self.marker else "") + self.title


def _cells(subject: Subject, tree: TreeRows, texts: Sequence[ItemText], row: Row) -> _Cells:
    if row.kind == "heading":
        return _Cells(row.lines, "", _heading(subject, texts, row.item), style="dim italic", spans=True)
    assert row.item is not None, "only a heading may lack an item"
    item, text = subject.view.items[row.item], texts[row.item]
    number = tree.numbers.get(item.id)
    if row.kind == "reference":
        return _Cells(row.lines, "↑" if row.is_above else "↓", f"#{number} {_clean(text.title)}", style="dim")
    title = _titled(item, text) + (f" #{number}" if number else "")
    marker = _marker(subject, item)
    failed = subject.graph.backward.failed_node if subject.graph.backward else None
    if failed is not None and failed in item.nodes:
        return _Cells(row.lines, "✗", f"{title} ✗ backward failed here", _columns(text), "bold red")
    return _Cells(row.lines, marker, title, _columns(text), _STYLES[marker])


def _titled(item: Item, text: ItemText, title: str = "") -> str:
    """Title and badge: ``h.0 … h.11 ×12 · 85.1M params``, ``[mm, add, tanh] ×300``, ``fc · 850 params``."""
    title = title or text.title
    if item.kind == "box" and item.scope is None and text.badge and "," in title:
        title = f"[{title}]"
    gap = " " if item.repeat > 1 else " · "
    return _clean(f"{title}{gap}{text.badge}" if text.badge else title)


def _columns(text: ItemText) -> tuple[str, str, str, str]:
    return _clean(text.name), _clean(text.shape), _clean(text.subtitle), _clean(text.line)


def _clean(text: str) -> str:
    """One line that moves no cursor, whatever a name holds."""
    return _UNPRINTABLE.sub("?", " ".join(text.split()))


def _marker(subject: Subject, item: Item) -> str:
    if item.kind == "node" and item.node is not None:
        return {"parameter": "○", "input": "◇"}.get(subject.graph.nodes[item.node].kind, "●")
    return {"root": "◆", "constant": "·", "box": "■", "carried": "↻"}[item.kind]


def _heading(subject: Subject, texts: Sequence[ItemText], box: int | None) -> str:
    if box is None:
        return "at the outermost level"
    item, text = subject.view.items[box], texts[box]
    title = f"{text.path} ({_clean(text.subtitle)})" if text.path else ""
    return f"in {_titled(item, text, title)}"


def _column_widths(cells: Sequence[_Cells], width: int) -> list[int]:
    """As wide as the words need; where that is too much, first the few longest words give way."""
    rows = [(cell.first, *cell.columns) for cell in cells if not cell.spans]
    needs = [sorted(map(cell_len, column)) for column in zip(*rows, strict=True)] or [[0]] * len(COLUMNS)
    widths = [max(need[-1], len(name)) if need[-1] else 0 for need, name in zip(needs, COLUMNS, strict=True)]
    usual = [max(need[len(need) * 9 // 10], least) for need, least in zip(needs, NARROWEST_COLUMNS, strict=True)]
    excess = sum(widths) + GAP * (sum(map(bool, widths)) - 1) - width
    for floor in (usual, NARROWEST_COLUMNS):
        # torch's name says least that is not said elsewhere, so it gives way before the others.
        for column in (3, 1, 0, 2, 4):
            given = min(max(excess, 0), max(widths[column] - floor[column], 0))
            widths[column] -= given
            excess -= given
    return widths


def _header(widths: Sequence[int]) -> Text:
    named = [_padded(name, width) for name, width in zip(COLUMNS, widths, strict=True) if width]
    return Text((" " * GAP).join(named), style="dim underline")


def _line(cell: _Cells, widths: Sequence[int], total: int) -> Text:
    line = Text().append(cell.lines, "dim")
    if cell.spans:
        return line.append(_fitted(cell.title, total - cell_len(cell.lines)), cell.style)
    room = widths[0] - cell_len(cell.lines) - 2
    line.append(f"{cell.marker} {_padded(cell.title, max(room, 1))}", cell.style)
    for words, width in zip(cell.columns, widths[1:], strict=True):
        if not width:
            continue
        line.append(" " * GAP + _padded(words, width), "dim" if words == cell.columns[2] else "")
    return line


def _fitted(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"


def _padded(text: str, width: int) -> str:
    return set_cell_size(_fitted(text, width), width)


def _remarks(subject: Subject, width: int) -> Iterator[Text]:
    """What the tree does not say by itself: the program's error, what is folded, what could not be recorded."""
    capture = subject.capture
    error = [f"{capture.error.type_name}: {capture.error.message}"] if capture.error else []
    sections = (("error", error, "bold red"), ("note", subject.view.notes, "dim"))
    remarks = [(word, sentence, style) for word, sentences, style in sections for sentence in sentences]
    remarks.extend(("not recorded", sentence, "yellow") for sentence in capture.disclosures)
    yield Text("")
    yield Text(counted(len(subject.graph.nodes), "autograd node") + f" in {capture.program.name}", style="dim")
    for word, sentence, style in remarks:
        for line in wrap(_clean(f"{word}: {sentence}"), max(width, 20), subsequent_indent="  ") or [""]:
            yield Text(line, style=style)
