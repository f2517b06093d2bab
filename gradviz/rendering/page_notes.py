"""Notes about a picture in the terms of the page: it has no options of a command line, but boxes that open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_OPTION = re.compile(r" \(--[^()]*\)")
"""``(--plumbing shows them)``"""
_OPENED_BY = re.compile(r": --depth \d+ opens them")
_DEPTH = re.compile(r"depth \d+ of \d+: ")


def page_notes(notes: Iterable[str]) -> Iterator[str]:
    """The notes of a still picture that are true of the page, too."""
    for note in notes:
        if not _DEPTH.match(note):  # How deep boxes are open is up to the reader here.
            yield _OPENED_BY.sub(" at first", _OPTION.sub("", note))
