"""The memory that checkpointing each module would save between forward and backward, and what it would compute again.

Computed from the recorded graph, without running anything again. A checkpointed call keeps its inputs and nothing that
only this call keeps now, so the saving is the difference of the two. An input counts in full unless something else is
known to keep it; the true saving may be larger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from gradviz.graph.model import Graph
from gradviz.graph.traversal import behind_views, scopes_around

_NUMBER = re.compile(r"\d+")


@dataclass
class Checkpointing:
    """The effect of checkpointing every call of these modules separately."""

    path: str
    """``model.h.*`` for modules whose paths differ in a number only."""
    class_name: str
    calls: int = 0
    saved_bytes: int = 0
    """At least this much is no longer kept between forward and backward."""
    largest_call: int = 0
    """The part that is in memory again while backward computes the largest call again."""
    operations: int = 0
    """The number of operations that are computed a second time."""

    @property
    def peak_bytes(self) -> int:
        """The bytes by which the peak of the whole step falls at least."""
        return self.saved_bytes - self.largest_call

    def add(self, other: Checkpointing) -> None:
        """Adds further calls."""
        self.calls += other.calls
        self.saved_bytes += other.saved_bytes
        self.largest_call = max(self.largest_call, other.largest_call)
        self.operations += other.operations


def checkpointing(graph: Graph) -> dict[str, Checkpointing]:
    """The effect for each module inside another, by its path; modules that would save nothing are left out."""
    kept = _KeptInCalls(graph)
    found: dict[str, Checkpointing] = {}
    for call, scope in enumerate(graph.scopes):
        saving = kept.only_there[call] - kept.given[call]
        if scope.parent is None or saving <= 0:
            continue  # The whole model at once needs as much again in backward, so the peak stays the same.
        entry = found.setdefault(scope.path, Checkpointing(scope.path, scope.class_name))
        entry.add(Checkpointing(scope.path, scope.class_name, 1, saving, saving, kept.operations[call]))
    return found


def worth_checkpointing(found: dict[str, Checkpointing], least_bytes: int) -> list[Checkpointing]:
    """The modules that lower the peak, the best first, none inside another. Modules differing in a number are one.

    Backward needs the share of one call at a time again, so the peak falls by the saving without the largest call.
    """
    merged: dict[tuple[str, str], Checkpointing] = {}
    for path, entry in found.items():
        key = _NUMBER.sub("*", path), entry.class_name
        if key in merged:
            merged[key].path = key[0]
        merged.setdefault(key, Checkpointing(path, entry.class_name)).add(entry)
    chosen: list[Checkpointing] = []
    taken: list[str] = []
    for (pattern, _), entry in sorted(merged.items(), key=lambda each: -each[1].peak_bytes):
        overlaps = any(f"{one}.".startswith(f"{other}.") for each in taken for one, other in _pairs(pattern, each))
        if entry.peak_bytes >= least_bytes and not overlaps:
            chosen.append(entry)
            taken.append(pattern)
    return chosen


def _pairs(one: str, other: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (one, other), (other, one)


class _KeptInCalls:
    """For each module call, with the calls inside it: the bytes that only it keeps, its inputs, and its operations."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._depth = _depths(graph)
        self._holders = self._innermost_calls_around_holders()
        self.only_there = [0] * len(graph.scopes)
        self.operations = [0] * len(graph.scopes)
        self.given = [0] * len(graph.scopes)
        for index, call in self._holders.items():
            if call is not None and self._is_free_to_go(index):
                self.only_there[call] += graph.storages[index].bytes
        for node in graph.nodes:
            if node.scope is not None and not node.is_leaf:
                self.operations[node.scope] += 1
        for call in range(len(graph.scopes) - 1, -1, -1):
            parent = graph.scopes[call].parent
            if parent is not None:
                self.only_there[parent] += self.only_there[call]
                self.operations[parent] += self.operations[call]
        self._add_what_is_given()

    def _is_free_to_go(self, index: int) -> bool:
        storage = self._graph.storages[index]
        return storage.kind == "intermediate" and not storage.names

    def _innermost_calls_around_holders(self) -> dict[int, int | None]:
        holders: dict[int, int | None] = {}
        for node in self._graph.nodes:
            for saved in node.saved:
                if saved.storage is not None:
                    known = holders.get(saved.storage, node.scope)
                    holders[saved.storage] = self._around_both(known, node.scope)
        return holders

    def _add_what_is_given(self) -> None:
        storages = storages_of_outputs(self._graph)
        given: dict[tuple[int, Output], None] = {}
        for node in self._graph.nodes:
            for edge in node.edges:
                if edge is None or node.scope is None or self._graph.nodes[edge.target].is_leaf:
                    continue
                around = self._around_both(node.scope, self._graph.nodes[edge.target].scope)
                output = behind_views(self._graph, edge.target, edge.input_nr)
                for call in self._outwards(node.scope, around):
                    given[call, output] = None
        for call, output in given:
            index = storages.get(output)
            if index is None:
                self.given[call] += bytes_of_output(self._graph, output)
            elif self._is_free_to_go(index) and call in self._outwards(self._holders[index], None):
                self.given[call] += self._graph.storages[index].bytes

    def _outwards(self, call: int | None, end: int | None) -> Iterator[int]:
        """`call` and the calls around it, up to but without `end`."""
        return takewhile(lambda each: each != end, scopes_around(self._graph.scopes, call))

    def _around_both(self, one: int | None, other: int | None) -> int | None:
        while one != other:
            if one is None or other is None:
                return None
            if self._depth[one] >= self._depth[other]:
                one = self._graph.scopes[one].parent
            else:
                other = self._graph.scopes[other].parent
        return one


def _depths(graph: Graph) -> list[int]:
    depths: list[int] = []
    for scope in graph.scopes:
        depths.append(0 if scope.parent is None else depths[scope.parent] + 1)
    return depths


# The storage of each output of a node, as far as saved tensors show it.

Output = tuple[int, int]
"""A node, and the number of one of its outputs."""


def storages_of_outputs(graph: Graph) -> dict[Output, int]:
    """Index in `Graph.storages` by output, for those that some node saved."""
    return {
        (saved.source, saved.source_nr): saved.storage
        for node in graph.nodes
        for saved in node.saved
        if saved.source is not None and saved.storage is not None
    }


def bytes_of_output(graph: Graph, output: Output) -> int:
    """The bytes of an output that shares no storage; 0 if its shape is unknown."""
    facts = graph.nodes[output[0]].output(output[1])
    return 0 if facts is None else (facts.elements or 0) * item_size(facts.dtype)


def item_size(dtype: str) -> int:
    """Bytes of one element: of ``float32`` 4, of ``complex64`` 8, of ``bool`` 1."""
    digits = "".join(filter(str.isdigit, dtype.partition("_")[0]))
    return max(int(digits) // 8, 1) if digits else 1
