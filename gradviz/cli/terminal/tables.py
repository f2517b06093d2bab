"""What the tables of ``gradviz flow`` have in common: sentences and paths that fit, signs."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from rich.text import Text

LEVELS = "▁▂▃▄▅▆▇█"
ASCII_LEVELS = "_.-=+*%#"


def wrapped(sentence: str, width: int, style: str) -> Text:
    """A sentence on as many lines as it needs, the later ones indented."""
    return Text("\n".join(wrap(sentence, width, subsequent_indent="  ", break_on_hyphens=False)), style=style)


def shortened_paths(names: Sequence[str], room: int, ellipsis: str) -> list[str]:
    """Dotted paths that take no more than `room` columns.

    Where some are longer, all lose the part that they have in common. The end of one that is still too long says which
    parameter it is; where that is the same for several, as in an encoder and a decoder, the beginning is kept as well.
    """
    if max(map(len, names), default=0) <= room:
        return list(names)
    common = _common_parts([name.split(".") for name in names])
    paths = [".".join(name.split(".")[common:]) for name in names]
    for kept in (0, room // 3):
        cut = [path if len(path) <= room else path[:kept] + ellipsis + path[kept + 1 - room :] for path in paths]
        if len(set(cut)) == len(set(paths)):
            break
    return cut


def _common_parts(paths: Sequence[Sequence[str]]) -> int:
    """How many parts all paths begin with, their last one and what a number counts not among them."""
    same = [len(set(parts)) == 1 for parts in zip(*(path[:-1] for path in paths), strict=False)]
    common = (*same, False).index(False)
    while common and any(path[common].isdigit() for path in paths):
        common -= 1
    return common
