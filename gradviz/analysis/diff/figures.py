"""Figures of both runs, those that changed most first."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, log

from gradviz.analysis.diff.difference import Figure
from gradviz.analysis.diff.runs import Run
from gradviz.graph.model import Graph
from gradviz.graph.query.engine_times import timed


def figures_of(a: Run, b: Run, nodes: dict[int, int]) -> tuple[Figure, ...]:
    """Operations, nodes, kept memory, engine time, and the gradient norm of every parameter of both."""
    found = [Figure("operations", len(a.operations), len(b.operations))]
    if a.graph is not None and b.graph is not None:
        found.append(Figure("autograd nodes", len(a.graph.nodes), len(b.graph.nodes)))
        found.append(Figure("memory kept for backward", _kept(a.graph), _kept(b.graph), "bytes"))
        times = _seconds(a.graph), _seconds(b.graph)
        if all(times):
            found.append(Figure("engine time", times[0], times[1], "s"))
        found += _gradient_norms(a.graph, b.graph, nodes)
    return tuple(sorted(found, key=_change, reverse=True))


def _kept(graph: Graph) -> int:
    used = {saved.storage for node in graph.nodes for saved in node.saved if saved.storage is not None}
    return sum(graph.storages[i].bytes for i in used if graph.storages[i].kind not in ("parameter", "buffer"))


def _seconds(graph: Graph) -> float:
    return sum(each.run.seconds for each in timed(graph) if each.run is not None)


def _gradient_norms(a: Graph, b: Graph, nodes: dict[int, int]) -> Iterator[Figure]:
    for node in a.parameters:
        other = b.nodes[nodes[node.id]] if node.id in nodes else None
        if other is None or not node.arrived or not other.arrived or not node.names:
            continue
        x, y = node.arrived[0], other.arrived[0]
        if x is not None and y is not None and x.norm is not None and y.norm is not None:
            yield Figure(f"gradient norm of {node.names[0]}", x.norm, y.norm)


def _change(figure: Figure) -> float:
    """How much it changed; the time of the engine always changes, and comes last."""
    if figure.unit == "s":
        return -1.0
    if figure.a == figure.b:
        return 0.0
    if not figure.a or not figure.b or figure.a < 0 or figure.b < 0:
        return inf
    return abs(log(figure.b) - log(figure.a))  # the quotient of the smallest and the largest float is zero
