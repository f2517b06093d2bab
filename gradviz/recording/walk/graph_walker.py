"""Finds the nodes that roots reach: follows ``grad_fn.next_functions`` with an explicit stack.

Problems solved here:

* Wrappers of C++ nodes are unique only while they live, so every one is kept until the walk has ended.
* A graph that was walked must be freed with care: see `destruction`.
* Nodes are numbered in creation order, which follows from torch's sequence numbers. Each thread counts its own, so the
  order is checked against the edges and repaired if several threads took part.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gradviz.collector import collector_paused
from gradviz.graph.model import Edge
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR, sequence_nr_of
from gradviz.recording.walk import destruction

Followers = tuple[tuple[Any, int], ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """The result of `walk`: parallel lists in creation order. Holding it keeps the graph alive."""

    wrappers: list[Any]
    edges: list[tuple[Edge | None, ...]]
    """Each node's ``next_functions``, with indices instead of wrappers."""
    sequence_nrs: list[int]
    position: dict[Any, int]
    """Index of each wrapper."""


def walk(roots: Iterable[Any]) -> Walk:
    """Every node that the `grad_fn` objects in `roots` reach; several roots may share their graphs."""
    found: dict[Any, Followers] = {}
    is_guarded = False
    with collector_paused():
        try:
            _collect(roots, found)
            result = _in_creation_order(found)
            destruction.guard_walked_nodes(result.wrappers, result.edges)
            is_guarded = True
        finally:
            if not is_guarded:
                destruction.guard_every_node(list(found))
    return result


def _collect(roots: Iterable[Any], found: dict[Any, Followers]) -> None:
    waiting = [root for root in roots if root is not None]
    pop, push = waiting.pop, waiting.append
    while waiting:
        node = pop()
        if node not in found:
            found[node] = followers = node.next_functions
            for follower, _ in followers:
                if follower is not None and follower not in found:
                    push(follower)


def _in_creation_order(found: dict[Any, Followers]) -> Walk:
    """Operations by sequence number, each leaf just before the first operation that uses it."""
    nodes = list(found)
    numbers = list(map(sequence_nr_of, nodes))
    by_number = sorted(range(len(nodes)), key=numbers.__getitem__)
    position: dict[Any, int] = {}
    order: list[int] = []
    index_of_leaf = {nodes[index]: index for index, number in enumerate(numbers) if number == LEAF_SEQUENCE_NR}
    for index in by_number:
        node = nodes[index]
        if node in position:
            continue
        for follower, _ in found[node]:
            if follower is not None and follower not in position:
                leaf = index_of_leaf.get(follower)
                if leaf is None:
                    return _in_dependency_order(found, numbers)
                position[follower] = len(order)
                order.append(leaf)
        position[node] = len(order)
        order.append(index)
    return _arranged([nodes[index] for index in order], [numbers[index] for index in order], position, found)


def _in_dependency_order(found: dict[Any, Followers], numbers: list[int]) -> Walk:
    """Producers before consumers, and otherwise by sequence number: for graphs of several threads."""
    consumers: dict[Any, list[Any]] = {node: [] for node in found}
    missing = dict.fromkeys(found, 0)
    for node, followers in found.items():
        for follower, _ in followers:
            if follower is not None:
                consumers[follower].append(node)
                missing[node] += 1
    arrival = {node: index for index, node in enumerate(found)}
    ready = [(numbers[arrival[node]], arrival[node], node) for node, count in missing.items() if not count]
    heapq.heapify(ready)
    wrappers = []
    while ready:
        _, _, node = heapq.heappop(ready)
        wrappers.append(node)
        for consumer in consumers[node]:
            missing[consumer] -= 1
            if not missing[consumer]:
                heapq.heappush(ready, (numbers[arrival[consumer]], arrival[consumer], consumer))
    position = {node: index for index, node in enumerate(wrappers)}
    return _arranged(wrappers, [numbers[arrival[node]] for node in wrappers], position, found)


def _arranged(wrappers: list[Any], numbers: list[int], position: dict[Any, int], found: dict[Any, Followers]) -> Walk:
    edges = []
    to_leaves: dict[tuple[int, int], Edge] = {}
    for node in wrappers:
        own: list[Edge | None] = []
        for follower, input_nr in found[node]:
            if follower is None:
                own.append(None)
            elif found[follower]:
                own.append(Edge(position[follower], input_nr))
            else:
                # A weight that every step of a loop uses has as many edges: they share one object.
                key = position[follower], input_nr
                own.append(to_leaves.get(key) or to_leaves.setdefault(key, Edge(*key)))
        edges.append(tuple(own))
    return Walk(wrappers, edges, numbers, position)
