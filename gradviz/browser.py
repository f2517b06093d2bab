"""Writes pages to temporary files, and opens them in the user's browser."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import webbrowser
from pathlib import Path

from gradviz.errors import BadInput
from gradviz.file_output import write_output

_MAX_NAME_LENGTH = 60


def check_temporary_folder() -> None:
    """Raise `BadInput` if no temporary file can be written."""
    _new_folder().rmdir()


def temporary_page(name: str, page: str) -> Path:
    """Write a page, named after a script or capture, to a new folder that no other user can read.

    The file is not removed, because a browser that restarts reads it again.
    """
    stem = Path(name).name.removesuffix(".py").removesuffix(".gradviz")[:_MAX_NAME_LENGTH] or "graph"
    path = _new_folder() / f"{stem}.html"
    try:
        write_output(path, page)
    except BaseException:
        shutil.rmtree(path.parent, ignore_errors=True)
        raise
    return path


def open_in_browser(address: str) -> bool:
    """Open the address; False if no browser was found. Text browsers do not count, as they cannot show the page."""
    return _can_show_pages() and webbrowser.open(address)


def found_browser() -> str | None:
    """How the browser is called in which pages open; None if there is none."""
    try:
        browser = webbrowser.get() if _can_show_pages() else None
    except webbrowser.Error:
        return None
    return None if browser is None else str(getattr(browser, "name", type(browser).__name__))


def _can_show_pages() -> bool:
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return has_display or "BROWSER" in os.environ


def _new_folder() -> Path:
    chosen = tempfile.tempdir
    try:
        return Path(tempfile.mkdtemp(prefix="gradviz-"))
    except OSError as error:
        where = f" in {chosen or os.environ['TMPDIR']!r}" if chosen or "TMPDIR" in os.environ else ""
        raise BadInput(
            f"cannot write a temporary file{where}: {error.strerror or error}",
            hint="set TMPDIR to a folder that you may write to, or use gradviz render -o",
        ) from error
    finally:
        # mkdtemp() sets it; the script that runs next must find it as it was.
        tempfile.tempdir = chosen
