"""The lines of source that go into a capture: those that it refers to, and the reader's own around them."""

from __future__ import annotations

import linecache
from collections import defaultdict
from collections.abc import Iterable

from gradviz.capture.capture import ScriptError
from gradviz.graph.call_log import CallLog
from gradviz.graph.model import Graph

CONTEXT_LINES = 10
"""Lines kept above and below each of the reader's own, so that a short script is there as a whole."""


def kept_lines(graphs: Iterable[Graph], calls: CallLog | None, error: ScriptError | None) -> dict[str, dict[int, str]]:
    """By file and line number, without line ends; of files that cannot be read there are none."""
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for graph in graphs:
        _want_sites(wanted, graph)
        for function in graph.custom_functions:
            wanted[function.file].update(range(function.first_line, function.last_line + 1))
    if calls is not None:
        _want_sites(wanted, calls)
        for definition in calls.definitions:
            wanted[definition.file].update(range(definition.first_line, definition.last_line + 1))
        for holder in (tensor.holder for tensor in calls.tensors if tensor.holder is not None):
            for file, line in holder.lines:
                wanted[file].update(_around(line))
    if error is not None and error.call_site is not None:
        file, line = error.call_site
        wanted[file].update(_around(line))
    kept = {file: _lines_of(file, numbers) for file, numbers in sorted(wanted.items())}
    return {file: lines for file, lines in kept.items() if lines}


def _want_sites(wanted: defaultdict[str, set[int]], holder: Graph | CallLog) -> None:
    for site in holder.call_sites:
        wanted[site.file].update([site.line] if site.is_library else _around(site.line))


def _around(line: int) -> range:
    return range(line - CONTEXT_LINES, line + CONTEXT_LINES + 1)


def _lines_of(file: str, numbers: set[int]) -> dict[int, str]:
    lines = linecache.getlines(file)
    return {number: lines[number - 1].rstrip("\r\n") for number in sorted(numbers) if 0 < number <= len(lines)}
