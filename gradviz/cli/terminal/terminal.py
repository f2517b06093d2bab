"""Finds out what standard output can show: its width, colours, links, and characters beyond ASCII.

Colours follow common conventions: https://no-color.org and https://bixense.com/clicolors.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TextIO

ColorChoice = Literal["auto", "always", "never"]

WIDTH_IN_A_PIPE = 100


@dataclass(frozen=True, slots=True)
class Terminal:
    """Properties of standard output."""

    width: int
    height: int
    is_interactive: bool
    """Whether it is a terminal; False for a pipe or a file."""
    has_colors: bool
    has_links: bool
    has_unicode: bool

    def text_width(self, chosen: int | None, minimum: int) -> int:
        """The width that the user chose; otherwise that of the terminal, but at least `minimum`."""
        return chosen or max(self.width, minimum)


def standard_output(color: ColorChoice = "auto") -> Terminal:
    """What standard output can show."""
    is_interactive = is_terminal(sys.stdout)
    size = shutil.get_terminal_size()
    return Terminal(
        width=size.columns if is_interactive or _asked_columns(os.environ) else WIDTH_IN_A_PIPE,
        height=size.lines,
        is_interactive=is_interactive,
        has_colors=wants_colors(color, os.environ, is_interactive=is_interactive),
        # The Linux console prints escape sequences that it does not know.
        has_links=is_interactive and os.environ.get("TERM") not in ("dumb", "linux"),
        has_unicode=(getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "").startswith("utf"),
    )


def _asked_columns(environment: Mapping[str, str]) -> bool:
    """Whether ``COLUMNS`` says how wide text is to be; a shell that sets it for itself does not export it."""
    asked = environment.get("COLUMNS", "")
    return asked.isdecimal() and int(asked) > 0


def is_terminal(stream: TextIO | None) -> bool:
    """Whether `stream` is a terminal; False for a closed or missing stream."""
    return stream is not None and not stream.closed and stream.isatty()


def wants_colors(choice: ColorChoice, environment: Mapping[str, str], *, is_interactive: bool) -> bool:
    """Whether to use colours: as the command line says, then the environment; otherwise in a terminal only."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return is_interactive and environment.get("TERM") != "dumb" and environment.get("CLICOLOR") != "0"
