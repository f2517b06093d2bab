"""The table of all output formats, and what a renderer is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from gradviz.errors import BadInput, near_matches

if TYPE_CHECKING:
    # ``gradviz render --help`` reads the table below and loads nothing else.
    from gradviz.analysis.diff.merged_graph import Counterparts
    from gradviz.capture.capture import Capture
    from gradviz.graph.model import Graph
    from gradviz.graph.query.find_by_expression import Found
    from gradviz.rendering.words.subject_facts import SubjectFacts
    from gradviz.view.folding import FoldPlan
    from gradviz.view.marks import Marks
    from gradviz.view.model import View


@dataclass(frozen=True)
class Subject:
    """What is drawn: one folded graph of a capture."""

    capture: Capture
    graph: Graph
    view: View
    selection_notes: tuple[str, ...] = ()
    """The notes of the view that say which part of the recording `graph` is, for formats without folding."""
    found: Found | None = None
    """The result of the user's search, if there was one."""
    plan: FoldPlan | None = None
    """How the view was folded, for formats in which the user can fold and unfold."""
    marks: Marks | None = None
    """For a graph of two runs, what differs between them."""
    counterparts: Counterparts | None = None
    """For a graph of two runs, which nodes of each its nodes stand for."""
    headline: str = ""
    """A sentence above the picture."""

    @cached_property
    def facts(self) -> SubjectFacts:
        """Facts about the whole subject that the words for single items need."""
        from gradviz.rendering.words.subject_facts import SubjectFacts

        return SubjectFacts(self.capture, self.graph, self.view, self.marks)


class Renderer(Protocol):
    """Turns a subject into the content of a file. It opens no file and prints nothing.

    What can be checked without a subject (options, required packages) is checked in the constructor: before the user's
    script runs.
    """

    def render(self, subject: Subject) -> str | bytes:
        """The whole content, as text or bytes; raises `BadInput` if the format cannot show this subject."""
        ...


@runtime_checkable
class RendersTogether(Protocol):
    """A renderer for a format that can hold several graphs of one recording."""

    def render_together(self, subjects: Sequence[Subject]) -> str | bytes:
        """One content for all subjects."""
        ...


@dataclass(frozen=True)
class Format:
    """One row of the table: name, file suffixes, and where the renderer is.

    The options of a format are the fields of its renderer.
    """

    name: str
    suffixes: tuple[str, ...]
    location: str
    summary: str

    def suffix_of(self, file_name: str) -> str:
        """The suffix of this format with which `file_name` ends, as written there; empty if there is none."""
        for suffix in self.suffixes:
            if file_name.lower().endswith(suffix) and len(file_name) > len(suffix):
                return file_name[-len(suffix) :]
        return ""

    def renderer(self, **options: object) -> Renderer:
        """A renderer with these options; raises `BadInput` for an unknown option."""
        known = self.option_names()
        for name in options:
            if name not in known:
                raise BadInput(f"{self.name} has no option {name!r}", hint=near_matches(name, known))
        self._check_types(options)
        renderer: Renderer = self._renderer_class()(**options)
        return renderer

    def option_names(self) -> tuple[str, ...]:
        """The options that `renderer` accepts."""
        found = self._renderer_class()
        return tuple(field.name for field in fields(found) if field.init) if is_dataclass(found) else ()

    def _check_types(self, options: Mapping[str, object]) -> None:
        """The renderer itself checks which strings an option accepts, and suggests near matches."""
        from typing import Literal, get_origin, get_type_hints

        from msgspec import ValidationError, convert

        types = get_type_hints(self._renderer_class())
        for name, value in options.items():
            wanted = str if get_origin(types[name]) is Literal else types[name]
            try:
                convert(value, wanted)
            except ValidationError as error:
                words = getattr(wanted, "__name__", str(wanted))
                raise BadInput(f"{name}={value!r} is of type {type(value).__name__}, not {words}") from error

    def _renderer_class(self) -> type[Any]:
        """The renderer's module is imported only here."""
        module, _, name = self.location.partition(":")
        return cast("type[Any]", getattr(import_module(module), name))


FORMATS: tuple[Format, ...] = (
    Format("svg", (".svg",), "gradviz.rendering.svg.svg:SvgRenderer", "picture for browsers and documents"),
    Format("png", (".png",), "gradviz.rendering.svg.png:PngRenderer", "picture as pixels"),
    Format("pdf", (".pdf",), "gradviz.rendering.svg.pdf:PdfRenderer", "picture for papers and print"),
    Format("dot", (".dot", ".gv"), "gradviz.rendering.export.dot:DotRenderer", "Graphviz source"),
    Format("mermaid", (".mmd", ".mermaid"), "gradviz.rendering.export.mermaid:MermaidRenderer", "diagram for Markdown"),
    Format("json", (".json",), "gradviz.rendering.export.json:JsonRenderer", "the whole graph as data"),
    Format("graphml", (".graphml",), "gradviz.rendering.export.graphml:GraphmlRenderer", "for networkx, Gephi and yEd"),
    Format(
        "model-explorer",
        (".model-explorer.json",),
        "gradviz.rendering.export.model_explorer:ModelExplorerRenderer",
        "for Google's Model Explorer",
    ),
    Format(
        "html", (".html", ".htm"), "gradviz.rendering.page.html:HtmlRenderer", "page to explore, in one offline file"
    ),
    Format("tree", (".txt",), "gradviz.rendering.tree.tree:TreeRenderer", "tree as plain text"),
)


def format_named(name: str) -> Format:
    """The format called `name`; raises `BadInput` with near matches."""
    by_name = {entry.name: entry for entry in FORMATS}
    wanted = str(name).lower()
    if wanted not in by_name:
        raise BadInput(f"unknown format {name!r}", hint=near_matches(wanted, by_name))
    return by_name[wanted]


def format_of(file_name: str) -> Format | None:
    """The format for the suffix of `file_name`. The longest suffix wins, because some end in another one."""
    found = max(FORMATS, key=lambda entry: len(entry.suffix_of(file_name)))
    return found if found.suffix_of(file_name) else None
