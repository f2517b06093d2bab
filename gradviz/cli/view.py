"""``gradviz view``: the page of a script's graph, in the browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

from gradviz.cli.options.look import check_that_it_will_be_measured, page_options, renderers_for
from gradviz.cli.options.shared import check_option, recording_options, viewing_options
from gradviz.cli.terminal.progress import working
from gradviz.rendering.formats import format_named

if TYPE_CHECKING:
    from gradviz.cli.captures.source import Source, SourceOptions
    from gradviz.rendering.page.html import HtmlRenderer
    from gradviz.view.build import ViewOptions


@click.command("view")
@recording_options
@check_option
@click.option("--serve", is_flag=True, help="Serve the page to this machine; it is drawn anew when CAPTURE changes.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Where to serve; without it, any free port.")
@viewing_options
@page_options
def view_command(serve: bool, port: int | None, **others: Any) -> int:
    """Run SCRIPT, and open a page in the browser in which its graph can be explored.

    The page is one file in the folder for temporary files. Where there is no browser, its path is printed.
    'gradviz render SCRIPT -o OUT.html' writes the same to a place of your choice.

    With --serve no file is written: the page has an address on this machine that nobody can guess, until Ctrl-C.
    SCRIPT is run once; to watch it change, serve a CAPTURE and record that again.
    """
    from gradviz.cli.captures.views import source_options, view_options

    viewing = view_options(others)
    (renderer,) = renderers_for([format_named("html")], others)
    check_that_it_will_be_measured(others)
    viewer = _Viewer(source_options(others), viewing, cast("HtmlRenderer", renderer))
    if serve:
        return _serve(viewer, port)
    if port is not None:
        from gradviz.errors import BadInput

        raise BadInput(f"--port {port} says where to serve, and nothing is served", hint="add --serve")
    return _open_file(viewer)


@dataclass(frozen=True)
class _Viewer:
    """What the options say: what to show, and how."""

    choice: SourceOptions
    viewing: ViewOptions
    renderer: HtmlRenderer

    def opened(self) -> Source:
        from gradviz.cli.captures.marking import open_to_draw

        return open_to_draw(self.choice)

    def page(self, source: Source, version: int | None = None) -> str:
        """One page for all graphs; with a version, it asks whoever serves it for a newer one."""
        from gradviz.cli.captures.rescue import recording_kept
        from gradviz.cli.captures.views import drawable_subjects

        with recording_kept(source, self.choice):
            subjects = drawable_subjects(source, self.viewing)
            with working("drawing the page"):
                return self.renderer.page(subjects, version)


def _open_file(viewer: _Viewer) -> int:
    from gradviz.browser import check_temporary_folder, open_in_browser, temporary_page
    from gradviz.cli.captures.rescue import recording_kept
    from gradviz.cli.captures.source import tell_that_it_was_stopped
    from gradviz.output import write_output

    check_temporary_folder()
    source = viewer.opened()
    page = viewer.page(source)
    with recording_kept(source, viewer.choice):
        path = temporary_page(viewer.choice.name, page)
    write_output("-", f"{'opened' if open_in_browser(path.as_uri()) else 'wrote'} {path}\n")
    tell_that_it_was_stopped(source, viewer.choice)
    return source.exit_code


def _serve(viewer: _Viewer, port: int | None) -> int:
    """Until Ctrl-C. A script is run once, as its run may take long and change things; a capture is followed."""
    from gradviz.cli.captures.source import tell_that_it_was_stopped
    from gradviz.cli.serving.page_server import check_port, serve
    from gradviz.cli.serving.served_page import ServedPage
    from gradviz.errors import BadCapture

    check_port(port)
    if viewer.choice.is_capture:

        def drawn(version: int) -> str:
            if not viewer.choice.is_capture:
                raise BadCapture(f"{viewer.choice.name} is no capture any more")  # so it is not run as a script
            return viewer.page(viewer.opened(), version)

        serve(ServedPage(drawn, viewer.choice.file), port)
        return 0
    source = viewer.opened()
    page = viewer.page(source)
    tell_that_it_was_stopped(source, viewer.choice)
    serve(ServedPage(lambda _: page, None), port)
    return source.exit_code
