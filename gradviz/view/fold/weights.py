"""How many things are drawn for a part of the graph: this decides how many levels stay readable."""

from __future__ import annotations

from itertools import accumulate

from gradviz.graph.model import LEAF_KINDS, Graph, Node
from gradviz.view.fold.groups import Entry, member_range
from gradviz.view.fold.nesting import Nesting
from gradviz.view.fold.plumbing import Connections

MAX_BESIDE = 4
"""Inputs and data drawn beside one folded box; the others stay inside."""


class Weights:
    """Counts what is drawn for the members of containers, folded or not."""

    def __init__(self, graph: Graph, connections: Connections, nesting: Nesting) -> None:
        self.nesting = nesting
        self._beside: list[int] = []
        """For each operation of the sequence, the number of leaves and constants drawn with it."""
        visible_inputs: list[int] = []
        for node in nesting.sequence:
            leaves = _leaves(graph, connections, node)
            constants = graph.nodes[node].constants
            self._beside.append(len(leaves) + len(constants))
            # Most operations have neither.
            inputs = [leaf for leaf in leaves if leaf.kind == "input"] if leaves else leaves
            data = [index for index in constants if graph.constants[index].kind == "data"] if constants else constants
            visible_inputs.append(len(inputs) + len(data))
        self._inputs_before = [0, *accumulate(visible_inputs)]

    def of_folded(self, container: int, entry: Entry) -> int:
        """How many things are drawn for one entry of a container while it is folded."""
        if isinstance(entry, int) and self.nesting.units[container][entry] >= 0:
            return 1 + self._beside[self.nesting.rank[self.nesting.units[container][entry]]]
        start, stop = self.span(container, entry)
        return 1 + min(MAX_BESIDE, self._inputs_before[stop] - self._inputs_before[start])

    def span(self, container: int, entry: Entry) -> tuple[int, int]:
        """The range of the sequence of operations that an entry holds, all repetitions included."""
        start, stop = member_range(entry)
        members = self.nesting.units[container]
        return self.nesting.span(members[start])[0], self.nesting.span(members[stop - 1])[1]

    def of_everything(self) -> int:
        """How many things are drawn when nothing is folded."""
        boxes = sum(bool(members) for members in self.nesting.units)
        return boxes + len(self.nesting.sequence) + sum(self._beside)


def _leaves(graph: Graph, connections: Connections, node: int) -> list[Node]:
    """The leaves that an operation takes, each once."""
    nodes = graph.nodes
    found = [nodes[edge.target] for edge in connections.inputs[node] if edge is not None]
    leaves = [source for source in found if source.kind in LEAF_KINDS]
    return leaves if len(leaves) < 2 else list({leaf.id: leaf for leaf in leaves}.values())
