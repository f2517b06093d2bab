"""Whether a program may seed a generator between two draws, or before each of them, as far as its lines show it."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location
from gradviz.analysis.sources.parsed_lines import indent_of

_FAR = 20
_SEEDS = re.compile("seed|generator|rng")


def may_callers_seed(case: Case, head: int, tail: int) -> bool:
    """Whether a function that leads to both calls may seed before each: in the lines up to it, from the line where the
    ways to the two calls part."""
    ways = [list(callers(case.dataflow, row))[::-1] for row in sorted((head, tail))]
    for one, other in zip(*ways, strict=False):
        if (one.file, one.line) != (other.file, other.line):
            low, high = sorted((one.line, other.line))
            return one.file == other.file and _has_seed(case, one.file, low, high)
        if _has_seed(case, one.file, _first_of_block(case, one.file, one.line), one.line):
            return True
    return False


def _has_seed(case: Case, file: str, low: int, high: int) -> bool:
    return any(_SEEDS.search(case.source_line(Location(file, line)) or "") for line in range(low, high + 1))


def may_be_seeded(case: Case, first: Location, second: Location) -> bool:
    """Whether a seed may make both permutations the same, as far as the lines show it."""
    if first.file != second.file or abs(second.line - first.line) > _FAR:
        return True
    low, high = sorted((first.line, second.line))
    low = _first_of_block(case, first.file, low) if low == high else low
    return _has_seed(case, first.file, low, high)


def _first_of_block(case: Case, file: str, line: int) -> int:
    """The line that begins the function, or the loop, around a line: what runs twice may seed before it draws."""
    text = case.source_line(Location(file, line)) or ""
    indent, first = indent_of(text), line
    for above in range(line - 1, max(line - _FAR, 0), -1):
        text = case.source_line(Location(file, above)) or ""
        if not indent or (text.strip() and not indent_of(text) and not _BEGINS.match(text)):
            break
        first = above
        if text.strip() and indent_of(text) < indent:
            indent = indent_of(text)
            if _BEGINS.match(text):
                break
    return first


_BEGINS = re.compile(r"\s*(async\s+)?(def|for|while)\b")
