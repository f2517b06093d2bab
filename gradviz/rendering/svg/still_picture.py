"""What PNG and PDF have in common: the SVG in one theme, for programs that know neither media queries nor web fonts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape

from gradviz.errors import check_choice
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.color_ramps import ColorBy
from gradviz.rendering.look.geometry import Arrows, Direction
from gradviz.rendering.look.palette import THEMES, ThemeName
from gradviz.rendering.look.text_metrics import without_glyphs
from gradviz.rendering.svg.svg import Drawing, Engine, Placed, SvgRenderer

_TOOLTIP = re.compile("<title>.*?</title>", re.DOTALL)


@dataclass(frozen=True)
class StillPicture:
    """The options that such pictures share; raises `BadInput` for a wrong one."""

    direction: Direction = "TB"
    theme: ThemeName = "light"
    engine: Engine = "graphlay"
    arrows: Arrows = "data"
    color_by: ColorBy = "role"

    def __post_init__(self) -> None:
        check_choice("theme", self.theme, THEMES)
        self._painter()

    def draw(self, subject: Subject) -> Drawing:
        """The whole picture."""
        return self.framed(self.place(subject))

    def place(self, subject: Subject) -> Placed:
        """Everything but the frame: once for a picture, however many notes turn out to be due below it."""
        return self._painter().place(subject)

    def framed(self, placed: Placed, *, extra_notes: tuple[str, ...] = ()) -> Drawing:
        """The SVG without a font, which is handed over as files. What that font cannot show is said in a note."""
        drawing = self._painter().framed(placed, extra_notes=extra_notes)
        missing = without_glyphs(unescape(_TOOLTIP.sub("", drawing.markup)))
        if not missing:
            return drawing
        note = f"{len(missing):,} different characters are not in the font of this picture: SVG shows them."
        return self._painter().framed(placed, extra_notes=(*extra_notes, note))

    def _painter(self) -> SvgRenderer:
        return SvgRenderer(
            direction=self.direction,
            theme=self.theme,
            engine=self.engine,
            arrows=self.arrows,
            embed_font=False,
            color_by=self.color_by,
        )
