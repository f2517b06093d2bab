"""``gradviz tree``: a script's graph in the terminal."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click

from gradviz.cli.options import folding_options, recording_options


@click.command("tree")
@recording_options
@folding_options
@click.option("--width", type=click.IntRange(min=20), metavar="N", help="Columns; the terminal's, or 100 in a pipe.")
@click.option("--ascii", is_flag=True, help="No lines and signs beyond ASCII.")
def tree_command(width: int | None, ascii: bool, **others: Any) -> int:
    """Run SCRIPT, and print the autograd graph that its first backward() walks: from the loss down to the leaves."""
    from gradviz.cli.output import write_output
    from gradviz.cli.rescue import recording_kept
    from gradviz.cli.source import open_source, tell_that_it_was_stopped
    from gradviz.cli.views import fold_options, source_options, subject_of
    from gradviz.rendering.tree import TreeRenderer

    source_choice, folding = source_options(others), fold_options(others)
    source = open_source(source_choice, own_output=True)
    is_terminal = sys.stdout.isatty()
    renderer = TreeRenderer(
        width=width or (shutil.get_terminal_size().columns if is_terminal else 100),
        color=is_terminal,
        ascii=ascii or not _writes_unicode(),
    )
    with recording_kept(source, source_choice):
        for graph in source.graphs:
            if len(source.graphs) > 1 and graph.backward is not None:
                write_output("-", f"backward {graph.backward.number}\n")
            write_output("-", renderer.render(subject_of(source.capture, graph, folding)))
    tell_that_it_was_stopped(source, source_choice)
    return source.exit_code


def _writes_unicode() -> bool:
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    return encoding.startswith("utf")
