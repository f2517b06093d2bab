"""Regular expressions that the reader wrote: compiled, or refused in one line."""

from __future__ import annotations

import re

from gradviz.errors import BadInput


def compiled(expression: str) -> re.Pattern[str]:
    """The regular expression; raises `BadInput` with Python's reason why it is none."""
    try:
        return re.compile(expression)
    except re.error as error:
        raise BadInput(f"{expression!r} is no regular expression: {error}") from error


def compiled_for_search(expression: str) -> re.Pattern[str]:
    """The same, deaf to case where the expression has no capitals."""
    pattern = compiled(expression)
    # A capital in \S or \W asks for no letter.
    letters = re.sub(r"\\.", "", expression)
    return pattern if letters != letters.lower() else re.compile(expression, re.IGNORECASE)
