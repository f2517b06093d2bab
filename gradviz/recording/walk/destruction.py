"""Makes it safe to free a deep graph that was walked: it would overflow the C stack.

torch frees long chains of nodes without recursion, but not through Python wrappers: once a ``grad_fn`` was read from
Python, its wrapper stays attached to the C++ node, and when the loss dies each node frees the next one inside its own
destruction. A chain of some 40,000 nodes (5,000 on the stack of a small thread) then kills the process.

The remedy: the graph is cut into bands of `BAND` nodes of depth. Each node with an edge into the next band gets a
*guard* in its ``metadata``, which torch destroys after the node's edges. The guard holds the wrappers on the other side
of the cut, and puts them in a queue when its node dies; the outermost guard of the thread empties that queue in a loop.
So recursion never goes deeper than two bands, whichever tensor dies first. A guard holds nothing that its node did not
hold already, so several roots, tensors kept from the middle of a graph, and other threads cause no problem.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from gradviz.graph.model import Edge

BAND = 400
"""Nodes of depth between two cuts: two bands need about 165 kB of C stack, at 206 bytes per node."""

METADATA_KEY = "gradviz: frees this graph without recursion"


class _Queue(threading.local):
    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.is_draining = False


def _make_release(queue: _Queue) -> Callable[[list[Any]], None]:
    # A closure, because module globals may be gone when the interpreter shuts down.
    def release(wrappers: list[Any]) -> None:
        queue.waiting.extend(wrappers)
        wrappers.clear()
        if queue.is_draining:
            return
        queue.is_draining = True
        try:
            while queue.waiting:
                queue.waiting.pop()
        finally:
            queue.is_draining = False

    return release


_release = _make_release(_Queue())


class _Guard:
    """Holds wrappers from the metadata of a node, and queues them for freeing when the node is freed."""

    __slots__ = ("release", "wrappers")

    def __init__(self, wrappers: list[Any]) -> None:
        self.wrappers = wrappers
        self.release = _release

    def __del__(self) -> None:
        self.release(self.wrappers)


def guard_walked_nodes(wrappers: Sequence[Any], edges: Sequence[tuple[Edge | None, ...]]) -> int:
    """Make it safe to free the graph of these wrappers; returns how many guards were needed.

    `edges[i]` are those of ``wrappers[i]``. Both are in creation order, so a target's index is smaller than that of its
    node.
    """
    if len(wrappers) <= BAND:
        return 0
    depth = [0] * len(wrappers)
    for index in range(len(wrappers) - 1, -1, -1):
        below = depth[index] + 1
        for edge in edges[index]:
            if edge is not None and depth[edge.target] < below:
                depth[edge.target] = below
    if max(depth) < BAND:
        return 0
    guards = 0
    for index, own_edges in enumerate(edges):
        next_band = (depth[index] // BAND + 1) * BAND
        for edge in own_edges:
            if edge is not None and depth[edge.target] >= next_band:
                break
        else:
            continue
        # A leaf has no edges: its death frees nothing else.
        crossing = [e.target for e in own_edges if e is not None and depth[e.target] >= next_band and edges[e.target]]
        if crossing:
            _attach(wrappers[index], [wrappers[target] for target in crossing])
            guards += 1
    return guards


def guard_every_node(wrappers: Sequence[Any]) -> None:
    """The same for an interrupted walk, when the order of its nodes is not known yet."""
    for wrapper in wrappers:
        followers = [follower for follower, _ in wrapper.next_functions if follower is not None]
        if followers:
            _attach(wrapper, followers)


def _attach(wrapper: Any, followers: list[Any]) -> None:
    metadata = wrapper.metadata
    # A second capture of the same graph adds its cuts to the first one's: both sets stay valid.
    existing = metadata.get(METADATA_KEY)
    if isinstance(existing, _Guard):
        existing.wrappers.extend(f for f in followers if not any(f is known for known in existing.wrappers))
    else:
        metadata[METADATA_KEY] = _Guard(followers)
