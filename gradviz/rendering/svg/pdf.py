"""PDF: the SVG on one page of its size, set by Typst: vectors, selectable text, the shipped font embedded.

Typst is an optional dependency, because it is larger than gradviz. The same picture gives the same bytes: no date is
written.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from gradviz.errors import MissingDependency
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.text_metrics import FONT_FOLDER
from gradviz.rendering.svg.still_picture import StillPicture
from gradviz.rendering.svg.svg import Drawing
from gradviz.safe_text import one_line

POINTS_PER_PIXEL = 0.75
LARGEST_SIDE = 14_400.0
"""Points: Acrobat shows no larger page. A smaller page loses nothing, because it has no pixels."""

_PAGE = b"""
#set document(date: none, title: sys.inputs.title)
#set page(width: auto, height: auto, margin: 0pt)
#image("picture.svg", width: float(sys.inputs.width) * 1pt, alt: sys.inputs.title)
"""

# Typst draws the outline of a title over the letters; the SVG has it behind them.
_WITHOUT_HALOS = "text{stroke:none !important}"


@dataclass(frozen=True)
class PdfRenderer(StillPicture):
    """Draws a subject as a PDF of one page."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if find_spec("typst") is None:
            raise MissingDependency("PDF needs the package typst", hint="pip install 'gradviz-inspector[pdf]'")

    def render(self, subject: Subject) -> bytes:
        return _page(self.draw(subject), one_line(subject.capture.title))


def _page(drawing: Drawing, title: str) -> bytes:
    import typst

    points = max(drawing.width, drawing.height) * POINTS_PER_PIXEL
    width = drawing.width * POINTS_PER_PIXEL * min(1.0, LARGEST_SIDE / points)
    markup = drawing.markup.replace("</style>", f"{_WITHOUT_HALOS}</style>", 1)
    files: Any = {"main.typ": _PAGE, "picture.svg": markup.encode()}  # Typst's documented type, not its declared one.
    pdf: bytes = typst.compile(
        files,
        sys_inputs={"title": title, "width": repr(width)},
        font_paths=[str(FONT_FOLDER)],
        ignore_system_fonts=True,
    )
    return pdf
