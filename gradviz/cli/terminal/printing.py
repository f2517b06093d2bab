"""The only module of the command line that prints: whatever a name or a message holds, a terminal only shows it.

Text for people goes through `print_text` and `tell`. What a format made for programs goes through `print_document`,
because that format has made it safe; what the user's own program would have printed itself stays as it is.
"""

from __future__ import annotations

import click

from gradviz.file_output import write_output
from gradviz.safe_text import one_line, printable, terminal_text


def print_text(text: str, *, is_styled: bool = False) -> bool:
    """Print text on standard output, `is_styled` with colours or links of gradviz; False if its reader closed it."""
    return write_output("-", terminal_text(text if is_styled else printable(text)))


def print_document(document: str) -> bool:
    """Print the content of a file on standard output, exactly; False if its reader closed it."""
    return write_output("-", document)


def tell(message: str) -> None:
    """Print one line on standard error, after the name of gradviz."""
    click.echo(terminal_text(one_line(f"gradviz: {message}")), err=True)


def tell_as_it_is(text: str) -> None:
    """Print what Python itself would print on standard error about the user's program."""
    click.echo(text, err=True, nl=False)


def draw_screen(text: str, *, before: str = "", dim: bool = False) -> None:
    """Write on the screen of the player, after codes `before` that move the cursor."""
    shown = terminal_text(text)
    click.echo(before + (click.style(shown, dim=True) if dim else shown), nl=False, color=True)
