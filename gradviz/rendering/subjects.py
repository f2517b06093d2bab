"""From a recorded graph to what a renderer draws: the one way there, for commands and for Python."""

from __future__ import annotations

from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph
from gradviz.graph.viewing import ViewOptions, view_of
from gradviz.rendering.renderer import Subject


def subject_of(capture: Capture, graph: Graph, options: ViewOptions) -> Subject:
    """What is shown of a graph, ready for a renderer."""
    viewed = view_of(graph, options)
    return Subject(capture, viewed.graph, viewed.view, viewed.selection_notes, viewed.found)
