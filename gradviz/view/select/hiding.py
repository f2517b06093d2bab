"""Leaves out nodes and constants that match a regular expression; links pass through them.

Where many neighbours are hidden, joining the sources of each to its users could make far more edges than there were. So
an operation that would join more than `MAX_JOINED` sources stays. Also the last operation before a root stays if no
single other node can replace it, and the node in which backward failed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from msgspec.structs import replace

from gradviz.graph.model import Edge, Graph, Node, Root
from gradviz.graph.number_words import counted
from gradviz.graph.query.find_by_expression import compiled
from gradviz.graph.query.operation_names import autograd_name, constant_names, operation_names
from gradviz.graph.subgraph import subgraph
from gradviz.graph.traversal import topological_order
from gradviz.view.fold.always_visible import failed_operations

MAX_JOINED = 16
"""Sources of one hidden operation that may be joined to its users."""

_Edges = tuple[Edge | None, ...]
_Figures = TypeVar("_Figures")


def hide(graph: Graph, expressions: Sequence[str]) -> tuple[Graph, list[str]]:
    """The graph without operations, leaves and constants that match, and notes on what was left out."""
    patterns = [compiled(expression) for expression in expressions]
    matches = [_matching(graph, pattern) for pattern in patterns]
    nodes = set[int]().union(*(found.nodes for found in matches))
    constants = set[int]().union(*(found.constants for found in matches))
    passing = _pass_through(graph, nodes)
    kept = [node.id for node in graph.nodes if node.id not in passing.sources]
    joined = replace(
        graph,
        nodes=tuple(_with_inputs(node, passing) for node in graph.nodes),
        roots=tuple(_moved(root, passing) for root in graph.roots),
    )
    idle = [f"nothing matches {each!r} (--hide)" for each, found in zip(expressions, matches, strict=True) if not found]
    left = subgraph(joined, kept, set(range(len(graph.constants))) - constants)
    return left, [*_notes(graph, expressions, passing, constants), *idle]


@dataclass(frozen=True, slots=True)
class _Matches:
    nodes: Collection[int]
    constants: Collection[int]

    def __bool__(self) -> bool:
        return bool(self.nodes or self.constants)


def _matching(graph: Graph, pattern: re.Pattern[str]) -> _Matches:
    """What an expression matches: any name of an operation, leaf or constant, or its module."""

    @cache  # Large graphs repeat the same few words.
    def fits(word: str) -> bool:
        return pattern.search(word) is not None

    return _Matches(
        {node.id for node in graph.nodes if any(map(fits, _words_of(graph, node)))},
        {index for index, constant in enumerate(graph.constants) if any(map(fits, constant_names(constant)))},
    )


def _words_of(graph: Graph, node: Node) -> list[str]:
    words = [autograd_name(node), *node.names]
    if not node.is_leaf:
        words.extend(operation_names(node))
    if node.scope is not None:
        words.append(graph.scopes[node.scope].path)
    return words


@dataclass(slots=True)
class _Passing:
    """How the graph is joined after hidden nodes are passed through."""

    inputs: list[_Edges]
    """For each node its edges, to nodes that are kept."""
    sources: dict[int, _Edges] = field(default_factory=dict)
    """For each hidden node the edges that replace its output."""
    staying: Counter[str] = field(default_factory=Counter)
    """Why some matching nodes are shown all the same, and how often."""


def _pass_through(graph: Graph, matching: Collection[int]) -> _Passing:
    passing = _Passing([node.edges for node in graph.nodes])
    roots, failed = {root.node for root in graph.roots}, failed_operations(graph)
    for node in topological_order(graph):
        edges = passing.inputs[node]
        if any(edge is not None and edge.target in passing.sources for edge in edges):
            edges = passing.inputs[node] = _joined(edges, passing.sources)
        if node in matching:
            sources = tuple(dict.fromkeys(edge for edge in edges if edge is not None))
            reason = _reason_to_stay(len(sources), is_root=node in roots, has_failed=node in failed)
            if reason:
                passing.staying[reason] += 1
            else:
                passing.sources[node] = sources
    return passing


def _reason_to_stay(source_count: int, *, is_root: bool, has_failed: bool) -> str:
    """Why a matching node is shown nevertheless; empty if it is hidden."""
    if has_failed:
        return "backward failed in it"
    if is_root and source_count != 1:
        return "nothing else could be the root"
    return f"it joins more than {MAX_JOINED} others" if source_count > MAX_JOINED else ""


def _joined(edges: _Edges, sources: dict[int, _Edges]) -> _Edges:
    """The edges, with hidden targets replaced, each edge only once."""
    joined: list[Edge | None] = []
    known = set(edges)
    for edge in edges:
        if edge is None or edge.target not in sources:
            joined.append(edge)
            continue
        replacements = sources[edge.target]
        joined.extend([each for each in replacements if each not in known] if replacements else [None])
        known.update(replacements)
    return tuple(joined)


def _with_inputs(node: Node, passing: _Passing) -> Node:
    """The node joined past hidden nodes; gradients are kept along edges that replace nothing else."""
    edges = passing.inputs[node.id]
    if edges is node.edges:
        return node
    return replace(
        node,
        edges=edges,
        gradients=_still_true(node, node.gradients, passing),
        shares=_still_true(node, node.shares, passing),
    )


def _still_true(node: Node, figures: tuple[_Figures | None, ...], passing: _Passing) -> tuple[_Figures | None, ...]:
    if not figures:
        return ()
    stayed = [position for position, edge in enumerate(node.edges) if edge and edge.target not in passing.sources]
    own = {node.edges[position] for position in stayed}
    replacements = {each for edge in node.edges if edge for each in passing.sources.get(edge.target, ())}
    # Joining keeps a node's own edges in their order.
    positions = iter(stayed)
    kept = [(edge, next(positions)) if edge in own else (edge, None) for edge in passing.inputs[node.id]]
    return tuple([None if position is None or edge in replacements else figures[position] for edge, position in kept])


def _moved(root: Root, passing: _Passing) -> Root:
    """The root, moved to the source of its operation if the operation is hidden."""
    if root.node not in passing.sources:
        return root
    (source,) = passing.sources[root.node]
    assert source is not None, "a hidden root has one source"
    return replace(root, node=source.target, output_nr=source.input_nr)


def _notes(graph: Graph, expressions: Sequence[str], passing: _Passing, constants: Collection[int]) -> Iterator[str]:
    leaves = sum(graph.nodes[node].is_leaf for node in passing.sources)
    counts = {"operation": len(passing.sources) - leaves, "leaf": leaves, "input without gradient": len(constants)}
    plurals = {"leaf": "leaves", "input without gradient": "inputs without gradient"}
    found = [counted(n, noun, plurals.get(noun, "")) for noun, n in counts.items() if n]
    if found:
        wanted = " or ".join(map(repr, expressions))
        yield f"left out: {', '.join(found)} matching {wanted} (--hide); links pass through them"
    for reason, count in passing.staying.items():
        yield f"{count:,} matching {'node is' if count == 1 else 'nodes are'} shown all the same: {reason}"
