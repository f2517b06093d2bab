"""From the options of a command to what is drawn."""

from __future__ import annotations

from typing import Any

from gradviz.cli.source import SourceOptions
from gradviz.graph import view_keywords
from gradviz.graph.viewing import ViewOptions


def source_options(options: dict[str, Any]) -> SourceOptions:
    """The part of a command's options that says what to run."""
    names = ("words", "module", "backward", "keep_going", "root", "gradients", "values")
    return SourceOptions(**{name: options[name] for name in names})


def view_options(options: dict[str, Any]) -> ViewOptions:
    """The part of a command's options that says what to show, and how much of it."""
    return view_keywords.view_options({name: options[name] for name in view_keywords.KEYWORDS if name in options})
