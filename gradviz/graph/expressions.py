"""Regular expressions that the reader wrote: compiled, or refused in one line."""

from __future__ import annotations

import re
import warnings

from gradviz.errors import BadInput


def compiled(expression: str, flags: int = 0) -> re.Pattern[str]:
    """The regular expression; raises `BadInput` for an empty one, and with Python's reason where it is none."""
    if not expression:
        raise BadInput("an empty expression fits everything", hint="write a word or a regular expression")
    try:
        with warnings.catch_warnings():
            # What other versions of Python will read in an expression is no concern of who wrote it for this one.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(expression, flags)
    except re.error as error:
        raise BadInput(f"{expression!r} is no regular expression: {error}") from error


def compiled_for_search(expression: str) -> re.Pattern[str]:
    """The same, deaf to case where the expression has no capitals."""
    pattern = compiled(expression)
    # A capital in \S or \W asks for no letter.
    letters = re.sub(r"\\.", "", expression)
    return pattern if letters != letters.lower() else compiled(expression, re.IGNORECASE)
