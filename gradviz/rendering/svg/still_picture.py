"""What PNG and PDF have in common: the SVG in one theme, for programs without media queries and web fonts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape

from gradviz.errors import check_choice
from gradviz.rendering.formats import Subject
from gradviz.rendering.layout.shape import Shape
from gradviz.rendering.look.color_ramps import ColorBy
from gradviz.rendering.look.geometry import Arrows, Direction
from gradviz.rendering.look.palette import THEMES, ThemeName
from gradviz.rendering.look.text_metrics import without_glyphs
from gradviz.rendering.svg.svg import Drawing, Engine, LaidOut, SvgRenderer

_TOOLTIP = re.compile("<title>.*?</title>", re.DOTALL)


@dataclass(frozen=True)
class StillPicture:
    """The common options of these pictures; raises `BadInput` for a wrong one."""

    direction: Direction = "TB"
    theme: ThemeName = "light"
    engine: Engine = "graphlay"
    arrows: Arrows = "data"
    color_by: ColorBy = "kind"
    shape: Shape = "auto"

    def __post_init__(self) -> None:
        check_choice("theme", self.theme, THEMES)
        self._painter()

    def draw(self, subject: Subject) -> Drawing:
        """The whole picture."""
        return self.framed(self.lay_out(subject))

    def lay_out(self, subject: Subject) -> LaidOut:
        """Everything but the frame: made once for a picture, whatever notes are added below it later."""
        return self._painter().lay_out(subject)

    def framed(self, laid_out: LaidOut, *, extra_notes: tuple[str, ...] = ()) -> Drawing:
        """The SVG without a font, because the font is passed as files. A note counts characters that it lacks."""
        drawing = self._painter().framed(laid_out, extra_notes=extra_notes)
        missing = without_glyphs(unescape(_TOOLTIP.sub("", drawing.markup)))
        if not missing:
            return drawing
        note = f"{len(missing):,} different characters are not in the font of this picture: SVG shows them."
        return self._painter().framed(laid_out, extra_notes=(*extra_notes, note))

    def _painter(self) -> SvgRenderer:
        return SvgRenderer(
            direction=self.direction,
            theme=self.theme,
            engine=self.engine,
            arrows=self.arrows,
            embed_font=False,
            color_by=self.color_by,
            shape=self.shape,
        )
