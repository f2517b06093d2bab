"""What a renderer is, and the visible table of all renderers."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any, Protocol, cast

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
    """One row of the table: how a format is called, how its files end, where its renderer lives.

    The options of a format are the fields of its renderer.
    """

    name: str
    suffixes: tuple[str, ...]
    location: str
    summary: str

    def renderer(self, **options: object) -> Renderer:
        """A renderer with these options; raises `BadInput` for one that it does not have."""
        known = self.option_names()
        for name in options:
            if name not in known:
                raise BadInput(f"{self.name} has no option {name!r}", hint=near_matches(name, known))
        renderer: Renderer = self._renderer_class()(**options)
        return renderer

    def option_names(self) -> tuple[str, ...]:
        """What `renderer` takes."""
        found = self._renderer_class()
        return tuple(field.name for field in fields(found) if field.init) if is_dataclass(found) else ()

    def _renderer_class(self) -> type[Any]:
        """Its module is imported only now."""
        module, _, name = self.location.partition(":")
        return cast("type[Any]", getattr(import_module(module), name))


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
