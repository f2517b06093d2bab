"""Shows long text in the user's pager, as git does.

click's `echo_via_pager` is not used: it also pages short text, adds a line, treats arguments in ``$PAGER`` differently
in each version, and does not set the options of ``less`` that keep short text and colours as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from gradviz.cli.terminal.printing import print_text
from gradviz.cli.terminal.terminal import Terminal
from gradviz.safe_text import terminal_text

USUAL_PAGER = "less"
LESS_OPTIONS = "FRX"
"""Exit if the text fits on one screen, show colours, and leave the text on the screen at exit."""

_SHELL_SYNTAX = re.compile(r"[|&;<>()$`\\\"'*?\[#~=%{]")
_NO_SUCH_COMMAND = 127


def show(text: str, terminal: Terminal, *, use_pager: bool = True) -> None:
    """Write text to standard output, or to the pager if it is longer than the screen of an interactive terminal."""
    text = terminal_text(text)
    # One line is for the prompt.
    if not (use_pager and terminal.is_interactive and text.count("\n") >= terminal.height and _page(text)):
        print_text(text, is_styled=True)


def pager_command(environment: Mapping[str, str]) -> str | None:
    """The command line of the pager, for a shell; None if the user wants none, or it is not installed."""
    names = ("GRADVIZ_PAGER", "PAGER")
    command = next((environment[name] for name in names if name in environment), USUAL_PAGER).strip()
    if command in ("", "cat") or environment.get("TERM") == "dumb":
        return None
    return command if _SHELL_SYNTAX.search(command) or shutil.which(command.split()[0]) else None


def _page(text: str) -> bool:
    """Show text in the pager until the user leaves it; False if there is no pager."""
    command = pager_command(os.environ)
    if command is None:
        return False
    environment = {"LESS": LESS_OPTIONS, "LV": "-c", **os.environ}
    pager = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)
    assert pager.stdin is not None, "a pipe was asked for"
    # The user may leave before the end. ^C is for the pager, which does not exit on it.
    with suppress(BrokenPipeError, KeyboardInterrupt):
        pager.stdin.write(text.encode("utf-8", "backslashreplace"))
    with suppress(BrokenPipeError):
        pager.stdin.close()
    while pager.returncode is None:
        with suppress(KeyboardInterrupt):
            pager.wait()
    return pager.returncode != _NO_SUCH_COMMAND
