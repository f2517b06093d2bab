"""``gradviz view``: the page of a script's graph, in the browser."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

import click

from gradviz.cli.look import check_that_it_will_be_measured, page_options, renderers_for
from gradviz.cli.options import check_option, recording_options, viewing_options
from gradviz.cli.progress import working
from gradviz.rendering.renderer import format_named


@click.command("view")
@recording_options
@check_option
@viewing_options
@page_options
def view_command(**others: Any) -> int:
    """Run SCRIPT, and open a page in the browser in which its graph can be explored.

    The page is one file in the folder for temporary files. Where there is no browser, its path is printed.
    'gradviz render SCRIPT -o OUT.html' writes the same to a place of your choice.
    """
    from gradviz.cli.marking import open_to_draw
    from gradviz.cli.rescue import recording_kept
    from gradviz.cli.source import tell_that_it_was_stopped
    from gradviz.cli.views import drawable_subjects, source_options, view_options
    from gradviz.output import write_output

    source_choice, viewing = source_options(others), view_options(others)
    (renderer,) = renderers_for([format_named("html")], others)
    check_that_it_will_be_measured(others)
    source = open_to_draw(source_choice)
    with recording_kept(source, source_choice):
        subjects = drawable_subjects(source, viewing)
        paths = _paths(source_choice.name, len(subjects))
        for subject, path in zip(subjects, paths, strict=True):
            with working(f"drawing {path.name}"):
                content = renderer.render(subject)
            write_output(path, content)
    for number, path in enumerate(paths):
        write_output("-", f"{'opened' if number == 0 and _open(path) else 'wrote'} {path}\n")
    tell_that_it_was_stopped(source, source_choice)
    return source.exit_code


def _paths(name: str, count: int) -> list[Path]:
    """Files in a folder of their own, which nobody else can write to."""
    folder = Path(tempfile.mkdtemp(prefix="gradviz-")) if count else Path()
    stem = Path(name).name.removesuffix(".py").removesuffix(".gradviz") or "graph"
    return [folder / (f"{stem}-{number}.html" if count > 1 else f"{stem}.html") for number in range(1, count + 1)]


def _open(path: Path) -> bool:
    """Whether a browser was found. Without a display, browsers for terminals would be: they cannot show the page."""
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return (has_display or "BROWSER" in os.environ) and webbrowser.open(path.as_uri())
