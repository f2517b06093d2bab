"""An SVG document: its size, title, style and background, around any content."""

from __future__ import annotations

from xml.sax.saxutils import escape

from gradviz.rendering.look.shapes import number
from gradviz.rendering.svg.xml_text import xml_text


def svg_document(title: str, width: float, height: float, style: str, content: str, *, defs: str = "") -> str:
    """The whole document.

    Args:
        title: in one line; screen readers and browsers show it.
        content: markup above the background.
        defs: a ``<defs>`` element.
    """
    size = f'width="{number(width)}" height="{number(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {number(width)} {number(height)}" role="img">\n'
        f"<title>{xml_text(title)}</title>\n<style>{escape(style)}</style>\n{defs}"
        f'<rect class="page" {size}/>\n{content}</svg>\n'
    )
