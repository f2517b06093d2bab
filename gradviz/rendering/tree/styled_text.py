"""From lines of styled text to the output: with colours and links, plain, or in ASCII only."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.color import ColorSystem
from rich.style import Style

from gradviz.rendering.tree.column_widths import Line, Span
from gradviz.rendering.tree.signs import TO_ASCII
from gradviz.safe_text import one_line, printable, without_build_commands


def written(lines: Iterable[Line], *, color: bool, ascii: bool) -> str:
    """All lines, each with its line feed."""
    write = _colored if color else plain
    text = without_build_commands("".join(f"{write(line)}\n" for line in lines))
    return text.translate(TO_ASCII).encode("ascii", "backslashreplace").decode("ascii") if ascii else text


def plain(line: Line) -> str:
    """The words of a line without styles."""
    return printable("".join(span.text for span in line)).rstrip()


def _colored(line: Line) -> str:
    spans = list(line)
    while spans and not spans[-1].text.strip():
        spans.pop()
    if spans:
        spans[-1] = spans[-1]._replace(text=spans[-1].text.rstrip())
    return "".join(map(_escaped, spans))


def _escaped(span: Span) -> str:
    shown = printable(span.text)
    text = _style(span.style).render(shown, color_system=ColorSystem.STANDARD) if span.style else shown
    # As rich writes it, but without its random number, so that the output is always the same.
    return f"\x1b]8;;{one_line(span.link)}\x1b\\{text}\x1b]8;;\x1b\\" if span.link else text


@lru_cache(maxsize=100)
def _style(words: str) -> Style:
    return Style.parse(words)
