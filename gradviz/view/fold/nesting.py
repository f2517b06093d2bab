"""Which operations are in which module call.

A *unit* is one member of a *container*: an operation (its node id) or a module call (``~scope``, so below zero).
The outermost level is the container after the last scope.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradviz.graph.model import Graph


class Nesting:
    """The members of every container in creation order, and all operations as one sequence.

    All operations inside a container are ``sequence[first[c]:stop[c]]``, so it is cheap to ask whether an operation is
    inside a container, however deep modules are nested.
    """

    def __init__(self, graph: Graph, operations: Sequence[int]) -> None:
        self.outermost = len(graph.scopes)
        self.parent = [self.outermost if scope.parent is None else scope.parent for scope in graph.scopes]
        self.parent.append(-1)
        self.units: list[list[int]] = [[] for _ in self.parent]
        self.container = [self.outermost] * len(graph.nodes)
        self.position = [0] * len(graph.nodes)
        self.scope_position = [0] * len(self.parent)
        self._assign(graph, operations)
        self.depth = self._depths()
        self.first = [0] * len(self.parent)
        self.stop = [0] * len(self.parent)
        self.rank = [-1] * len(graph.nodes)
        self.sequence = self._walk()

    def _assign(self, graph: Graph, operations: Sequence[int]) -> None:
        known = {self.outermost}
        for node in operations:
            scope = graph.nodes[node].scope
            container = self.outermost if scope is None else scope
            if container not in known:
                self._assign_scope(container, known)
            members = self.units[container]
            self.container[node] = container
            self.position[node] = len(members)
            members.append(node)

    def _assign_scope(self, scope: int, known: set[int]) -> None:
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
        """Every container after those inside it: a scope has a smaller number than the calls it makes."""
        return [*range(self.outermost - 1, -1, -1), self.outermost]

    def span(self, unit: int) -> tuple[int, int]:
        """The range of `sequence` that the unit holds."""
        return (self.first[~unit], self.stop[~unit]) if unit < 0 else (self.rank[unit], self.rank[unit] + 1)

    def position_in(self, container: int, node: int) -> int:
        """The position of the member of `container` that holds the operation `node`; -1 where none does."""
        inner = self.container[node]
        if inner == container:
            return self.position[node]
        if not self.first[container] <= self.rank[node] < self.stop[container]:
            return -1
        while self.parent[inner] != container:
            inner = self.parent[inner]
        return self.scope_position[inner]
