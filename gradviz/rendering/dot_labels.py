"""Words in DOT: the "HTML-like" labels that Graphviz itself draws, with bold titles and small quiet lines below them.

They are no HTML: a table of its own dialect, in which a backslash still means something.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape

import graphviz  # type: ignore[import-untyped]  # The package ships no types.

from gradviz.rendering.colouring import Colouring, ink_of
from gradviz.rendering.faces import Face
from gradviz.rendering.palette import Role, Theme
from gradviz.rendering.plain_items import FAILURE_WORDS, flat
from gradviz.rendering.renderer import Subject
from gradviz.rendering.role_words import role_words
from gradviz.rendering.tints import STEPS

_SMALL = "10"
_LINE_LENGTH = 110
_LEGEND_SIGNS: dict[Role, str] = {"view": "◸", "constant": "◌", "carried": "↻"}
"""Where the colour alone does not tell."""


def face_label(face: Face, quiet: str, theme: Theme, *, failed: bool) -> str:
    """What stands on an item; `quiet` is the colour of its small lines."""
    first, *others = face.lines
    title = f"<B>{_words(first.text) or ' '}</B>"
    beside = "  ".join(filter(None, map(_words, (first.aside, face.badge))))
    lines = [f"<B>{FAILURE_WORDS}</B>"] if failed else []
    lines.append(f"{title}  {_small(beside, quiet)}" if beside else title)
    lines += [_small(_words(line.text), quiet) for line in others]
    if face.mark is not None:
        # No chip: its colours are those of a line on paper. A quiet one looks like the other small lines.
        colour = quiet if face.mark.level == "quiet" else theme.marks[face.mark.level].line
        lines.append(_small(f"<B>{_words(face.mark.text)}</B>", colour))
    return f"<{'<BR/>'.join(lines)}>"


def page_label(
    subject: Subject, remarks: Iterable[str], legend: Sequence[Role], theme: Theme, *, first_row: str = ""
) -> str:
    """Below the picture: a legend of the roles, what was drawn, and the remarks, a line each."""
    first, *others = [line for remark in remarks for line in textwrap.wrap(flat(remark), _LINE_LENGTH)]
    swatches = (_swatch(role, role_words(role, subject), theme) for role in legend)
    rows = [first_row, "   ".join(swatches), f"<B>{_words(subject.capture.program.name)}</B> · {_words(first)}"]
    rows += map(_words, others)
    cells = "".join(f'<TR><TD ALIGN="LEFT">{row}</TD></TR>' for row in rows if row)
    return f'<<TABLE BORDER="0" CELLSPACING="0" CELLPADDING="1">{cells}</TABLE>>'


def scale_row(colouring: Colouring, theme: Theme) -> str:
    """What the colours mean, as a row of the page's label: between the two ends of a scale its steps."""
    told = dict(colouring.legend)
    parts = []
    for tint, words in told.items():
        shown = [tint]
        if colouring.scale is not None and tint == f"step{STEPS - 1}":
            shown = [f"step{step}" for step in range(1, STEPS)]
        squares = "".join(f'<FONT COLOR="{ink_of(each, colouring.by, theme).fill}">■</FONT>' for each in shown)
        parts.append(f"{_words(words)} {squares}" if tint == "step0" else f"{squares} {_words(words)}")
    gap = "" if colouring.scale is not None else "   "
    return gap.join(parts[:2]) + "".join(f"   {part}" for part in parts[2:])


def plain_lines(lines: Iterable[str]) -> str:
    """Lines as one text that Graphviz takes literally: no HTML, no escapes, no line break but ours."""
    text: str = graphviz.nohtml(r"\n".join(graphviz.escape(flat(line)) for line in lines if line))
    return text


def _swatch(role: Role, name: str, theme: Theme) -> str:
    """A table of real outlines would be stretched to the width of the page."""
    sign = _LEGEND_SIGNS.get(role, "■")
    return f'<FONT COLOR="{theme.roles[role].line}">{sign}</FONT> {_words(name)}'


def _small(words: str, color: str) -> str:
    return f'<FONT POINT-SIZE="{_SMALL}" COLOR="{color}">{words}</FONT>'


def _words(text: str) -> str:
    return escape(flat(text), quote=False).replace("\\", "&#92;")
