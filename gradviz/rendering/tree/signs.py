"""Sign and colour of each role in a terminal.

The colours stand out on a light and on a dark background, and no fact is shown by colour alone: every role has its own
sign, in plain ASCII too.
"""

from __future__ import annotations

from typing import NamedTuple

from gradviz.rendering.look.palette import ROLE_STYLES, Role
from gradviz.rendering.words.flags import FlagLevel


class Sign(NamedTuple):
    """A character before a title, and the rich style of both."""

    character: str
    ascii: str
    style: str = ""


ROLE_SIGNS: dict[Role, Sign] = {
    "root": Sign("◆", "=", "bold"),
    "refused": Sign("◈", "#", "bold red"),
    "operation": Sign("●", "*"),
    "view": Sign("◌", ":"),
    "inplace": Sign("◐", "%", "red"),
    "custom": Sign("▲", "&", "magenta"),
    "checkpoint": Sign("◎", "$", "blue"),
    "compiled": Sign("▣", "?", "blue"),
    "box": Sign("■", "+", "bold"),
    "parameter": Sign("○", "o", "cyan"),
    "input": Sign("◇", "<", "green"),
    "constant": Sign("·", "."),
    "carried": Sign(ROLE_STYLES["carried"].sign, "@"),
    "cut": Sign("┄", "-", "red"),
    "cut_off": Sign("⊘", "0", "red"),
}

FAILED = Sign("✗", "!", "bold red")
FLAG_STYLES: dict[FlagLevel, str] = {"alarm": "bold red", "warning": "bold yellow", "quiet": ""}
"""For a gradient that is zero, NaN or Inf."""
BELOW = Sign("↓", "v")
ABOVE = Sign("↑", "^")
MATCH = Sign("▸", ">", "bold")
RAN = Sign("✓", "x", "green")
RUNS = Sign("▶", ">", "bold yellow")
READY = Sign("◉", "@", "cyan")
WAITS = Sign("◔", "%", "cyan")
"""The states of nodes in a replay of backward."""
OMITTED = Sign("…", "~")

_LINES = {"│": "|", "├": "|", "└": "`", "┌": ",", "─": "-", "┄": "-"}
_IN_WORDS = {"×": "x", "·": ".", "…": "~", "→": "->"}
_OTHER_SIGNS = (FAILED, BELOW, ABOVE, MATCH, RAN, RUNS, READY, WAITS)

TO_ASCII = str.maketrans(
    _LINES | _IN_WORDS | {sign.character: sign.ascii for sign in (*ROLE_SIGNS.values(), *_OTHER_SIGNS)}
)
