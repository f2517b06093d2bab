"""The parts that all tables and texts of a terminal share: the table itself, its width, shortened names, printing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from textwrap import wrap

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradviz.safe_text import one_line, printable

MAX_ROWS = 40
"""With more parameters than this, they are folded into modules, unless a depth is given."""


@dataclass(frozen=True, slots=True)
class TableLook:
    """How a table of gradients looks."""

    width: int
    color: bool = False
    only_ascii: bool = False
    depth: int | None = None
    """How many levels of modules are open; None for as many as `MAX_ROWS` allows."""
    show_all: bool = False

    @property
    def ellipsis(self) -> str:
        return "~" if self.only_ascii else "…"

    @property
    def levels(self) -> str:
        """Characters for sizes, from the smallest to the largest."""
        return "_.-=+*%#" if self.only_ascii else "▁▂▃▄▅▆▇█"


def empty_table() -> Table:
    """A table without lines around its cells."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim underline")


def facts_table(facts: Iterable[tuple[str, str] | tuple[str, str, str]]) -> RenderableType:
    """A line for each title and what is known about it; between them, if there is one, the line of the program."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    for title, *line, text in facts:
        table.add_row(title, *line, Text(text))
    for column in table.columns[1:-1]:
        column.no_wrap, column.style = True, "bold"
    return Padding(table, (0, 0, 0, 2))


def wrapped(sentence: str, width: int, style: str) -> Text:
    """A sentence on as many lines as it needs, the later ones indented."""
    return Text("\n".join(wrap(sentence, width, subsequent_indent="  ", break_on_hyphens=False)), style=style)


def shortened_name(name: str, width: int, ellipsis: str) -> str:
    """A name of at most `width` columns; the cut is at its end."""
    name = one_line(name)
    return name if len(name) <= width else name[: width - 1] + ellipsis


def shortened_paths(names: Sequence[str], width: int, ellipsis: str) -> list[str]:
    """Dotted paths of at most `width` columns.

    If some are longer, all lose the part that they have in common. A path that is still too long keeps its end, which
    says which parameter it is. If several ends are the same, as in an encoder and a decoder, the beginning is kept too.
    """
    names = list(map(one_line, names))
    if max(map(len, names), default=0) <= width:
        return names
    common = _common_parts([name.split(".") for name in names])
    paths = [".".join(name.split(".")[common:]) for name in names]
    for kept in (0, width // 3):
        cut = [path if len(path) <= width else path[:kept] + ellipsis + path[kept + 1 - width :] for path in paths]
        if len(set(cut)) == len(set(paths)):
            break
    return cut


def _common_parts(paths: Sequence[Sequence[str]]) -> int:
    """How many parts all paths begin with. The last part does not count, nor do the last names before a number."""
    same = [len(set(parts)) == 1 for parts in zip(*(path[:-1] for path in paths), strict=False)]
    common = (*same, False).index(False)
    while common and any(path[common].isdigit() for path in paths):
        common -= 1
    return common


@dataclass(frozen=True, slots=True)
class _Printable:
    """A part of the text in which every character is one that is shown."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.part, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def printed(parts: Iterable[RenderableType], width: int, *, color: bool) -> str:
    """The text of all parts, one below the other, in `width` columns; without trailing spaces, ends in a line feed.

    The environment and the terminal have no influence: the text is the same wherever it is made.
    """
    console = Console(
        file=StringIO(), width=width, force_terminal=color, no_color=not color, highlight=False, force_jupyter=False,
        markup=False, emoji=False,
        color_system="standard" if color else None, legacy_windows=False, _environ={},
    )  # fmt: skip
    with console.capture() as captured:
        for part in parts:
            console.print(_Printable(part))
    return "".join(f"{line.rstrip()}\n" for line in captured.get().rstrip().split("\n"))
