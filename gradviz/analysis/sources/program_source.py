"""The files of a program, read as one: what one file defines, and another gives to it.

>>> made = program_source({"a.py": {1: "from b import words", 2: "use(words)"}, "b.py": {1: "words = ['bias']"}})
>>> (value,) = made.tree.values_of(made.tree.key_of(made.tree.module.body[1].value.args[0]))
>>> value.elts[0].value, made.location(value.lineno)
('bias', Location(file='b.py', line=1))
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from operator import attrgetter

from msgspec import Struct

from gradviz.analysis.finding import Location
from gradviz.analysis.sources.source_tree import SourceTree, tree_of

_MOST_LINES = 10_000


class _File(Struct, frozen=True):
    name: str
    offset: int
    """What is added to its line numbers: the lines of the files before it."""


class ProgramSource(Struct, frozen=True):
    """One tree of all files. A name that several modules give a value counts as one that is bound several times."""

    tree: SourceTree
    files: tuple[_File, ...]
    left_out: tuple[str, ...] = ()
    """Files that are no part of it."""

    def location(self, line: int) -> Location:
        """File and line of a line of the tree."""
        file = self.files[bisect_left(self.files, line, key=attrgetter("offset")) - 1]
        return Location(file.name, line - file.offset)


def program_source(sources: Mapping[str, Mapping[int, str]]) -> ProgramSource:
    """The files one behind the other. Of several, those are left out of which the first lines are not known, or that
    cannot be read, and what is beyond 10,000 lines."""
    if len(sources) == 1:
        ((name, text),) = sources.items()
        return ProgramSource(tree_of(text), (_File(name, 0),))
    lines = dict[int, str]()
    files, end = list[_File](), 0
    for name, text in sources.items():
        if 1 in text and end + max(text) <= _MOST_LINES and tree_of(text).module.body:
            files.append(_File(name, end))
            lines.update((number + end, line) for number, line in text.items())
            end += max(text)
    read = {file.name for file in files}
    return ProgramSource(tree_of(lines or {1: ""}), tuple(files), tuple(name for name in sources if name not in read))
