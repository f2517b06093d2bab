"""Arrays that are changed in place while a graph still has their values for backward.

``torch.from_numpy()`` does not copy: the tensor that a layer saves has the memory of the array. torch sees nothing of
what NumPy writes there, so backward computes with other values than forward.
"""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.rules.bases.sources.shared_arrays import calls_that_wrap
from gradviz.analysis.sources.source_tree import SourceTree, is_read, last_line, tree_of
from gradviz.graph.call_log import ValueFacts
from gradviz.graph.model import Graph, Node
from gradviz.graph.saved_tensors import SavedTensor


class WrittenArray(Struct, frozen=True):
    """An array whose values a call saved, and that had others before the backward. Calls are numbers of the log."""

    saver: int
    tensor: int
    """The tensor over the memory of the array, as it was when its values were saved."""
    later: int
    """A tensor over the same memory, which had other values before the backward."""
    backward: int
    graph: int
    node: Node
    saved: SavedTensor


def written_arrays(case: Case) -> Iterator[WrittenArray]:
    """One for each saved input of each backward whose graph was recorded."""
    flow = case.dataflow
    over = _Arrays(flow)
    if not over.arrays:
        return
    for backward in flow.rows_of_kind("backward"):
        graph = case.backward_calls.graph_of(backward)
        for saver in case.backward_calls.reached(backward).rows if graph is not None else ():
            for tensor in {use.tensor for use in flow.log.calls[saver].inputs if not use.requires_grad}:
                wrapped = over.wrapped_below(tensor, saver)
                later = None if wrapped is None else over.later(wrapped, saver, backward)
                if graph is None or wrapped is None or later is None:
                    continue
                found = next(_slots(flow, case.graphs[graph], _nodes(case, saver, graph), saver, tensor), None)
                if found is not None:
                    yield WrittenArray(saver, wrapped, later, backward, graph, *found)


class _Arrays:
    """The tensors that were made of arrays of which several were made."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self.arrays: dict[int, list[int]] = defaultdict(list)
        """By the oldest tensor over an array: those that came after it, in the order in which they were seen."""
        for number, tensor in enumerate(flow.log.tensors):
            if tensor.array_of is not None and tensor.first_seen is not None:
                self.arrays[tensor.array_of].append(number)
        for younger in self.arrays.values():
            younger.sort(key=self._first_seen)
        self._array_of = {each: oldest for oldest, members in self.arrays.items() for each in [oldest, *members]}
        self._by_storage = {flow.memory_of(each): each for each in self._array_of}

    def wrapped_below(self, tensor: int, row: int) -> int | None:
        """The tensor, made of an array, in whose storage this one is."""
        found = self._by_storage.get(self._flow.memory_of(tensor))
        return None if found is None or self._first_seen(found) > row else found

    def later(self, wrapped: int, first: int, last: int) -> int | None:
        """A tensor over the same array that had other values between two calls."""
        members, before = self.arrays[self._array_of[wrapped]], self._values(wrapped)
        start = bisect_right(members, first, key=self._first_seen)
        for each in members[start : bisect_left(members, last, key=self._first_seen)] if before is not None else ():
            values = self._values(each)
            if values is not None and values != before:
                return each
        return None

    def _first_seen(self, tensor: int) -> int:
        return self._flow.log.tensors[tensor].first_seen or 0

    def _values(self, tensor: int) -> ValueFacts | None:
        """Those that it had when it was first seen."""
        seen = self._flow.log.tensors[tensor].first_seen
        call = None if seen is None else self._flow.log.calls[seen]
        uses = () if call is None else (*call.inputs, *call.outputs)
        return next((use.values for use in uses if use.tensor == tensor and use.values is not None), None)


def _nodes(case: Case, saver: int, graph: int) -> list[Node]:
    """The nodes of a call in one graph."""
    return [case.graphs[at.graph].nodes[at.node] for at in case.nodes_of_call(saver) if at.graph == graph]


def _slots(
    flow: Dataflow, graph: Graph, nodes: list[Node], saver: int, tensor: int
) -> Iterator[tuple[Node, SavedTensor]]:
    """What the nodes of a call have saved of an input: as many values, of its type, in memory of the same size."""
    facts = flow.log.tensors[tensor].facts
    for node in nodes:
        for saved in node.saved:
            is_input = saved.kept_in == "slot" and "result" not in saved.slot and saved.source is None
            if is_input and saved.tensor is not None and saved.storage is not None:
                is_alike = saved.tensor.dtype == facts.dtype and saved.tensor.elements == facts.elements
                if is_alike and graph.storages[saved.storage].kind != "parameter":
                    yield node, saved


def line_that_wraps(case: Case, found: WrittenArray) -> Location | None:
    """The line that made the tensor of the array without a copy; else the first one that used it.

    It is on the line of the first use, above it in the same function, among the arguments of a call that led there, in
    a variable that such a call takes, or the only such line of the program.
    """
    flow = case.dataflow
    seen = flow.log.tensors[found.tensor].first_seen
    used = None if seen is None else location_of_line(flow.line_of(seen))
    lines = () if seen is None else callers(flow, seen)
    for is_outer, line in enumerate(lines):
        tree = own_tree(case, line.file)
        above = [] if tree is None else _wraps_above(tree, line.line, only_taken=bool(is_outer))
        if above:
            return Location(line.file, max(above))
    files = case.files_of_program.items()
    every = [Location(file, node.lineno) for file, text in files for node in calls_that_wrap(tree_of(text))]
    return every[0] if len(every) == 1 else used


def _wraps_above(tree: SourceTree, line: int, *, only_taken: bool) -> list[int]:
    """The lines that wrap an array, in the statement on a line or above it in the same function; perhaps only those
    whose result this statement takes."""
    statement = tree.statement_at(line)
    end = line if statement is None else last_line(statement)
    scope = tree.module if statement is None else tree.scope(statement)
    above = [node for node in calls_that_wrap(tree) if node.lineno <= end and tree.scope(node) is scope]
    if only_taken and statement is not None:
        read = _read_in(statement)
        above = [node for node in above if statement in tree.around(node) or not read.isdisjoint(_kept_as(tree, node))]
    return [node.lineno for node in above]


_NAMES = (ast.Name, ast.Attribute)


def _read_in(statement: ast.stmt) -> set[str]:
    """The variables that a statement reads; those in the body of a loop or a block are not on its line."""
    parts = [each for each in ast.iter_child_nodes(statement) if not isinstance(each, ast.stmt)]
    return {
        ast.unparse(node) for part in parts for node in ast.walk(part) if isinstance(node, _NAMES) and is_read(node)
    }


def _kept_as(tree: SourceTree, node: ast.AST) -> set[str]:
    """The variables to which the statement around a call gives its result."""
    statement = tree.statement_around(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {ast.unparse(each) for target in targets for each in ast.walk(target) if isinstance(each, _NAMES)}
