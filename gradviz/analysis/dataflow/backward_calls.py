"""The backward calls of one run: the recorded graph of each, the calls it goes through, and where one raised."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache, partial

from msgspec import Struct

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.reached_calls import ReachedCalls, reached_by
from gradviz.analysis.dataflow.tensor_words import leaf_names
from gradviz.analysis.finding import CutRoot
from gradviz.graph.call_log import Call
from gradviz.graph.model import Graph, Node
from gradviz.graph.traversal import ancestor_nodes


def starts_from_ones(flow: Dataflow, row: int) -> bool:
    """Whether a backward call with one root is that of the sum of its elements: of one number, or with ones as their
    gradient."""
    call = flow.log.calls[row]
    if flow.log.tensors[call.roots[0].tensor].facts.shape == ():
        return True
    values = [flow.values_of(use, row) for use in call.inputs if use.place.startswith("gradient")]
    return bool(values) and all(each is not None and each.minimum == each.maximum == 1 for each in values)


_NOT_IMPLEMENTED = re.compile(r"derivative for '?(?:aten::)?(?P<name>\w+)'? is not implemented")
_NO_FORMULA = re.compile(r"backward through (?P<name>[\w.]+?)(?:\.default)? but no autograd formula was registered")


class RaisedBackward(Struct, frozen=True):
    """A backward call that raised inside the engine, and whose graph was recorded."""

    call: Call
    graph: int
    """Number of its graph."""
    node: Node | None
    """The node that failed; None if unknown."""
    starved: tuple[str, ...]
    """Names of the leaves behind that node that got no gradient; of all leaves if the node is unknown."""
    waiting: tuple[str, ...]
    """Names of all leaves that had no gradient when it raised."""

    @property
    def message(self) -> str:
        """First line of the exception's message, with its type."""
        return self.call.raised or ""

    @property
    def without_derivative(self) -> str | None:
        """The function of torch for whose derivative there is no formula, if that is why it raised: ``heaviside``, or
        ``_cdist_backward`` where a gradient was differentiated again."""
        found = _NOT_IMPLEMENTED.search(self.message)
        return None if found is None else found["name"]

    @property
    def without_formula(self) -> str | None:
        """The operator of the program, as ``library.name``, that has no backward, if that is why it raised."""
        found = _NO_FORMULA.search(self.message)
        return None if found is None else found["name"]


class BackwardCalls:
    """Answers questions on them. Calls are identified by their rows in the log, graphs by their numbers."""

    def __init__(self, flow: Dataflow, graphs: tuple[Graph, ...]) -> None:
        self.flow = flow
        self.graphs = graphs
        self.reached: Callable[[int], ReachedCalls] = lru_cache(_REMEMBERED)(partial(reached_by, flow))
        """The calls that a backward call goes through."""

    def next_after(self, row: int, most: int) -> tuple[int, ...]:
        """The first `most` backward calls after a row of the log."""
        rows = self.flow.rows_of_kind("backward")
        start = bisect_right(rows, row)
        return rows[start : start + most]

    def graph_of(self, row: int) -> int | None:
        """The recorded graph of a call."""
        return self._graph_of_row.get(row)

    def row_of(self, graph: int) -> int | None:
        """The call of a recorded graph; None if the log does not contain it."""
        backward = self.graphs[graph].backward
        return None if backward is None else self.flow.row_of_backward(backward.number)

    def refused_root(self, row: int, tensor: int) -> CutRoot | None:
        """Where the graph of a refused call shows one of the tensors that it was called on."""
        number = self.graph_of(row)
        roots = [use.tensor for use in self.flow.log.calls[row].roots]
        if number is None or tensor not in roots or len(self.graphs[number].refused) != len(roots):
            return None
        return CutRoot(number, roots.index(tensor))

    @cached_property
    def raised(self) -> tuple[RaisedBackward, ...]:
        """Those that raised, in order: the last one often ended the program."""
        return tuple(self._that_raised())

    def _that_raised(self) -> Iterator[RaisedBackward]:
        for row, number in sorted(self._graph_of_row.items()):
            call, graph = self.flow.log.calls[row], self.graphs[number]
            if call.raised is not None and not graph.refused:
                node = None if graph.failed_node is None else graph.nodes[graph.failed_node]
                yield RaisedBackward(call, number, node, _starved(graph, node), _starved(graph, None))

    @cached_property
    def _graph_of_row(self) -> dict[int, int]:
        rows = ((self.row_of(number), number) for number in range(len(self.graphs)))
        return {row: number for row, number in rows if row is not None}


_REMEMBERED = 100
"""The most calls whose answers are cached: if every step goes through those before it, all together are large."""


def _starved(graph: Graph, node: Node | None) -> tuple[str, ...]:
    behind = graph.nodes if node is None else (*ancestor_nodes(graph, node), node)
    return leaf_names(each for each in behind if each.run is None)
