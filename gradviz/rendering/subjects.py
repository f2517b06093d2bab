"""Turns a recorded graph into a subject for a renderer. The command line and the Python API both use this function."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.collector import collector_paused
from gradviz.graph.model import Graph
from gradviz.rendering.formats import Subject
from gradviz.view.build import ViewOptions, view_of
from gradviz.view.folding import FoldOptions


def subject_of(capture: Capture, graph: Graph, options: ViewOptions, notes: tuple[str, ...] = ()) -> Subject:
    """The view of a graph, ready for a renderer, with `notes` before the notes of the view."""
    with collector_paused(expected=len(graph.nodes)):
        viewed = view_of(graph, options)
    view = replace(viewed.view, notes=(*notes, *viewed.view.notes)) if notes else viewed.view
    return Subject(
        capture,
        viewed.graph,
        view,
        viewed.selection_notes,
        viewed.found,
        viewed.plan,
        options.marks,
        is_depth_chosen=options.fold != FoldOptions(),
    )
