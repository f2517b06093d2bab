"""Custom functions whose backward returns None for an input that requires grad, and what gets no gradient by that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from msgspec import Struct

from gradviz.analysis.dataflow.custom_functions import CustomCall, custom_calls
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names
from gradviz.graph.model import Graph
from gradviz.graph.traversal import ancestors


class SilentFunction(Struct, frozen=True):
    """One custom function with the same inputs left out."""

    graph: int
    custom: CustomCall
    """Its first call of this kind in that graph."""
    silent: tuple[int, ...]
    """Which of its inputs that require grad get None."""
    starved: tuple[str, ...]
    """The leaves behind these inputs of all its calls to which no backward brings a gradient."""


def silent_functions(
    flow: Dataflow, graphs: Sequence[Graph], numbers: Iterable[int], reached: Set[str]
) -> Iterator[SilentFunction]:
    """The custom functions, each once, that starve leaves.

    Args:
        numbers: the graphs whose gradients were measured.
        reached: the names of the leaves to which some backward brought a gradient.
    """
    first: dict[str, tuple[int, CustomCall, tuple[int, ...]]] = {}
    starved: dict[str, dict[str, None]] = {}
    for number in numbers:
        for (function, silent), calls in _silent_calls(flow, graphs[number]).items():
            if function in first and first[function][2] != silent:
                continue
            names = _never_reached(graphs[number], calls, silent, reached)
            if names:
                first.setdefault(function, (number, calls[0], silent))
                starved.setdefault(function, {}).update(dict.fromkeys(names))
    for function, (number, custom, silent) in first.items():
        yield SilentFunction(number, custom, silent, tuple(starved[function]))


def _silent_calls(flow: Dataflow, graph: Graph) -> dict[tuple[str, tuple[int, ...]], list[CustomCall]]:
    """By function and inputs: its calls that got a gradient, and return None for these inputs."""
    found: dict[tuple[str, tuple[int, ...]], list[CustomCall]] = {}
    for custom in custom_calls(flow, graph):
        if custom.node.run is None or not _got_something(custom):
            continue
        silent = tuple(
            index
            for index, sent in enumerate(custom.node.gradients)
            if sent is not None and sent.is_undefined and custom.node.edges[index] is not None
        )
        if silent:
            found.setdefault((custom.function, silent), []).append(custom)
    return found


def _never_reached(
    graph: Graph, calls: Iterable[CustomCall], silent: tuple[int, ...], reached: Set[str]
) -> tuple[str, ...]:
    """Names of leaves behind these inputs, without those that are reached."""
    edges = (custom.node.edges[index] for custom in calls for index in silent)
    behind = sorted(ancestors(graph, {edge.target for edge in edges if edge is not None}))
    leaves = (graph.nodes[node] for node in behind)
    return leaf_names(leaf for leaf in leaves if reached.isdisjoint(leaf.names))


def _got_something(custom: CustomCall) -> bool:
    return any(each is not None and each.is_measured and not each.is_zero for each in custom.node.arrived)
