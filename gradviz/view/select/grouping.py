"""Replaces module calls by functions of the program or by source lines: a graph that folds by those.

A recording says which lines were running when an operation was made, but not where one call ends and the next from the
same line begins. So a box is a run of operations, adjacent in creation order, that were made under the same chain of
callers. A loop that calls ``step()`` makes one box; folding finds the repeats in it.

Frames of installed packages are skipped: a function is nested in the user's own function that led to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from msgspec.structs import replace

from gradviz.graph.model import Graph, ModuleScope, Node
from gradviz.graph.query.own_line import function_words, line_words, own_lines_or_none

Boxes = Literal["function", "line"]


@dataclass(frozen=True, slots=True)
class Regrouped:
    """A graph with other boxes, and notes on them."""

    graph: Graph
    notes: tuple[str, ...] = ()


def regroup(graph: Graph, by: Boxes) -> Regrouped:
    """The same graph with boxes for functions or lines instead of module calls."""
    frames = _frames_by_function(graph) if by == "function" else _frames_by_line(graph)
    operations = [node for node in graph.nodes if not node.is_leaf]
    outermost = frames.common_to({frames.of(node) for node in operations})
    runs = _Runs(frames, outermost)
    run_of = {node.id: runs.run_in(frames.of(node)) for node in operations}
    sizes = _sizes(runs.found, run_of)
    are_boxes = [True] * len(sizes) if by == "function" else _lines_worth_a_box(runs.found, sizes)
    scopes = _Scopes(graph, frames, by)
    for run, is_box in zip(runs.found, are_boxes, strict=True):
        scopes.add(run, is_box=is_box)
    inside = {node: scopes.of_run[run] for node, run in run_of.items() if run >= 0}
    nodes = tuple(replace(node, scope=inside.get(node.id)) for node in graph.nodes)
    notes = _notes(graph, frames, outermost, by) if scopes.made else (f"no {by} of the program makes a box here",)
    # A cut made no node, so it is in no run: it gets the box of the node that took its result.
    cut_edges = tuple(
        replace(edge, scope=None if edge.node is None else inside.get(edge.node)) for edge in graph.cut_edges
    )
    return Regrouped(replace(graph, nodes=nodes, scopes=tuple(scopes.made), cut_edges=cut_edges), notes)


def _notes(graph: Graph, frames: _Frames, outermost: int, by: Boxes) -> tuple[str, ...]:
    """What the recording cannot distinguish, and what has no box because it would surround everything."""
    apart = "calls of a function from one line, one after the other, are one box: a recording does not distinguish them"
    site, function = frames.lines[outermost], frames.table[outermost].function
    where = "" if site is None else f" at {line_words(graph.call_sites[site])}"
    if by == "line":
        return (f"everything was computed{where}, so that line has no box of its own",) if where else ()
    around = f"everything was computed in {function}(){where and f', called{where}'}, so it has no box of its own"
    return (apart, around) if function else (apart,)


class _Frame(NamedTuple):
    """A function called from one line, or a line that ran, within another frame."""

    outer: int
    file: str
    function: str
    key: int | None
    """The number of the line; for a function, the call site that called it."""


@dataclass(slots=True)
class _Frames:
    """Numbered frames, 0 for the outside, and for each call site the innermost frame."""

    at: list[int] = field(default_factory=list)
    table: list[_Frame] = field(default_factory=lambda: [_Frame(0, "", "", None)])
    depth: list[int] = field(default_factory=lambda: [0])
    lines: list[int | None] = field(default_factory=lambda: [None])
    """For each frame a call site with its line."""
    _known: dict[_Frame, int] = field(default_factory=dict)

    def number(self, frame: _Frame, call_site: int | None) -> int:
        if frame not in self._known:
            self._known[frame] = len(self.table)
            self.table.append(frame)
            self.depth.append(self.depth[frame.outer] + 1)
            self.lines.append(call_site)
        return self._known[frame]

    def of(self, node: Node) -> int:
        return 0 if node.call_site is None else self.at[node.call_site]

    def common_to(self, numbers: set[int]) -> int:
        """The innermost frame around all of these frames."""
        common = next(iter(numbers), 0)
        for number in numbers:
            while number != common:
                if self.depth[number] > self.depth[common]:
                    number = self.table[number].outer
                else:
                    common = self.table[common].outer
        return common


def _frames_by_function(graph: Graph) -> _Frames:
    frames = _Frames()
    own = own_lines_or_none(graph)
    for site in graph.call_sites:
        around, caller = (0, None) if site.caller is None else (frames.at[site.caller], own[site.caller])
        # A comprehension or a lambda counts as part of the function around it.
        if not site.is_library and not function_words(site).startswith("<"):
            around = frames.number(_Frame(around, site.file, function_words(site), caller), caller)
        frames.at.append(around)
    return frames


def _frames_by_line(graph: Graph) -> _Frames:
    frames = _Frames()
    for index, site in enumerate(graph.call_sites):
        around = 0 if site.caller is None else frames.at[site.caller]
        if not site.is_library:
            around = frames.number(_Frame(around, site.file, site.function, site.line), index)
        frames.at.append(around)
    return frames


class _Run(NamedTuple):
    """Adjacent operations in one frame; `around` is the run around it, -1 for none."""

    frame: int
    around: int


class _Runs:
    """Visits the operations in order, and begins a run whenever the chain of callers changes."""

    def __init__(self, frames: _Frames, outermost: int) -> None:
        self.frames, self.outermost = frames, outermost
        self.found: list[_Run] = []
        self._current: dict[int, int] = {}
        """The current run of each frame that is running, outermost first."""

    def run_in(self, frame: int) -> int:
        """The run of the next operation, which was made in `frame`; -1 if it is in no run."""
        beginning = []
        while self.frames.depth[frame] > self.frames.depth[self.outermost] and frame not in self._current:
            beginning.append(frame)
            frame = self.frames.table[frame].outer
        while self._current and next(reversed(self._current)) != frame:
            self._current.popitem()
        for begun in reversed(beginning):
            around = next(reversed(self._current.values()), -1)
            self._current[begun] = len(self.found)
            self.found.append(_Run(begun, around))
        return next(reversed(self._current.values()), -1)


def _sizes(runs: Sequence[_Run], run_of: Mapping[int, int]) -> list[int]:
    """How many operations each run holds, including those of the runs inside it."""
    sizes = [0] * len(runs)
    for run, count in Counter(run_of.values()).items():
        if run >= 0:
            sizes[run] = count
    for index in range(len(runs) - 1, -1, -1):
        if runs[index].around >= 0:
            sizes[runs[index].around] += sizes[index]
    return sizes


def _lines_worth_a_box(runs: Sequence[_Run], sizes: Sequence[int]) -> list[bool]:
    """Whether each line gets a box; a line with one operation, or with all of the enclosing line's, gets none."""
    return [size > 1 and (run.around < 0 or size < sizes[run.around]) for run, size in zip(runs, sizes, strict=True)]


class _Scopes:
    """The scopes made from runs."""

    def __init__(self, graph: Graph, frames: _Frames, kind: Boxes) -> None:
        self.graph, self.frames, self.kind = graph, frames, kind
        self.made: list[ModuleScope] = []
        self.of_run: list[int | None] = []
        self._calls: Counter[str] = Counter()

    def add(self, run: _Run, *, is_box: bool) -> None:
        around = None if run.around < 0 else self.of_run[run.around]
        self.of_run.append(len(self.made) if is_box else around)
        if is_box:
            self.made.append(self._scope(run.frame, around))

    def _scope(self, frame: int, around: int | None) -> ModuleScope:
        path, class_name = self._names(frame)
        if self.kind == "function" and around is not None:
            path = f"{self.made[around].path}.{path}"
        self._calls[path] += 1
        return ModuleScope(
            path, class_name, around, self._calls[path] - 1, kind=self.kind, call_site=self.frames.lines[frame]
        )

    def _names(self, frame: int) -> tuple[str, str]:
        function, line = self.frames.table[frame].function, self.frames.lines[frame]
        if self.kind == "function" or line is None:
            return function, f"{function}()"
        return line_words(self.graph.call_sites[line]), "line"
