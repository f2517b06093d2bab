"""Mermaid: a flowchart for Markdown files. GitHub, GitLab and many editors draw it.

Open boxes are subgraphs. The syntax is limited to what every release of the last years reads. Every character of a name
that could mean something to Mermaid, Markdown or HTML is written as its number. Each fill comes with the colour of the
words on it, so that they stay readable on a page with the other theme.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradviz.errors import BadInput, check_choice
from gradviz.rendering.export.diagram_items import (
    FAILURE_WORDS,
    GRADIENT_WORDS,
    drawable_links,
    legend_roles,
    nested_items,
)
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.color_by import drawn_colouring, ink_of, middle_tint
from gradviz.rendering.look.color_ramps import COLOR_BY, ColorBy, Ink
from gradviz.rendering.look.geometry import Arrows, Direction
from gradviz.rendering.look.legend_words import role_words
from gradviz.rendering.look.link_looks import WIDTHS, LinkLook, link_looks
from gradviz.rendering.look.node_label import NodeLabel
from gradviz.rendering.look.palette import ROLE_STYLES, THEMES, Role, Theme, ThemeName, failed_item
from gradviz.rendering.svg.frame import recorded_facts, remarks
from gradviz.rendering.words import item_words
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.link_words import link_texts
from gradviz.safe_text import one_line
from gradviz.view.model import Item

MAX_CHARACTERS = 50_000
"""``maxTextSize`` of Mermaid. GitHub and GitLab do not change it."""
MAX_LINKS = 500
"""``maxEdges`` of Mermaid."""

_SPECIAL = re.compile(r"[^\w .,:()\[\]/×·…↻✗✓→←+=-]")
"""Every character that is written as its number."""

# Some releases (11.x, which GitHub has) turn numbers back into characters before they read the words as Markdown. So a
# number protects a character only from the rest of Mermaid. Against Markdown, a zero-width joiner breaks up sequences
# with a meaning, and a character with a meaning of its own is replaced by one that looks the same.
_LOOK_ALIKES = str.maketrans("*`~", "∗ˋ∼")
_JOINER = "\u2060"
_MARKDOWN = re.compile(
    r"^(?=\d+[.)]|[-+#>=])"  # lists, headings, quotations, rules
    r"|(?<=\])(?=[(:])|(?<=:)(?=//|fa-)|(?<=www)(?=\.)|(?<=@)(?=\w)"  # links, icons
    r"|(?<=\$)(?=\$)|(?<![^\W_])(?=_)|(?<=_)(?![^\W_])",  # formulas, emphasis
    re.IGNORECASE,
)
_OUTLINES: dict[Role, tuple[str, str]] = {
    "operation": ("[", "]"),
    "view": ("[[", "]]"),
    "custom": ("{{", "}}"),
    "inplace": (">", "]"),
    "checkpoint": ("[(", ")]"),
    "compiled": ("[/", "\\]"),
    "parameter": ("([", "])"),
    "input": ("[/", "/]"),
    "constant": ("([", "])"),
    "carried": ("(", ")"),
    "cut": ("(", ")"),
    "cut_off": ("([", "])"),
    "root": ("([", "])"),
    "refused": ("([", "])"),
    "box": ("(", ")"),
}


@dataclass(frozen=True)
class MermaidRenderer:
    """Draws a subject as a Mermaid flowchart; refuses one that is larger than Mermaid's limits."""

    direction: Direction = "TB"
    theme: ThemeName = "light"
    arrows: Arrows = "data"
    color_by: ColorBy = "kind"

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ("TB", "LR"))
        check_choice("theme", self.theme, THEMES)
        check_choice("arrows", self.arrows, ("data", "gradient"))
        check_choice("color_by", self.color_by, COLOR_BY)

    def render(self, subject: Subject) -> str:
        backwards = self.arrows == "gradient"
        chart = _Chart(subject, THEMES[self.theme], self.color_by, backwards=backwards)
        # Mermaid has no arrowhead at the start of a link, so links and direction are reversed together.
        direction = {"TB": "BT", "LR": "RL"}[self.direction] if backwards else self.direction
        text = "\n".join([*_front_matter(subject), f"flowchart {direction}", *chart.lines(), ""])
        _check_size(len(text), chart.link_count)
        return text


def _check_size(characters: int, links: int) -> None:
    if characters <= MAX_CHARACTERS and links <= MAX_LINKS:
        return
    raise BadInput(
        f"this view is too large for Mermaid, which takes {MAX_CHARACTERS:,} characters and {MAX_LINKS} links: "
        f"it has {characters:,} and {links:,}",
        hint="show less with --depth or --max-items, or write an .svg",
    )


def _front_matter(subject: Subject) -> list[str]:
    """The title, and a width at which most notes fit on a line."""
    title = "".join(_in_yaml(sign) for sign in one_line(subject.capture.title))
    return ["---", f'title: "{title}"', "config:", "  flowchart:", "    wrappingWidth: 420", "---"]


def _in_yaml(sign: str) -> str:
    return sign if sign.isalnum() or sign in " ._-/" else f"\\U{ord(sign):08x}"


class _Chart:
    """The lines of one flowchart."""

    def __init__(self, subject: Subject, theme: Theme, color_by: ColorBy, *, backwards: bool) -> None:
        self.subject, self.view, self.theme, self.backwards = subject, subject.view, theme, backwards
        texts, gradients = item_words.item_texts(subject.facts), LinkGradients(subject.facts)
        self.colouring, self.node_labels = drawn_colouring(subject, color_by, texts)
        self.looks = link_looks(self.view, gradients, self.colouring)
        self.failed = failed_item(self.view, subject.graph)
        self.link_texts = link_texts(subject.facts, gradients, texts)
        self.links = list(drawable_links(self.view))
        self.legend = list(self._legend())

    @property
    def link_count(self) -> int:
        """All links that Mermaid counts, also the invisible ones that keep legend and notes below the graph."""
        return len(self.links) + len(self.legend) + 1

    def lines(self) -> Iterator[str]:
        for depth, item in nested_items(self.view):
            yield "  " * (depth + 1) + ("end" if item is None else self._item(item))
        for number, link in self.links:
            arrow = "-->"
            if self.node_labels[link.source].role == "constant" or self.looks[number].state == "ghost":
                arrow = "-.-" if self.backwards else "-.->"  # No gradient flows here.
            if label := self.link_texts[number].label:
                arrow += f"|{_quoted([label])}|"
            yield self._link(f"i{link.source}", arrow, f"i{link.target}")
        yield from self._below()
        yield from self._classes()

    def _link(self, upper: str, arrow: str, lower: str) -> str:
        return f"  {lower} {arrow} {upper}" if self.backwards else f"  {upper} {arrow} {lower}"

    def _item(self, item: Item) -> str:
        node_label, failed = self.node_labels[item.id], item.id == self.failed
        words = _quoted(_label_lines(node_label, failed=failed))
        if item.is_open:
            return f"subgraph i{item.id}[{words}]"
        start, end = _OUTLINES[node_label.role]
        return f"i{item.id}{start}{words}{end}:::{'failed' if failed else _class_of(node_label)}"

    def _legend(self) -> Iterator[tuple[str, Role, str]]:
        """The name of each class, with the outline and the words that explain it."""
        if self.colouring is not None:
            yield from ((_class_name(tint), "box", words) for tint, words in self.colouring.legend)
        if self.colouring is None or self.colouring.keeps_roles:
            untinted = [node_label for node_label in self.node_labels if not node_label.tints]
            yield from ((_class_name(role), role, role_words(role, self.subject)) for role in legend_roles(untinted))

    def _below(self) -> Iterator[str]:
        """The legend, then facts, error and notes, kept below the last item by invisible links."""
        last = next((f"i{item.id}" for item in reversed(self.view.items) if not item.is_open), "")
        above = last
        for name, role, words in self.legend:
            start, end = _OUTLINES[role]
            above = name.replace("is-", "legend-")
            yield f"  {above}{start}{_quoted([words])}{end}:::{name}"
            yield self._link(last, "~~~", above)
        error, notes = remarks(self.subject)
        lines = [recorded_facts(self.subject), GRADIENT_WORDS if self.backwards else "", error, *notes]
        yield f"  notes[{_quoted(lines)}]:::notes"
        if above:
            yield self._link(above, "~~~", "notes")

    def _classes(self) -> Iterator[str]:
        roles = {node_label.role for node_label in self.node_labels if not node_label.is_open and not node_label.tints}
        for role in ROLE_STYLES:
            if role in roles:
                dashes = ",stroke-dasharray:4 3" if ROLE_STYLES[role].dashed else ""
                yield f"  classDef {_class_name(role)} {_style(self.theme.roles[role])}{dashes}"
        yield from self._tint_classes()
        if self.failed is not None:
            yield f"  classDef failed {_style(self.theme.failed)},stroke-width:3px"
        yield f"  classDef notes fill:none,stroke:none,color:{self.theme.link},text-align:left"
        for shade, boxes in enumerate(self._open_boxes()):
            if boxes:
                ink = Ink(self.theme.nested[shade], self.theme.roles["box"].line, self.theme.text)
                yield f"  classDef open{shade} {_style(ink)}"
                yield f"  class {','.join(boxes)} open{shade}"
        yield f"  linkStyle default stroke:{self.theme.link}"
        yield from self._link_styles()

    def _tint_classes(self) -> Iterator[str]:
        if self.colouring is None:
            return
        used = {tint for tint, _ in self.colouring.legend}
        used |= {tint for node_label in self.node_labels if (tint := middle_tint(node_label)) is not None}
        for tint in sorted(used | (set() if self.colouring.keeps_roles else {"plain"})):
            dashes = ",stroke-dasharray:4 3" if tint == "unknown" else ""
            yield f"  classDef {_class_name(tint)} {_style(ink_of(tint, self.colouring.by, self.theme))}{dashes}"

    def _link_styles(self) -> Iterator[str]:
        """Mermaid numbers links in the order of the text."""
        by_look: dict[LinkLook, list[str]] = {}
        for index, (number, _) in enumerate(self.links):
            by_look.setdefault(self.looks[number], []).append(str(index))
        for look, indices in by_look.items():
            if style := _link_style(look, self.theme):
                yield f"  linkStyle {','.join(indices)} {style}"

    def _open_boxes(self) -> list[list[str]]:
        """The names of the open boxes of each shade."""
        shades: list[list[str]] = [[] for _ in self.theme.nested]
        for item, depth in zip(self.view.items, self.view.depths(), strict=True):
            if item.is_open:
                shades[min(depth, len(shades) - 1)].append(f"i{item.id}")
        return shades


def _class_name(kind: str) -> str:
    """A name of two words, because some roles are words of Mermaid or CSS."""
    return f"is-{kind}"


def _class_of(node_label: NodeLabel) -> str:
    return _class_name(middle_tint(node_label) or node_label.role)


def _link_style(look: LinkLook, theme: Theme) -> str:
    if look.state == "broken":
        return f"stroke:{theme.failed.line},stroke-width:3px"
    if look.state == "lost":
        return f"stroke:{theme.quiet_link},stroke-dasharray:1 4"
    if look.state == "ghost":
        return f"stroke:{theme.failed.line}"
    return "" if look.step is None else f"stroke-width:{WIDTHS[look.step]:g}px"


def _style(ink: Ink) -> str:
    return f"fill:{ink.fill},stroke:{ink.line},color:{ink.text}"


def _label_lines(node_label: NodeLabel, *, failed: bool) -> list[str]:
    first, *others = node_label.lines
    title = " · ".join(filter(None, (first.text, first.aside, node_label.badge)))
    warning = [FAILURE_WORDS] if failed else []
    flag = [node_label.flag.text] if node_label.flag else []
    return [*warning, title, *(line.text for line in others), *flag]


def _quoted(lines: Iterable[str]) -> str:
    """Lines as one quoted text that Mermaid takes literally."""
    return '"' + "<br/>".join(_literal(one_line(line)) for line in lines if line) + '"'


def _literal(words: str) -> str:
    no_markdown = _MARKDOWN.sub(_JOINER, words.translate(_LOOK_ALIKES))
    return _SPECIAL.sub(lambda match: f"#{ord(match.group())};", no_markdown)
