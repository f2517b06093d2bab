"""Graphviz source: the same words, colours and outlines, for users who lay out or edit the picture themselves.

The `graphviz` package writes the text and quotes it. Open boxes become clusters.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import graphviz  # type: ignore[import-untyped]  # The package ships no types.

from gradviz.errors import check_choice
from gradviz.rendering.export.diagram_items import (
    FAILURE_WORDS,
    GRADIENT_WORDS,
    drawable_links,
    legend_roles,
    nested_items,
)
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.color_by import Colouring, drawn_colouring, ink_of, middle_tint
from gradviz.rendering.look.color_ramps import COLOR_BY, STEPS, ColorBy, Ink
from gradviz.rendering.look.geometry import Arrows, Direction
from gradviz.rendering.look.legend_words import role_words
from gradviz.rendering.look.link_looks import WIDTHS, LinkLook, link_looks
from gradviz.rendering.look.node_label import NodeLabel
from gradviz.rendering.look.palette import LEAF_ROLES, ROLE_STYLES, THEMES, Role, Shape, Theme, ThemeName, failed_item
from gradviz.rendering.svg.frame import recorded_facts, remarks
from gradviz.rendering.words import item_words
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.item_words import ItemText
from gradviz.rendering.words.link_words import link_texts
from gradviz.rendering.words.source_links import editor_template, source_link
from gradviz.safe_text import one_line, without_build_commands
from gradviz.view.model import Item

# Graphviz's shape and style for each outline.
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
"""Roles whose fill is so pale that the small lines may be grey."""
_MAIN_WEIGHT = "6"
"""For links between operations: Graphviz keeps heavy links straight, so the data flow stays in one column."""

Attributes = dict[str, str]


@dataclass(frozen=True)
class DotRenderer:
    """Draws a subject as DOT text."""

    direction: Direction = "TB"
    theme: ThemeName = "light"
    arrows: Arrows = "data"
    editor: str | None = None
    """The name of an editor or a link template, see `gradviz.rendering.words.source_links`; without it: no links."""
    color_by: ColorBy = "kind"

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ("TB", "LR"))
        check_choice("theme", self.theme, THEMES)
        check_choice("arrows", self.arrows, ("data", "gradient"))
        check_choice("color_by", self.color_by, COLOR_BY)
        self._links_to()

    def render(self, subject: Subject) -> str:
        theme = THEMES[self.theme]
        facts = recorded_facts(subject)
        name = one_line(subject.capture.title)
        backwards = self.arrows == "gradient"
        painter = _Painter(subject, theme, self._links_to(), self.color_by, backwards=backwards)
        dot = graphviz.Digraph("gradviz", comment=f"{name}: {facts}")
        error, notes = remarks(subject)
        lines = [facts, GRADIENT_WORDS if backwards else "", error, *notes]
        legend: Sequence[Role] = []
        if painter.colouring is None or painter.colouring.keeps_roles:
            legend = legend_roles([node_label for node_label in painter.node_labels if not node_label.tints])
        scale = scale_row(painter.colouring, theme) if painter.colouring else ""
        label = page_label(subject, lines, legend, theme, first_row=scale)
        dot.attr("graph", rankdir=self.direction, label=label, **_page(theme))
        dot.attr("node", fontname=_FONT, fontsize="12", margin="0.16,0.07", height="0.35")
        back = {"dir": "back"} if backwards else {}
        dot.attr("edge", fontname=_FONT, fontsize="10", fontcolor=theme.quiet_text)
        dot.attr("edge", color=theme.link, arrowsize="0.7", penwidth="1.2", **back)
        painter.add_items(dot)
        painter.add_links(dot)
        return without_build_commands(str(dot.source))

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
        self.texts = item_words.item_texts(subject.facts)
        self.colouring, self.node_labels = drawn_colouring(subject, color_by, self.texts)
        gradients = LinkGradients(subject.facts)
        self.looks = link_looks(self.view, gradients, self.colouring)
        self.link_texts = link_texts(subject.facts, gradients, self.texts)
        self.failed = failed_item(self.view, subject.graph)

    def add_items(self, dot: graphviz.Digraph) -> None:
        """Adds nodes, and clusters as nested blocks. The package's own ``subgraph`` would copy them at every level."""
        for depth, item in nested_items(self.view):
            indent = "\t" * (depth + 1)
            if item is None:
                dot.body.append(f"{indent}}}\n")
            elif item.is_open:
                dot.body.append(f"{indent}subgraph cluster_{item.id} {{\n")
                block = graphviz.Digraph()
                block.attr(**self._words(item), **self._box_look(depth))
                dot.body += [indent + line for line in block.body]
            else:
                node = graphviz.Digraph()
                node.node(f"i{item.id}", **self._words(item), **self._node_look(item))
                dot.body.append("\t" * depth + node.body[0])

    def add_links(self, dot: graphviz.Digraph) -> None:
        for number, link in drawable_links(self.view):
            role, words = self.node_labels[link.source].role, self.link_texts[number]
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
        node_label, text, failed = self.node_labels[item.id], self.texts[item.id], item.id == self.failed
        ink = self._ink(item)
        is_on_pale = node_label.role in _QUIET_ROLES and not failed and not node_label.tints
        quiet = self.theme.quiet_text if is_on_pale else ink.text
        return {
            "label": html_label(node_label, quiet, self.theme, failed=failed),
            "tooltip": plain_lines([text.title, text.subtitle, text.shape, text.line, *text.tooltip]),
            "fontcolor": ink.text,
            "color": ink.line,
            "penwidth": "3" if failed else "1.2",
        } | self._link(text)

    def _ink(self, item: Item) -> Ink:
        if item.id == self.failed:
            return self.theme.failed
        node_label = self.node_labels[item.id]
        tint = middle_tint(node_label)
        if tint is None or self.colouring is None:
            return self.theme.roles[node_label.role]
        return ink_of(tint, self.colouring.by, self.theme)

    def _fill(self, item: Item) -> Attributes:
        """The fill, from the tint of the first repetition to that of the last: Graphviz blends two colours at most."""
        tints = self.node_labels[item.id].tints
        if self.colouring is None or len(set(tints)) < 2 or item.id == self.failed:
            return {"fillcolor": self._ink(item).fill}
        first, last = (ink_of(tint, self.colouring.by, self.theme).fill for tint in (tints[0], tints[-1]))
        return {"fillcolor": f"{first}:{last}", "gradientangle": "270"}

    def _link(self, text: ItemText) -> Attributes:
        link = source_link(self.template, *text.source) if self.template and text.source else None
        return {"URL": plain_lines([link])} if link else {}

    def _box_look(self, depth: int) -> Attributes:
        fill = self.theme.nested[min(depth, len(self.theme.nested) - 1)]
        return {"style": "filled,rounded", "fillcolor": fill, "labeljust": "l", "labelloc": "t"}

    def _node_look(self, item: Item) -> Attributes:
        node_label = self.node_labels[item.id]
        shape, style = _SHAPES[ROLE_STYLES[node_label.role].shape]
        dashes = ",dashed" if ROLE_STYLES[node_label.role].dashed else ""
        # Graphviz draws slanted and tapered outlines around the text's rectangle, so they are large without a margin.
        margin = {} if shape in ("box", "note") else {"margin": "0.02,0.01"}
        peripheries = "2" if node_label.role == "checkpoint" or node_label.sheets else "1"
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


# Words in DOT: Graphviz's "HTML-like" labels, with bold titles and small grey lines below them.
#
# They are not HTML but a dialect of Graphviz, in which a backslash is still special.

_SMALL = "10"
_LINE_LENGTH = 110
_LEGEND_SIGNS: dict[Role, str] = {"view": "◸", "constant": "◌", "carried": "↻"}
"""For roles that colour alone does not identify."""


def html_label(node_label: NodeLabel, quiet: str, theme: Theme, *, failed: bool) -> str:
    """The label of an item; `quiet` is the colour of its small lines."""
    first, *others = node_label.lines
    title = f"<B>{_words(first.text) or ' '}</B>"
    beside = "  ".join(filter(None, map(_words, (first.aside, node_label.badge))))
    lines = [f"<B>{FAILURE_WORDS}</B>"] if failed else []
    lines.append(f"{title}  {_small(beside, quiet)}" if beside else title)
    lines += [_small(_words(line.text), quiet) for line in others]
    if node_label.flag is not None:
        # Without a chip, the flag needs a colour for text on paper. A quiet flag looks like the other small lines.
        colour = quiet if node_label.flag.level == "quiet" else theme.flags[node_label.flag.level].line
        lines.append(_small(f"<B>{_words(node_label.flag.text)}</B>", colour))
    return f"<{'<BR/>'.join(lines)}>"


def page_label(
    subject: Subject, remarks: Iterable[str], legend: Sequence[Role], theme: Theme, *, first_row: str = ""
) -> str:
    """The label below the picture: a legend of the roles, what was drawn, and the remarks, one on each line."""
    first, *others = [line for remark in remarks for line in textwrap.wrap(one_line(remark), _LINE_LENGTH)]
    swatches = (_swatch(role, role_words(role, subject), theme) for role in legend)
    rows = [first_row, "   ".join(swatches), f"<B>{_words(subject.capture.title) or ' '}</B> · {_words(first)}"]
    rows += map(_words, others)
    cells = "".join(f'<TR><TD ALIGN="LEFT">{row}</TD></TR>' for row in rows if row)
    return f'<<TABLE BORDER="0" CELLSPACING="0" CELLPADDING="1">{cells}</TABLE>>'


def scale_row(colouring: Colouring, theme: Theme) -> str:
    """The colour scale as a row of the page's label: the squares of its steps between the words for its two ends."""
    tint_words = dict(colouring.legend)
    parts = []
    for tint, words in tint_words.items():
        shown = [tint]
        if colouring.scale is not None and tint == f"step{STEPS - 1}":
            shown = [f"step{step}" for step in range(1, STEPS)]
        squares = "".join(f'<FONT COLOR="{ink_of(each, colouring.by, theme).fill}">■</FONT>' for each in shown)
        parts.append(f"{_words(words)} {squares}" if tint == "step0" else f"{squares} {_words(words)}")
    gap = "" if colouring.scale is not None else "   "
    return gap.join(parts[:2]) + "".join(f"   {part}" for part in parts[2:])


def plain_lines(lines: Iterable[str]) -> str:
    """Lines as one text that Graphviz takes literally: no HTML, no escapes, and only our line breaks."""
    text: str = graphviz.nohtml(r"\n".join(graphviz.escape(one_line(line)) for line in lines if line))
    return text


def _swatch(role: Role, name: str, theme: Theme) -> str:
    """A coloured sign. A table with real outlines would be stretched to the width of the page."""
    sign = _LEGEND_SIGNS.get(role, "■")
    return f'<FONT COLOR="{theme.roles[role].line}">{sign}</FONT> {_words(name)}'


def _small(words: str, color: str) -> str:
    return f'<FONT POINT-SIZE="{_SMALL}" COLOR="{color}">{words}</FONT>'


def _words(text: str) -> str:
    return escape(one_line(text), quote=False).replace("\\", "&#92;")
