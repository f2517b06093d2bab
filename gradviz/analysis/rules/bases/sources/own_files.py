"""The files of the program itself, read as a whole.

A recording has the lines around those that ran. Where they are too far apart, what is left may be no whole program.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.sources.source_tree import SourceTree, tree_of


def own_files(case: Case) -> Iterator[tuple[str, SourceTree]]:
    """Each file of the program, without libraries, with its source; an empty one where it cannot be read."""
    return ((file, tree_of(lines)) for file, lines in case.own_files.items())


def program_files(case: Case) -> Iterator[tuple[str, SourceTree]]:
    """The same with files that only define what others use."""
    return ((file, tree_of(lines)) for file, lines in case.files_of_program.items())


def own_tree(case: Case, file: str) -> SourceTree | None:
    """The source of one file; None if it is that of a library."""
    lines = case.own_files.get(file)
    return None if lines is None else tree_of(lines)


def goes_over_names(case: Case) -> bool:
    """Whether a file has a ``named_parameters()`` or ``named_modules()``: few do, and to read all as one takes time."""
    return any("named_" in text for lines in case.files_of_program.values() for text in lines.values())


def files_in_parts(case: Case) -> list[str]:
    """The files of which the recording has too few lines to read them as a whole."""
    return [file for file, tree in own_files(case) if not tree.module.body]
