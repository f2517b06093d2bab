"""What rich prints, as text."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from rich.console import Console, RenderableType


def printed(parts: Iterable[RenderableType], width: int, *, color: bool) -> str:
    """Parts one below the other in `width` columns, without spaces at the ends of lines; ends in a line feed.

    The same text wherever it is made: what the surroundings say of a terminal does not count.
    """
    console = Console(
        file=StringIO(), width=width, force_terminal=color, no_color=not color, highlight=False, force_jupyter=False,
        color_system="standard" if color else None, legacy_windows=False, _environ={},
    )  # fmt: skip
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().rstrip().split("\n"))
