"""Markup of links: the wire with its arrowhead, a wider stroke to point at, the words beside it."""

from __future__ import annotations

from xml.sax.saxutils import escape

from gradviz.rendering.faces import printable
from gradviz.rendering.geometry import Arrows, Route
from gradviz.rendering.link_labels import LinkLabel
from gradviz.rendering.link_words import LinkText
from gradviz.rendering.shapes import number, rounded_route
from gradviz.rendering.svg_style import shade

ARROWHEADS = "".join(
    f'<marker id="{name}" viewBox="0 0 8 8" refX="7.4" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
    f'markerUnits="userSpaceOnUse"><path class="{name}" d="M0 .6L8 4L0 7.4z"/></marker>'
    for name in ("a", "ak")
)
"""Definitions that `link_markup` refers to: for links, and for quiet ones."""

_BASELINE = 8.6
"""From the upper edge of a label."""


def link_markup(text: LinkText, route: Route, arrows: Arrows, *, is_quiet: bool) -> str:
    """One link; a quiet one carries no gradient, so that it has no arrowhead where arrows follow that."""
    path = rounded_route(route if arrows == "data" else route[::-1])
    if is_quiet:
        drawn = ' class="k"' + (' marker-end="url(#ak)"' if arrows == "data" else "")
    else:
        drawn = ' marker-end="url(#a)"'
    tooltip = escape("\n".join(printable(line) for line in text.tooltip))
    return f'<g><title>{tooltip}</title><path class="w" d="{path}"/><path{drawn} d="{path}"/></g>\n'


def label_markup(label: LinkLabel, depth: int | None) -> str:
    """The words beside a link, with a seam in the colour of the box, of that depth, in which they stand."""
    place = f'x="{number(label.box.x)}" y="{number(label.box.y + _BASELINE)}"'
    seam = "" if depth is None else f' class="{shade(depth)}"'
    return f"<text{seam} {place}>{escape(printable(label.words))}</text>\n"
