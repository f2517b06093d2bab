"""Operations without a slope on one of several paths: the leaves above them get gradients, but none through them.

A leaf that gets only zeros is a case of `gradviz.analysis.numbers.zero_gradients`. Here an intermediate result gets
only zeros, because all that uses it rounds it, takes its sign, or bounds all of it: then its value is in the loss, and
nothing learns from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.numbers.gradient_origins import find_gradient_origins, state_of
from gradviz.analysis.numbers.zero_slopes import ZeroCause, is_flat_as_called
from gradviz.graph.model import Graph, Node

_BOUNDS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "hardtanh"})
_ADDS_UP = frozenset({"sum", "mean", "add", "sub", "mul", "div", "neg", "getitem", "squeeze", "view", "reshape"})
_MIN_STEPS = 3
"""Steps in which all values must be out of bounds: it may be an accident of one batch."""


class FlatBranch(Struct, frozen=True):
    """One line that sends only zeros to a result."""

    cause: ZeroCause
    graph: int
    node: int
    call: int
    steps: int


def flat_branches(backward_calls: BackwardCalls) -> Iterator[FlatBranch]:
    """One for each line, with the last of its graphs."""
    flow = backward_calls.flow
    found: dict[tuple[int | None, bool], list[tuple[int, int, int]]] = defaultdict(list)
    bounded: dict[int | None, int] = defaultdict(int)
    for number, graph in enumerate(backward_calls.graphs):
        origins = find_gradient_origins(graph).by_node
        for node in graph.nodes:
            row = flow.call_of_node(node)
            call = None if row is None else flow.log.calls[row]
            if row is None or call is None:
                continue
            is_flat = is_flat_as_called(node, call)
            if not is_flat and plain_name(call.function) not in _BOUNDS:
                continue
            bounded[call.call_site] += 1
            origin = origins.get(node.id)
            is_source = origin is not None and origin.state == "zero" and origin.by == "node" and not origin.is_aside
            if is_source and _takes_all(graph, node) and (is_flat or _is_in_use(flow, row)):
                found[call.call_site, is_flat].append((number, node.id, row))
    for (site, is_flat), members in found.items():
        if is_flat or (len(members) == bounded[site] and len({number for number, *_ in members}) >= _MIN_STEPS):
            cause: ZeroCause = "zero_gradient_op" if is_flat else "saturation"
            yield FlatBranch(cause, *members[-1], len(members))


def _takes_all(graph: Graph, node: Node) -> bool:
    """Whether its input gets nothing from anywhere else."""
    targets = [graph.nodes[edge.target] for edge in node.edges if edge is not None]
    return bool(targets) and all(state_of(target.arrived) == "zero" for target in targets)


def _is_in_use(flow: Dataflow, row: int) -> bool:
    """Whether a bound is the middle of a computation. One at the end, of a term of the loss, may be a free margin."""
    call = flow.log.calls[row]
    made = call.outputs[0]
    values = made.values
    is_constant = values is not None and values.minimum == values.maximum and bool(values.maximum)
    if not is_constant or prod(shape_of(flow, made.tensor)) == 1:
        return False
    waiting, seen = [(made.tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        for user in flow.users(*waiting.pop()):
            later = flow.log.calls[user]
            if user in seen or not any(use.requires_grad for use in later.outputs):
                continue
            seen.add(user)
            if plain_name(later.function) not in _ADDS_UP or len(later.live_inputs) > 1 < prod(
                shape_of(flow, later.outputs[0].tensor)
            ):
                return True
            waiting += [(use.tensor, user) for use in later.outputs]
    return False


_MAX_CALLS = 20
