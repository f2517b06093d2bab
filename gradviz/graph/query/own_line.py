"""Which line of source a reader would call the reason for a node: the innermost one of their own."""

from __future__ import annotations

import re

from gradviz.graph.model import CallSite, Graph


def readers_lines(graph: Graph) -> list[int]:
    """For each call site the index of the innermost one around it that is not in an installed package.

    Where all are, the reader's program is itself such a package, and the call site stands for itself.
    """
    own: list[int | None] = []
    for index, site in enumerate(graph.call_sites):
        outer = None if site.caller is None else own[site.caller]
        own.append(outer if site.is_library else index)
    return [index if found is None else found for index, found in enumerate(own)]


def line_words(site: CallSite) -> str:
    """``train.py:41``."""
    return line_words_of(site.file, site.line)


def line_words_of(file: str, line: int | None) -> str:
    """The same of a line that no call site is known for."""
    return f"{file_name(file)}:{line}"


def file_name(path: str) -> str:
    """The last part of a path of any system."""
    return _SEPARATOR.split(path)[-1] if "\\" in path else path.rpartition("/")[2]


def path_parts(path: str) -> list[str]:
    """Its folders and its last part, less those that only say where the path begins."""
    return [part for part in _SEPARATOR.split(path) if part not in ("", ".", "..")]


_SEPARATOR = re.compile(r"/|\\(?!ud[89a-f][0-9a-f]{2})")
"""The backslash in ``m\\udce4in.py`` is none: so captures write what is not UTF-8 in a name."""


def function_words(site: CallSite) -> str:
    """The function without those around it: ``main.<locals>.step`` is ``step``."""
    return site.function.rpartition("<locals>.")[2]
