"""Graphviz source: the same words, colours and shapes, for those who want to lay out or edit the picture themselves.

The `graphviz` package writes the text and does its quoting. Open boxes become clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import graphviz  # type: ignore[import-untyped]  # The package ships no types.

from gradviz.errors import check_choice
from gradviz.graph.view import Item
from gradviz.rendering import labels
from gradviz.rendering.colouring import drawn_colouring, ink_of, middle_tint
from gradviz.rendering.dot_labels import face_label, page_label, plain_lines, scale_row
from gradviz.rendering.geometry import Arrows, Direction
from gradviz.rendering.item_gradients import LinkGradients
from gradviz.rendering.labels import ItemText
from gradviz.rendering.link_looks import WIDTHS, LinkLook, link_looks
from gradviz.rendering.link_words import link_texts
from gradviz.rendering.palette import LEAF_ROLES, ROLE_STYLES, THEMES, Role, Shape, Theme, ThemeName, failed_item
from gradviz.rendering.plain_items import GRADIENT_WORDS, drawable_links, flat, legend_roles, nested_items
from gradviz.rendering.renderer import Subject
from gradviz.rendering.source_links import editor_template, source_link
from gradviz.rendering.svg_frame import recorded_facts, remarks
from gradviz.rendering.tints import COLOR_BY, ColorBy, Ink

# Shape and style for each of our outlines, in Graphviz's words.
_SHAPES: dict[Shape, tuple[str, str]] = {
    "rounded": ("box", "filled,rounded"),
    "bars": ("box", "filled,diagonals"),
    "hexagon": ("hexagon", "filled"),
    "cut": ("note", "filled"),
    "double": ("box", "filled,rounded"),
    "octagon": ("octagon", "filled"),
    "pill": ("box", "filled,rounded"),
    "slanted": ("parallelogram", "filled"),
}
_FONT = "Helvetica,Arial,sans-serif"
_QUIET_ROLES: frozenset[Role] = frozenset({"operation", "view", "box"})
"""Those on whose pale fill the small lines may be grey."""
_MAIN_WEIGHT = "6"
"""Of a link between operations: Graphviz keeps heavy links straight, and so the way of the data stays one column."""

Attributes = dict[str, str]


@dataclass(frozen=True)
class DotRenderer:
    """Draws a subject as DOT text."""

    direction: Direction = "TB"
    theme: ThemeName = "light"
    arrows: Arrows = "data"
    editor: str | None = None
    """An editor or a link template, see `gradviz.rendering.source_links`; without it there are no links."""
    color_by: ColorBy = "role"

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ("TB", "LR"))
        check_choice("theme", self.theme, THEMES)
        check_choice("arrows", self.arrows, ("data", "gradient"))
        check_choice("color_by", self.color_by, COLOR_BY)
        self._links_to()

    def render(self, subject: Subject) -> str:
        theme = THEMES[self.theme]
        facts = recorded_facts(subject)
        name = flat(subject.capture.program.name)
        backwards = self.arrows == "gradient"
        painter = _Painter(subject, theme, self._links_to(), self.color_by, backwards=backwards)
        dot = graphviz.Digraph("gradviz", comment=f"{name}: {facts}")
        error, notes = remarks(subject)
        lines = [facts, GRADIENT_WORDS if backwards else "", error, *notes]
        legend = [] if painter.colouring else legend_roles(painter.faces)
        scale = scale_row(painter.colouring, theme) if painter.colouring else ""
        label = page_label(subject, lines, legend, theme, first_row=scale)
        dot.attr("graph", rankdir=self.direction, label=label, **_page(theme))
        dot.attr("node", fontname=_FONT, fontsize="12", margin="0.16,0.07", height="0.35")
        back = {"dir": "back"} if backwards else {}
        dot.attr("edge", fontname=_FONT, fontsize="10", fontcolor=theme.quiet_text)
        dot.attr("edge", color=theme.link, arrowsize="0.7", penwidth="1.2", **back)
        painter.add_items(dot)
        painter.add_links(dot)
        return str(dot.source)

    def _links_to(self) -> str | None:
        return None if self.editor is None else editor_template(self.editor)


def _page(theme: Theme) -> Attributes:
    return {
        "bgcolor": theme.page,
        "fontname": _FONT,
        "fontsize": "11",
        "fontcolor": theme.quiet_text,
        "labelloc": "b",
        "labeljust": "l",
        "nodesep": "0.3",
        "ranksep": "0.4",
        "tooltip": " ",
    }


class _Painter:
    """Adds the items and links of one view to a graph."""

    def __init__(
        self, subject: Subject, theme: Theme, template: str | None, color_by: ColorBy, *, backwards: bool
    ) -> None:
        self.view, self.theme, self.template, self.backwards = subject.view, theme, template, backwards
        self.texts = labels.item_texts(subject.words)
        self.colouring, self.faces = drawn_colouring(subject, color_by, self.texts)
        gradients = LinkGradients(subject.words)
        self.looks = link_looks(self.view, gradients, self.colouring)
        self.link_texts = link_texts(subject.words, gradients, self.texts)
        self.failed = failed_item(self.view, subject.graph)

    def add_items(self, dot: graphviz.Digraph) -> None:
        """Nodes, and clusters as nested blocks; the package's own ``subgraph`` would copy them at every level."""
        for depth, item in nested_items(self.view):
            indent = "\t" * (depth + 1)
            if item is None:
                dot.body.append(f"{indent}}}\n")
            elif item.is_open:
                dot.body.append(f"{indent}subgraph cluster_{item.id} {{\n")
                block = graphviz.Digraph()
                block.attr(**self._words(item), **self._box_look(item, depth))
                dot.body += [indent + line for line in block.body]
            else:
                node = graphviz.Digraph()
                node.node(f"i{item.id}", **self._words(item), **self._node_look(item))
                dot.body.append("\t" * depth + node.body[0])

    def add_links(self, dot: graphviz.Digraph) -> None:
        for number, link in drawable_links(self.view):
            role, words = self.faces[link.source].role, self.link_texts[number]
            look = {} if role in LEAF_ROLES else {"weight": _MAIN_WEIGHT}
            if role == "constant":
                # No gradient flows here.
                head = {"dir": "none"} if self.backwards else {}
                look = {"style": "dashed", "color": self.theme.quiet_link} | head
            look |= _gradient_look(self.looks[number], self.theme)
            if self.looks[number].state == "ghost" and self.backwards:
                look["dir"] = "none"
            label = {"label": f"  {plain_lines([words.label])}"} if words.label else {}
            tooltip = plain_lines(words.tooltip)
            dot.edge(f"i{link.source}", f"i{link.target}", tooltip=tooltip, **label, **look)

    def _words(self, item: Item) -> Attributes:
        face, text, failed = self.faces[item.id], self.texts[item.id], item.id == self.failed
        ink = self._ink(item)
        is_on_pale = face.role in _QUIET_ROLES and not failed and not face.tints
        quiet = self.theme.quiet_text if is_on_pale else ink.text
        return {
            "label": face_label(face, quiet, self.theme, failed=failed),
            "tooltip": plain_lines([text.title, text.subtitle, text.shape, text.line, *text.tooltip]),
            "fontcolor": ink.text,
            "color": ink.line,
            "penwidth": "3" if failed else "1.2",
        } | self._link(text)

    def _ink(self, item: Item) -> Ink:
        if item.id == self.failed:
            return self.theme.failed
        face = self.faces[item.id]
        tint = middle_tint(face)
        if tint is None or self.colouring is None:
            return self.theme.roles[face.role]
        return ink_of(tint, self.colouring.by, self.theme)

    def _fill(self, item: Item) -> Attributes:
        """From the first to the last of those that an item stands for: Graphviz blends two colours and no more."""
        tints = self.faces[item.id].tints
        if self.colouring is None or len(set(tints)) < 2 or item.id == self.failed:
            return {"fillcolor": self._ink(item).fill}
        first, last = (ink_of(tint, self.colouring.by, self.theme).fill for tint in (tints[0], tints[-1]))
        return {"fillcolor": f"{first}:{last}", "gradientangle": "270"}

    def _link(self, text: ItemText) -> Attributes:
        link = source_link(self.template, *text.source) if self.template and text.source else None
        return {"URL": plain_lines([link])} if link else {}

    def _box_look(self, item: Item, depth: int) -> Attributes:
        fill = self.theme.nested[min(depth, len(self.theme.nested) - 1)]
        return {"style": "filled,rounded", "fillcolor": fill, "labeljust": "l", "labelloc": "t"}

    def _node_look(self, item: Item) -> Attributes:
        face = self.faces[item.id]
        shape, style = _SHAPES[ROLE_STYLES[face.role].shape]
        dashes = ",dashed" if ROLE_STYLES[face.role].dashed else ""
        # Outlines that lean or taper are drawn around the text's rectangle and grow large by themselves.
        margin = {} if shape in ("box", "note") else {"margin": "0.02,0.01"}
        peripheries = "2" if face.role == "checkpoint" or face.sheets else "1"
        look = {"shape": shape, "style": style + dashes, "peripheries": peripheries}
        return look | self._fill(item) | margin


def _gradient_look(look: LinkLook, theme: Theme) -> Attributes:
    if look.state == "broken":
        return {"color": theme.failed.line, "penwidth": "2"}
    if look.state == "lost":
        return {"color": theme.quiet_link, "style": "dotted"}
    if look.state == "ghost":
        return {"color": theme.failed.line, "style": "dashed"}
    return {} if look.step is None else {"penwidth": f"{WIDTHS[look.step]:g}"}
