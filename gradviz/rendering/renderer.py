"""What a renderer is, and the visible table of all renderers."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from gradviz.capture.capture import Capture
from gradviz.errors import BadInput, near_matches
from gradviz.graph.model import Graph
from gradviz.graph.view import View


@dataclass(frozen=True)
class Subject:
    """What is drawn: one folded graph of a capture."""

    capture: Capture
    graph: Graph
    view: View


class Renderer(Protocol):
    """Turns a subject into a file's content. It opens no file and prints nothing."""

    def render(self, subject: Subject) -> str | bytes:
        """The whole content, text or bytes."""
        ...


@dataclass(frozen=True)
class Format:
    """One row of the table: how a format is called, how its files end, where its renderer lives."""

    name: str
    suffixes: tuple[str, ...]
    location: str
    summary: str

    def renderer(self, **options: object) -> Renderer:
        """A renderer with these options; its module is imported only now."""
        module, _, name = self.location.partition(":")
        return cast(Renderer, getattr(import_module(module), name)(**options))


FORMATS: tuple[Format, ...] = (
    Format("svg", (".svg",), "gradviz.rendering.svg:SvgRenderer", "picture for browsers and documents"),
    Format("png", (".png",), "gradviz.rendering.png:PngRenderer", "picture as pixels"),
    Format("dot", (".dot", ".gv"), "gradviz.rendering.dot:DotRenderer", "Graphviz source"),
    Format("json", (".json",), "gradviz.rendering.json:JsonRenderer", "the graph as data"),
    Format("tree", (".txt",), "gradviz.rendering.tree:TreeRenderer", "tree as plain text"),
)


def format_named(name: str) -> Format:
    """The format called `name`; raises `BadInput` with near matches."""
    for candidate in FORMATS:
        if candidate.name == name.lower():
            return candidate
    raise BadInput(f"unknown format {name!r}", hint=near_matches(name, [entry.name for entry in FORMATS]))
