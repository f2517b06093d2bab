"""From roots to nodes: walks ``grad_fn.next_functions`` with an explicit stack.

Problems solved here:

* Wrappers of C++ nodes are only unique while they live, so every one is kept until the walk is over.
* A graph that was walked must be freed with care: see `destruction`.
* Nodes are numbered in creation order, which follows from torch's sequence numbers; they count for each thread on its
  own, so the order is checked against the edges and repaired where several threads took part.
"""

from __future__ import annotations

import gc
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gradviz.recording import destruction
from gradviz.recording.torch_compat import LEAF_SEQUENCE_NR

Followers = tuple[tuple[Any, int], ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """What `walk` found: parallel lists in creation order. Holding it keeps the graph alive."""

    wrappers: list[Any]
    followers: list[Followers]
    """``next_functions`` of each node."""
    sequence_nrs: list[int]
    position: dict[Any, int]
    """Place of each wrapper."""


def walk(roots: Iterable[Any]) -> Walk:
    """Every node that the `grad_fn` objects in `roots` reach; several roots may share their graphs."""
    # Creating a million small objects triggers the collector again and again, for nothing: none of them is garbage.
    collector_was_on = gc.isenabled()
    gc.disable()
    found: dict[Any, Followers] = {}
    is_guarded = False
    try:
        _collect(roots, found)
        result = _in_creation_order(found)
        position = result.position
        targets = (
            [
                [position[follower] for follower, _ in followers if follower is not None and found[follower]]
                for followers in result.followers
            ]
            if len(found) > destruction.BAND
            else ()
        )
        destruction.guard_walked_nodes(result.wrappers, targets)
        is_guarded = True
    finally:
        if not is_guarded:
            destruction.guard_every_node(list(found))
        if collector_was_on:
            gc.enable()
    return result


def _collect(roots: Iterable[Any], found: dict[Any, Followers]) -> None:
    waiting = [root for root in roots if root is not None]
    pop, push = waiting.pop, waiting.append
    while waiting:
        node = pop()
        if node in found:
            continue
        followers = node.next_functions
        found[node] = followers
        for follower, _ in followers:
            if follower is not None and follower not in found:
                push(follower)


def _in_creation_order(found: dict[Any, Followers]) -> Walk:
    """Operations by sequence number, each leaf just before the first operation that uses it."""
    numbered = [(node._sequence_nr(), node) for node in found]
    operations = sorted((pair for pair in numbered if pair[0] != LEAF_SEQUENCE_NR), key=lambda pair: pair[0])
    wrappers: list[Any] = []
    numbers: list[int] = []
    position: dict[Any, int] = {}

    def place(node: Any, number: int) -> None:
        position[node] = len(wrappers)
        wrappers.append(node)
        numbers.append(number)

    is_in_order = True
    for number, node in operations:
        for follower, _ in found[node]:
            if follower is not None and follower not in position:
                if found[follower] or follower._sequence_nr() != LEAF_SEQUENCE_NR:
                    is_in_order = False
                else:
                    place(follower, LEAF_SEQUENCE_NR)
        place(node, number)
    for number, node in numbered:
        if number == LEAF_SEQUENCE_NR and node not in position:
            place(node, number)  # a root that is itself a leaf
    if not is_in_order:
        return _in_dependency_order(found, {node: number for number, node in numbered})
    return Walk(wrappers, [found[node] for node in wrappers], numbers, position)


def _in_dependency_order(found: dict[Any, Followers], number_of: dict[Any, int]) -> Walk:
    """Producers before consumers, by sequence number where that leaves a choice: for graphs of several threads."""
    consumers: dict[Any, list[Any]] = {node: [] for node in found}
    missing = dict.fromkeys(found, 0)
    for node, followers in found.items():
        for follower, _ in followers:
            if follower is not None:
                consumers[follower].append(node)
                missing[node] += 1
    arrival = {node: index for index, node in enumerate(found)}
    ready = [(number_of[node], arrival[node], node) for node, count in missing.items() if not count]
    heapq.heapify(ready)
    wrappers = []
    while ready:
        _, _, node = heapq.heappop(ready)
        wrappers.append(node)
        for consumer in consumers[node]:
            missing[consumer] -= 1
            if not missing[consumer]:
                heapq.heappush(ready, (number_of[consumer], arrival[consumer], consumer))
    position = {node: index for index, node in enumerate(wrappers)}
    return Walk(wrappers, [found[node] for node in wrappers], [number_of[node] for node in wrappers], position)
