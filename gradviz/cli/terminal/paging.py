"""Long output through the reader's pager, as git does it.

click's `echo_via_pager` is not used: it pages short output too, adds a line, takes no arguments in ``$PAGER`` in some
versions and a shell in others, and sets none of ``less``'s options that keep short output and colours as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from gradviz.cli.terminal.terminal import Terminal
from gradviz.output import write_output

USUAL_PAGER = "less"
LESS_OPTIONS = "FRX"
"""Leave at once what fits one screen, show colours, and let the text stand when it is left."""

_SHELL_SYNTAX = re.compile(r"[|&;<>()$`\\\"'*?\[#~=%{]")
_NO_SUCH_COMMAND = 127


def show(text: str, terminal: Terminal, *, use_pager: bool = True) -> None:
    """Write text to standard output, or to the pager where somebody looks at it and it is longer than the screen."""
    # A line is left for the prompt.
    if not (use_pager and terminal.is_interactive and text.count("\n") >= terminal.height and _page(text)):
        write_output("-", text)


def pager_command(environment: Mapping[str, str]) -> str | None:
    """The pager's command line, for a shell; None where the reader wants none, or it is not installed."""
    names = ("GRADVIZ_PAGER", "PAGER")
    command = next((environment[name] for name in names if name in environment), USUAL_PAGER).strip()
    if command in ("", "cat") or environment.get("TERM") == "dumb":
        return None
    return command if _SHELL_SYNTAX.search(command) or shutil.which(command.split()[0]) else None


def _page(text: str) -> bool:
    """Let the reader read it, until they leave the pager; False where there is none."""
    command = pager_command(os.environ)
    if command is None:
        return False
    environment = {"LESS": LESS_OPTIONS, "LV": "-c", **os.environ}
    pager = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)
    assert pager.stdin is not None, "a pipe was asked for"
    # The reader may leave before the end; ^C is the pager's, which does not end with it.
    with suppress(BrokenPipeError, KeyboardInterrupt):
        pager.stdin.write(text.encode("utf-8", "backslashreplace"))
    with suppress(BrokenPipeError):
        pager.stdin.close()
    while pager.returncode is None:
        with suppress(KeyboardInterrupt):
            pager.wait()
    return pager.returncode != _NO_SUCH_COMMAND
