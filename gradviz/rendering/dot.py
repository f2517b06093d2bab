"""Graphviz source: the same words, colours and shapes, for those who want to lay out or edit the picture themselves.

The `graphviz` package writes the text and does its quoting. Open boxes become clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import graphviz  # type: ignore[import-untyped]  # The package ships no types.

from gradviz.errors import BadInput
from gradviz.graph.view import Item, View
from gradviz.rendering import labels
from gradviz.rendering.faces import Face, faces_of, printable
from gradviz.rendering.geometry import Direction
from gradviz.rendering.labels import ItemText
from gradviz.rendering.palette import ROLE_STYLES, THEMES, Shape, Theme, ThemeName, failed_item
from gradviz.rendering.renderer import Subject
from gradviz.rendering.svg_frame import recorded_facts, remarks

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
Attributes = dict[str, str]
FAILURE_WORDS = "✗ backward failed here"


@dataclass(frozen=True)
class DotRenderer:
    """Draws a subject as DOT text."""

    direction: Direction = "TB"
    theme: ThemeName = "light"

    def __post_init__(self) -> None:
        if self.theme not in THEMES:
            raise BadInput(f"unknown theme {self.theme!r} for DOT", hint="choose light or dark")

    def render(self, subject: Subject) -> str:
        view, theme = subject.view, THEMES[self.theme]
        texts = labels.item_texts(subject.capture, subject.graph, view)
        faces = faces_of(subject.graph, view, texts)
        failed = failed_item(view, subject.graph)
        dot = graphviz.Digraph("gradviz", comment=_comment(subject))
        dot.attr("graph", **_graph_attributes(subject, theme, self.direction))
        dot.attr("node", fontname="Helvetica,Arial,sans-serif", fontsize="12", margin="0.16,0.07", height="0.35")
        dot.attr("edge", color=theme.link, arrowsize="0.7", penwidth="1.2")
        _add_items(dot, view, lambda item: _attributes(item, faces[item.id], texts[item.id], theme, failed))
        _add_links(dot, view, faces, theme)
        return str(dot.source)


def _comment(subject: Subject) -> str:
    return f"{_flat(subject.capture.program.name)}: {recorded_facts(subject)}"


def _graph_attributes(subject: Subject, theme: Theme, direction: Direction) -> Attributes:
    error, notes = remarks(subject)
    below = [error, *notes]
    lines = [f"{subject.capture.program.name} · {recorded_facts(subject)}", *below]
    return {
        "rankdir": direction,
        "bgcolor": theme.page,
        "fontname": "Helvetica,Arial,sans-serif",
        "fontsize": "11",
        "fontcolor": theme.quiet_text,
        "label": _escaped_lines(lines, end=r"\l"),
        "labelloc": "b",
        "labeljust": "l",
        "nodesep": "0.3",
        "ranksep": "0.4",
        "tooltip": " ",
    }


def _add_items(dot: graphviz.Digraph, view: View, attributes: Callable[[Item], Attributes]) -> None:
    """Nodes and clusters, written as nested blocks without recursion: boxes can nest deeper than Python's stack."""
    children = view.children()
    waiting: list[Item | None] = list(reversed(children.get(None, [])))
    depth = 1
    while waiting:
        item = waiting.pop()
        if item is None:
            depth -= 1
            dot.body.append("\t" * depth + "}\n")
        elif not item.is_open:
            node = graphviz.Digraph()
            node.node(f"i{item.id}", **attributes(item))
            dot.body.append("\t" * (depth - 1) + node.body[0])
        else:
            dot.body.append("\t" * depth + f"subgraph cluster_{item.id} {{\n")
            depth += 1
            block = graphviz.Digraph()
            block.attr(**attributes(item))
            dot.body += ["\t" * (depth - 1) + line for line in block.body]
            waiting += [None, *reversed(children.get(item.id, []))]


def _attributes(item: Item, face: Face, text: ItemText, theme: Theme, failed: int | None) -> Attributes:
    ink = theme.failed if item.id == failed else theme.roles[face.role]
    common = {
        "label": _label(face, FAILURE_WORDS if item.id == failed else ""),
        "tooltip": _escaped_lines([text.title, text.subtitle, text.shape, text.line, *text.tooltip]),
        "color": ink.line,
        "fontcolor": ink.text,
        "penwidth": "3" if item.id == failed else "1.2",
    }
    if item.is_open:
        fill = theme.nested[0] if item.parent is None else theme.nested[1]
        return common | {"style": "filled,rounded", "fillcolor": fill, "labeljust": "l", "labelloc": "t"}
    shape, style = _SHAPES[ROLE_STYLES[face.role].shape]
    peripheries = "2" if face.role == "checkpoint" or face.sheets else "1"
    dashes = ",dashed" if ROLE_STYLES[face.role].dashed else ""
    # Outlines that lean or taper are drawn around the text's rectangle and grow large by themselves.
    margin = {} if shape in ("box", "note") else {"margin": "0.02,0.01"}
    look = {"shape": shape, "style": style + dashes, "fillcolor": ink.fill, "peripheries": peripheries}
    return common | look | margin


def _label(face: Face, warning: str) -> str:
    first, *others = face.lines
    title = "  ".join(filter(None, (first.text, first.aside, face.badge)))
    return _escaped_lines([warning, title, *(line.text for line in others)])


def _escaped_lines(lines: Iterable[str], end: str = "") -> str:
    """Lines as one quoted text that Graphviz takes literally: no HTML, no escapes, no line break but ours."""
    escaped = (graphviz.escape(_flat(line)) for line in lines if line)
    text: str = graphviz.nohtml((end or r"\n").join(escaped) + end)
    return text


def _add_links(dot: graphviz.Digraph, view: View, faces: Sequence[Face], theme: Theme) -> None:
    for link in view.links:
        if view.items[link.source].is_open or view.items[link.target].is_open:
            continue  # A cluster has no place for an edge to end; links of a folded view join closed items only.
        quiet = {"style": "dashed", "color": theme.quiet_link} if faces[link.source].role == "constant" else {}
        dot.edge(f"i{link.source}", f"i{link.target}", **quiet)


def _flat(text: str) -> str:
    return " ".join(printable(text).split())
