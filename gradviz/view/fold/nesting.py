"""Which operations lie in which module call, how the members of each call are wired, and which calls are alike.

A *unit* is one member of a *container*: an operation (its node id) or a module call (``~scope``, so below zero).
The outermost level is the container after the last scope. Two units with the same signature have the same classes,
operations, shapes and inner wiring, whatever they are called; members of alike containers stand in the same order.
Signatures may also leave out the sizes of tensors: in a loop whose tensor grows, no step is quite like the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from gradviz.graph.model import Graph, Node, TensorFacts
from gradviz.view.fold.marks import Marks
from gradviz.view.fold.plumbing import Connections

Wiring = tuple[int, ...]
"""Where a unit takes its data from: positions in its container, or below zero for sources outside."""


class Nesting:
    """The members of every container in creation order, and the whole as one sequence of operations.

    All operations inside a container are ``sequence[first[c]:stop[c]]``, so asking whether one lies inside another
    costs nothing, however deep modules are nested.
    """

    def __init__(self, graph: Graph, operations: Sequence[int]) -> None:
        self.outermost = len(graph.scopes)
        self.parent = [self.outermost if scope.parent is None else scope.parent for scope in graph.scopes]
        self.parent.append(-1)
        self.units: list[list[int]] = [[] for _ in self.parent]
        self.container = [self.outermost] * len(graph.nodes)
        self.position = [0] * len(graph.nodes)
        self.scope_position = [0] * len(self.parent)
        self._place(graph, operations)
        self.depth = self._depths()
        self.first = [0] * len(self.parent)
        self.stop = [0] * len(self.parent)
        self.rank = [-1] * len(graph.nodes)
        self.sequence = self._walk()

    def _place(self, graph: Graph, operations: Sequence[int]) -> None:
        known = {self.outermost}
        for node in operations:
            scope = graph.nodes[node].scope
            container = self.outermost if scope is None else scope
            if container not in known:
                self._place_scope(container, known)
            members = self.units[container]
            self.container[node] = container
            self.position[node] = len(members)
            members.append(node)

    def _place_scope(self, scope: int, known: set[int]) -> None:
        while scope not in known:
            known.add(scope)
            siblings = self.units[self.parent[scope]]
            self.scope_position[scope] = len(siblings)
            siblings.append(~scope)
            scope = self.parent[scope]

    def _depths(self) -> list[int]:
        depth = [0] * len(self.parent)
        depth[self.outermost] = -1
        for scope in range(self.outermost):
            depth[scope] = depth[self.parent[scope]] + 1
        return depth

    def _walk(self) -> list[int]:
        sequence: list[int] = []
        stack = [(self.outermost, iter(self.units[self.outermost]))]
        while stack:
            container, members = stack[-1]
            for unit in members:
                if unit < 0:
                    self.first[~unit] = len(sequence)
                    stack.append((~unit, iter(self.units[~unit])))
                    break
                self.rank[unit] = len(sequence)
                sequence.append(unit)
            else:
                self.stop[container] = len(sequence)
                stack.pop()
        return sequence

    def innermost_first(self) -> list[int]:
        """Every container after all that it contains: a scope has a smaller number than the calls it makes."""
        return [*range(self.outermost - 1, -1, -1), self.outermost]

    def span(self, unit: int) -> tuple[int, int]:
        """The part of `sequence` that the unit holds."""
        return (self.first[~unit], self.stop[~unit]) if unit < 0 else (self.rank[unit], self.rank[unit] + 1)

    def place_in(self, container: int, node: int) -> int:
        """The position of the member of `container` that holds the operation `node`; -1 where none does."""
        inner = self.container[node]
        if inner == container:
            return self.position[node]
        if not self.first[container] <= self.rank[node] < self.stop[container]:
            return -1
        while self.parent[inner] != container:
            inner = self.parent[inner]
        return self.scope_position[inner]


@dataclass(frozen=True, slots=True)
class Signatures:
    """For each container the signatures and the wiring of its members; for each scope its own signature."""

    members: list[list[int]]
    wiring: list[list[Wiring]]
    scopes: list[int]


class Names:
    """Small integers for whatever is equal: comparing two large structures becomes comparing two numbers."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def number(self, key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))


def sign(
    graph: Graph,
    connections: Connections,
    nesting: Nesting,
    marks: Marks,
    with_sizes: bool,
) -> Signatures:
    """Sign every unit, innermost first. What is marked differently is not alike: the reader asked to see it apart."""
    names = Names()
    operations = _sign_operations(graph, connections, nesting, names, marks, with_sizes=with_sizes)
    result = Signatures([[] for _ in nesting.parent], [[] for _ in nesting.parent], [-1] * len(nesting.parent))
    external: list[tuple[int, ...]] = [()] * len(nesting.parent)
    for current in nesting.innermost_first():
        members = nesting.units[current]
        if not members:
            continue
        sources = [_operation_sources(graph, connections, unit) if unit >= 0 else external[~unit] for unit in members]
        result.wiring[current], external[current] = _wire(nesting, current, sources)
        signed = [operations[unit] if unit >= 0 else result.scopes[~unit] for unit in members]
        result.members[current] = signed
        if current != nesting.outermost:
            class_name = graph.scopes[current].class_name
            key = (class_name, marks.by_scope.get(current), tuple(signed), _inner_wiring(result.wiring[current]))
            result.scopes[current] = names.number(key)
    return result


def _inner_wiring(wiring: Sequence[Wiring]) -> tuple[Wiring, ...]:
    """What a first call takes from data, later ones take from the call before: that does not make it different."""
    return tuple([wires if not wires or min(wires) >= 0 else tuple([s for s in wires if s >= 0]) for wires in wiring])


def _sign_operations(
    graph: Graph, connections: Connections, nesting: Nesting, names: Names, marks: Marks, *, with_sizes: bool
) -> dict[int, int]:
    number = names.number
    nodes = graph.nodes
    marked = marks.apart | marks.seen
    signed = {}
    for unit in nesting.sequence:
        node = nodes[unit]
        outputs, parameters = node.outputs, _parameter_facts(graph, node, connections)
        facts = (outputs, parameters) if with_sizes else (_without_sizes(outputs), _without_sizes(parameters))
        mark = marks.of_node(unit) if unit in marked else None
        signed[unit] = number((node.name, node.kind, node.forward_call, facts, mark))
    return signed


def _without_sizes(tensors: Sequence[TensorFacts | None]) -> Hashable:
    return tuple([each and (len(each.shape), each.dtype, each.device, each.layout, each.type_name) for each in tensors])


def _parameter_facts(graph: Graph, node: Node, connections: Connections) -> tuple[TensorFacts | None, ...]:
    """Parameters of the same shapes are alike. Data is left out: a first step often has none where later ones do."""
    nodes = graph.nodes
    found: tuple[TensorFacts | None, ...] = ()
    for edge in connections.inputs[node.id]:
        if edge is not None and nodes[edge.target].kind == "parameter":
            found += nodes[edge.target].outputs
    for index in node.constants:
        if graph.constants[index].kind != "data":
            found += (graph.constants[index].tensor,)
    return found


def _operation_sources(graph: Graph, connections: Connections, node: int) -> list[int]:
    nodes = graph.nodes
    return [
        edge.target
        for edge in connections.inputs[node]
        if edge is not None and nodes[edge.target].kind not in ("parameter", "input")
    ]


def _wire(nesting: Nesting, container: int, sources: Sequence[Sequence[int]]) -> tuple[list[Wiring], tuple[int, ...]]:
    """Turn sources into positions; sources outside are counted in the order in which they are first used."""
    outside: dict[int, int] = {}
    place_in = nesting.place_in
    wiring = []
    for wanted in sources:
        places = []
        for source in wanted:
            place = place_in(container, source)
            places.append(place if place >= 0 else -1 - outside.setdefault(source, len(outside)))
        wiring.append(tuple(dict.fromkeys(places)) if len(places) > 1 else tuple(places))
    return wiring, tuple(outside)
