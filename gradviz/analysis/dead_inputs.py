"""Where what a cut gave goes on in a graph: the nodes that took it in the place of something with a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from math import prod
from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow import Dataflow
from gradviz.analysis.finding import DeadInput, NodeAt
from gradviz.analysis.missing_gradients import CutOff
from gradviz.graph.model import Graph
from gradviz.graph.tensor_facts import TensorFacts

MOST_INPUTS = 60
"""So many places are told at most."""
_MOST_STEPS = 1_000
"""Calls that are followed from the cuts of one line on: where they all lead somewhere else, a graph shows nothing."""


def dead_inputs(case: Case, flow: Dataflow, found: CutOff) -> tuple[DeadInput, ...]:
    """The nodes that took it in the graph of the backward call which missed it; none where that has no such node."""
    number = case.backward_calls.graph_of(found.backward)
    if number is None:
        return ()
    takers = (_input_of(case, flow, number, taker) for taker in _takers(flow, found))
    by_node = {dead.at: dead for dead in islice((dead for dead in takers if dead is not None), MOST_INPUTS)}
    return tuple(by_node.values())


class _Taker(NamedTuple):
    """A dead tensor, and a call that took it and gave something with a gradient; None for backward itself."""

    tensor: int | None
    call: int | None
    cut: int


def _takers(flow: Dataflow, found: CutOff) -> Iterator[_Taker]:
    known = list(islice(_followed(flow, found), _MOST_STEPS))
    yield from (taker for taker in known if taker is not None)
    if not any(known):  # The values left torch and came back: only the way of the shadow tells where.
        yield _at_end_of_way(flow, found)


def _at_end_of_way(flow: Dataflow, found: CutOff) -> _Taker:
    for before, row in pairwise(found.shadow.way):
        if _gives_gradient(flow, row):
            given = {use.tensor for use in flow.log.calls[before].outputs}
            given.update(reentry.into for reentry in found.shadow.reentries)
            taken = (use.tensor for use in flow.log.calls[row].inputs if use.tensor in given)
            return _Taker(next(taken, None), row, found.cut.call)
    return _Taker(found.root, None, found.cut.call)


def _followed(flow: Dataflow, found: CutOff) -> Iterator[_Taker | None]:
    """Every use of what the cuts gave, and of what was computed from it without a gradient; None where it goes on."""
    for cut in sorted(found.cuts, key=lambda cut: cut.call):
        waiting = [(tensor, cut.call) for tensor in cut.dead_outputs]
        seen = set(cut.dead_outputs)
        while waiting:
            tensor, after = waiting.pop()
            if tensor == found.root:
                yield _Taker(tensor, None, cut.call)
            for row in flow.users(tensor, after):
                if row >= found.backward:
                    break
                if _gives_gradient(flow, row):
                    yield _Taker(tensor, row, cut.call)
                    continue
                yield None
                made = {use.tensor for use in flow.log.calls[row].outputs}.difference(seen)
                seen.update(made)
                waiting += [(each, row) for each in sorted(made)]


def _gives_gradient(flow: Dataflow, row: int) -> bool:
    return any(use.has_grad_fn for use in flow.log.calls[row].outputs)


def _input_of(case: Case, flow: Dataflow, number: int, taker: _Taker) -> DeadInput | None:
    scope = case.scope_of_call(number, taker.cut)
    tensor = None if taker.tensor is None else flow.log.tensors[taker.tensor]
    leaf = None if tensor is None else _leaf_named(case.graphs[number], tensor.names)
    if leaf is not None:
        return DeadInput(NodeAt(number, leaf), None, scope)
    nodes = [] if taker.call is None else [at.node for at in case.nodes_of_call(taker.call) if at.graph == number]
    if not nodes:
        return None
    node, constant = (nodes[-1], None) if tensor is None else _place_in(case.placed_graph(number), nodes, tensor.facts)
    return DeadInput(NodeAt(number, node), constant, scope)


def _leaf_named(graph: Graph, names: tuple[str, ...]) -> int | None:
    """What a cut gave may have been made a leaf, which wants a gradient of its own."""
    return next((leaf.id for leaf in graph.leaves if not set(names).isdisjoint(leaf.names)), None)


def _place_in(graph: Graph, nodes: list[int], facts: TensorFacts) -> tuple[int, int | None]:
    """Which node of one call took a tensor, and as which constant; the last one where none looks like it.

    A call may look at a tensor in another shape before it computes with it; then the number of elements tells.
    """
    taken = [(node, constant) for node in nodes for constant in graph.nodes[node].constants]
    for alike in (_is_same, _has_same_elements):
        for node, constant in taken:
            if alike(graph.constants[constant].tensor, facts):
                return node, constant
    return nodes[-1], None


def _is_same(one: TensorFacts, other: TensorFacts) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)


def _has_same_elements(one: TensorFacts, other: TensorFacts) -> bool:
    return one.dtype == other.dtype and _elements(one) == _elements(other)


def _elements(facts: TensorFacts) -> int | None:
    """None where a size is not a number."""
    sizes = [size for size in facts.shape if isinstance(size, int)]
    return prod(sizes) if len(sizes) == len(facts.shape) else None
