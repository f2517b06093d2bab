"""From a recorded graph to what a renderer draws: the one way there, for commands and for Python."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph
from gradviz.rendering.formats import Subject
from gradviz.view.build import ViewOptions, view_of


def subject_of(capture: Capture, graph: Graph, options: ViewOptions, notes: tuple[str, ...] = ()) -> Subject:
    """What is shown of a graph, ready for a renderer, with `notes` before those of the view."""
    viewed = view_of(graph, options)
    view = replace(viewed.view, notes=(*notes, *viewed.view.notes)) if notes else viewed.view
    return Subject(capture, viewed.graph, view, viewed.selection_notes, viewed.found, viewed.plan)
