"""From the options of a command to what is drawn."""

from __future__ import annotations

from typing import Any

from gradviz.capture.capture import Capture
from gradviz.cli.source import SourceOptions
from gradviz.graph.folding import FoldOptions, fold
from gradviz.graph.model import Graph
from gradviz.rendering.renderer import Subject


def source_options(options: dict[str, Any]) -> SourceOptions:
    """The part of a command's options that says what to run."""
    names = ("words", "module", "backward", "keep_going", "root", "gradients", "values")
    return SourceOptions(**{name: options[name] for name in names})


def fold_options(options: dict[str, Any]) -> FoldOptions:
    """The part of a command's options that says how much to show."""
    return FoldOptions(
        depth=options["depth"],
        unfold=options["unfold"],
        fold=options["fold"],
        show_all=options["show_all"],
        show_plumbing=options["plumbing"],
        show_constants=options["constants"],
        max_items=options["max_items"],
    )


def subject_of(capture: Capture, graph: Graph, folding: FoldOptions) -> Subject:
    """The folded graph, ready for a renderer."""
    return Subject(capture, graph, fold(graph, folding))
