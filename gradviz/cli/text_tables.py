"""What the tables of ``gradviz flow`` have in common: a console that writes to memory, paths that fit, signs."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from textwrap import wrap

from rich.console import Console
from rich.text import Text

LEVELS = "▁▂▃▄▅▆▇█"
ASCII_LEVELS = "_.-=+*%#"


def printed(width: int, color: bool, print_all: Callable[[Console], None]) -> str:
    """What `print_all` prints, as text without spaces at the ends of lines."""
    console = Console(
        file=StringIO(), width=width, force_terminal=color, no_color=not color, highlight=False,
        color_system="standard" if color else None, legacy_windows=False, _environ={},
    )  # fmt: skip
    with console.capture() as captured:
        print_all(console)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def wrapped(sentence: str, width: int, style: str) -> Text:
    """A sentence on as many lines as it needs, the later ones indented."""
    return Text("\n".join(wrap(sentence, width, subsequent_indent="  ", break_on_hyphens=False)), style=style)


def shortened_path(name: str, room: int, ellipsis: str) -> str:
    """The end of a long dotted path says which parameter it is."""
    return name if len(name) <= room else ellipsis + name[len(name) - room + 1 :]
