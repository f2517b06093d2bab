"""Markup of links: the wire with its arrowhead, a wider invisible stroke for the pointer, and the words beside it."""

from __future__ import annotations

from collections.abc import Iterable

from gradviz.rendering.layout.link_label_positions import LinkLabel
from gradviz.rendering.look.geometry import Arrows, Route
from gradviz.rendering.look.link_looks import LinkLook
from gradviz.rendering.look.shapes import number, rounded_route
from gradviz.rendering.svg.style import shade
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.rendering.words.link_words import LinkText

_WIDE_STEP = 4
"""From this step of a scale on, links have a larger arrowhead."""
_SIZES = {"a": 8, "ak": 8, "ab": 9, "ag": 8, "aw": 13}


def arrowheads(looks: Iterable[LinkLook]) -> str:
    """The definitions that `link_markup` refers to: for links, for quiet links, and for other `looks`."""
    more = {_arrowhead_of(look) for look in looks} - {"a", "ak"}
    names = ("a", "ak", *sorted(more))
    return "".join(arrowhead(name, "a" if name == "aw" else name, _SIZES[name]) for name in names)


def arrowhead(name: str, css_class: str, size: int) -> str:
    """The definition of one arrowhead of `size` pixels."""
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7.4" refY="4" markerWidth="{size}" markerHeight="{size}" '
        f'orient="auto" markerUnits="userSpaceOnUse"><path class="{css_class}" d="M0 .6L8 4L0 7.4z"/></marker>'
    )


def _arrowhead_of(look: LinkLook) -> str:
    if look.state:
        return {"broken": "ab", "ghost": "ag", "lost": "ak"}[look.state]
    return "aw" if look.step is not None and look.step >= _WIDE_STEP else "a"


_BASELINE = 8.6
"""From the upper edge of a label."""


def link_markup(text: LinkText, route: Route, arrows: Arrows, look: LinkLook, *, is_quiet: bool) -> str:
    """One link. A quiet link carries no gradient, so it has no arrowhead if arrows follow the gradient."""
    path = rounded_route(route if arrows == "data" else route[::-1])
    if look.state == "ghost" and arrows == "gradient":
        drawn = ' class="ghost"'  # No gradient flows here.
    elif is_quiet:
        drawn = ' class="k"' + (' marker-end="url(#ak)"' if arrows == "data" else "")
    else:
        kind = look.state or ("" if look.step is None else f"flow{look.step}")
        drawn = (f' class="{kind}"' if kind else "") + f' marker-end="url(#{_arrowhead_of(look)})"'
    tooltip = xml_text("\n".join(text.tooltip))
    return f'<g><title>{tooltip}</title><path class="w" d="{path}"/><path{drawn} d="{path}"/></g>\n'


def label_markup(label: LinkLabel, depth: int | None) -> str:
    """The words beside a link, with an outline in the colour of the box around them, at `depth`."""
    position = f'x="{number(label.box.x)}" y="{number(label.box.y + _BASELINE)}"'
    outline = "" if depth is None else f' class="{shade(depth)}"'
    return f"<text{outline} {position}>{xml_text(label.words)}</text>\n"
