"""PNG: the SVG, rasterized by resvg with the shipped font, so that every machine gives the same pixels."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from xml.sax.saxutils import quoteattr

import resvg_py

from gradviz.errors import BadInput
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.palette import THEMES
from gradviz.rendering.look.shapes import number
from gradviz.rendering.look.text_metrics import FONT_FAMILY, FONT_FOLDER
from gradviz.rendering.svg.still_picture import StillPicture
from gradviz.rendering.svg.svg import Drawing

MAX_SIDE = 16_384
"""Pixels; many viewers and browsers refuse a larger picture."""
MAX_PIXELS = 120_000_000
"""About half a gigabyte of memory while it is drawn."""
MIN_READABLE_SCALE = 0.35
"""At a smaller scale, no word is readable, so the picture is refused."""


@dataclass(frozen=True)
class PngRenderer(StillPicture):
    """Draws a subject as pixels; `scale` is the number of pixels of the PNG for each pixel of the SVG."""

    scale: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.05 <= self.scale <= 16:
            raise BadInput(f"a scale of {self.scale:g} is out of range", hint="choose between 0.05 and 16")

    def render(self, subject: Subject) -> bytes:
        laid_out = self.lay_out(subject)
        drawing = self.framed(laid_out)
        scale = fitting_scale(drawing, self.scale)
        if scale < self.scale:
            note = f"Shrunk to {scale:.0%} of its natural size to fit {MAX_SIDE:,} pixels a side: SVG stays sharp."
            drawing = self.framed(laid_out, extra_notes=(note,))
            scale = min(scale, fitting_scale(drawing, self.scale))
        return pixels(drawing, scale, THEMES[self.theme].page)


def fitting_scale(drawing: Drawing, wanted: float) -> float:
    """`wanted`, or the largest scale that viewers can show; raises `BadInput` if no word would be readable."""
    width, height = drawing.width, drawing.height
    largest = min(MAX_SIDE / width, MAX_SIDE / height, sqrt(MAX_PIXELS / (width * height)))
    if largest < min(wanted, MIN_READABLE_SCALE):
        raise BadInput(
            f"a picture of {width:,.0f} by {height:,.0f} is too large for a readable PNG",
            hint="write an .svg, or fold more of the graph",
        )
    return min(wanted, largest)


def pixels(drawing: Drawing, scale: float, background: str) -> bytes:
    """The PNG of an SVG that embeds no font."""
    width, height = max(1, int(drawing.width * scale)), max(1, int(drawing.height * scale))
    sized = f"width={quoteattr(number(drawing.width))} height={quoteattr(number(drawing.height))}"
    markup = drawing.markup.replace(sized, f'width="{width}" height="{height}"', 1)
    png = resvg_py.svg_to_bytes(
        svg_string=markup,
        background=background,
        skip_system_fonts=True,
        font_files=[str(path) for path in sorted(FONT_FOLDER.glob("*.otf"))],
        font_family=FONT_FAMILY,
        sans_serif_family=FONT_FAMILY,
    )
    return bytes(png)
