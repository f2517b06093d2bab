"""What one parameter gets in backward, and why, for people."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradviz.analysis.finding import Place
from gradviz.analysis.outcomes import short
from gradviz.analysis.why import Answer


def why_text(answer: Answer, sources: Mapping[str, Mapping[int, str]], width: int, *, color: bool) -> str:
    """The answer, with the lines that it names."""
    console = Console(
        file=StringIO(), width=width, force_terminal=color, no_color=not color, highlight=False,
        color_system="standard" if color else None, legacy_windows=False, _environ={},
    )  # fmt: skip
    with console.capture() as captured:
        console.print(Text.assemble((answer.name, "bold"), f" {answer.verdict}"))
        if answer.place is not None:
            console.print(Padding(Text(_line(answer.place, sources)), (0, 0, 0, 4)))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for title, said in answer.facts:
            table.add_row(title, Text(said if isinstance(said, str) else _line(said, sources)))
        console.print(Padding(table, (0, 0, 0, 2)))
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _line(place: Place, sources: Mapping[str, Mapping[int, str]]) -> str:
    source = sources.get(place.file, {}).get(place.line, "").strip()
    return f"{short(place)}: {source}" if source else short(place)
