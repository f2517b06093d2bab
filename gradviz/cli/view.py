"""``gradviz view``: shows a script's graph as a page in the browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

import click

from gradviz.cli.options.look import check_colors_are_recorded, page_options, renderers_for
from gradviz.cli.options.shared import (
    NAMES_HELP,
    GroupedCommand,
    WholeNumber,
    check_option,
    recording_options,
    viewing_options,
)
from gradviz.cli.terminal.progress import working
from gradviz.rendering.formats import format_named

if TYPE_CHECKING:
    from gradviz.cli.captures.source import Source, SourceOptions
    from gradviz.rendering.page.html import HtmlRenderer
    from gradviz.view.build import ViewOptions


@click.command("view", cls=GroupedCommand, epilog=NAMES_HELP)
@recording_options
@check_option
@click.option("--serve", is_flag=True, help="Serve the page on this machine; draw it again when RECORDING changes.")
@click.option("--port", type=WholeNumber(1, 65535), metavar="N", help="Port for --serve (default: any free one).")
@click.option("-o", "--output", hidden=True)
@viewing_options
@page_options
def view_command(serve: bool, port: int | None, output: str | None, **others: Any) -> int:
    """Run SCRIPT, and explore its graph on a page in the browser.

    The page is one file in the folder for temporary files. If there is no browser, its path is printed.
    'gradviz render SCRIPT -o OUT.html' writes the same page to a file of your choice.

    With --serve no file is written: the page has a secret address on this machine, until Ctrl-C. SCRIPT is run once;
    to update the page, serve a RECORDING and record it again.
    """
    from gradviz.cli.captures.views import source_options, view_options

    if output is not None:
        from gradviz.errors import BadInput

        name = others["words"][0] if others["words"] else "SCRIPT"
        page = output if output.endswith((".html", ".htm")) else str(PurePath(output).with_suffix(".html"))
        raise BadInput("view opens a page and writes no file", hint=f"gradviz render {name} -o {page}")
    viewing = view_options(others)
    (renderer,) = renderers_for([format_named("html")], others)
    check_colors_are_recorded(others)
    viewer = _Viewer(source_options(others), viewing, cast("HtmlRenderer", renderer))
    if serve:
        return _serve(viewer, port)
    if port is not None:
        from gradviz.errors import BadInput

        raise BadInput(f"--port {port} has no effect without --serve", hint="add --serve")
    return _open_file(viewer)


@dataclass(frozen=True)
class _Viewer:
    """What to show, and how."""

    choice: SourceOptions
    viewing: ViewOptions
    renderer: HtmlRenderer

    def opened(self) -> Source:
        from gradviz.cli.captures.checked_source import open_for_drawing

        return open_for_drawing(self.choice)

    def page(self, source: Source, version: int | None = None) -> str:
        """One page for all graphs; with a version, the page asks its server for a newer one."""
        from gradviz.cli.captures.kept_recording import keeping_recording
        from gradviz.cli.captures.views import drawable_subjects

        with keeping_recording(source, self.choice):
            subjects = drawable_subjects(source, self.viewing)
            with working("drawing the page"):
                return self.renderer.page(subjects, version)


def _open_file(viewer: _Viewer) -> int:
    from gradviz.browser import check_temporary_folder, open_in_browser, temporary_page
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.source import report_early_stop
    from gradviz.cli.terminal.printing import print_text

    check_temporary_folder()
    source = viewer.opened()
    page = viewer.page(source)
    with keeping_recording(source, viewer.choice):
        path = temporary_page(viewer.choice.name, page)
    print_text(f"{'opened' if open_in_browser(path.as_uri()) else 'wrote'} {path}\n")
    report_early_stop(source, viewer.choice)
    return source.exit_code


def _serve(viewer: _Viewer, port: int | None) -> int:
    """Serve until Ctrl-C. A script is run once, as that may take long and change files; a capture is read again."""
    from gradviz.cli.captures.source import report_early_stop
    from gradviz.cli.serving.page_server import check_port, serve
    from gradviz.cli.serving.served_page import ServedPage
    from gradviz.errors import BadCapture

    check_port(port)
    if viewer.choice.is_capture:

        def drawn(version: int) -> str:
            if not viewer.choice.is_capture:
                raise BadCapture(f"{viewer.choice.name} is not a recording any more")  # it must not be run as a script
            return viewer.page(viewer.opened(), version)

        serve(ServedPage(drawn, viewer.choice.file), port)
        return 0
    source = viewer.opened()
    page = viewer.page(source)
    report_early_stop(source, viewer.choice)
    serve(ServedPage(lambda _: page, None), port)
    return source.exit_code
