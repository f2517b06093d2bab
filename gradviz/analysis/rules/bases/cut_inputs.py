"""Where the result of a cut is used in a graph: the nodes that got it instead of a tensor with a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_paths import alive_above
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import DeadInput, NodeAt
from gradviz.graph.model import Graph
from gradviz.graph.tensor_facts import TensorFacts

MAX_INPUTS = 10_000
"""The most inputs that are reported, in all graphs together: a loop cuts once in each step."""
_MAX_REACHED = 100_000
"""The most tensors above the cuts of one line that are visited, to find which of them each cut affects."""
_MAX_STEPS = 50_000
"""The most calls that are followed from the cuts of one line: if none of them leads to a graph, none is drawn."""


def dead_inputs(case: Case, flow: Dataflow, found: CutOff) -> tuple[DeadInput, ...]:
    """The nodes that got the result of a cut, in any graph, as the line cuts in every step. May be empty."""
    dead_uses = islice(filter(None, islice(_followed(flow, found), _MAX_STEPS)), MAX_INPUTS)
    own = _OwnTensors(case, flow, found)
    inputs = [
        replace(dead, tensors=own.names(use.cut))
        for use in dead_uses
        if (dead := _input_of(case, flow, use)) is not None
    ]
    number = case.backward_calls.graph_of(found.backward)
    if all(dead.at.graph != number for dead in inputs):
        # The values left torch and came back: only the cut path shows where.
        last = _input_of(case, flow, _end_of_cut_path(flow, found))
        inputs += [] if last is None else [last]
    return tuple({dead.at: dead for dead in inputs}.values())


class _OwnTensors:
    """The tensors that get no gradient because of each cut of one line."""

    def __init__(self, case: Case, flow: Dataflow, found: CutOff) -> None:
        self._case, self._flow, self._found = case, flow, found
        self._names: dict[int, tuple[str, ...]] = {}
        self._left = _MAX_REACHED

    def names(self, cut: int) -> tuple[str, ...]:
        """The names of the tensors of one call; empty if finding all of them would take too long."""
        if cut not in self._names and self._left > 0:
            above = alive_above(self._flow, ((use.tensor, cut) for use in self._flow.log.calls[cut].live_inputs))
            self._left -= len(above)
            self._names[cut] = tuple(self._case.tensor_name(each) for each in self._found.tensors if each in above)
        return self._names.get(cut, ())


class _DeadUse(NamedTuple):
    """A dead tensor, if known, and the call that used it: a call whose result has a gradient, or backward."""

    tensor: int | None
    call: int
    cut: int


def _end_of_cut_path(flow: Dataflow, found: CutOff) -> _DeadUse:
    for before, row in pairwise(found.cut_path.calls):
        if _gives_gradient(flow, row):
            given = {use.tensor for use in flow.log.calls[before].outputs}
            given.update(reentry.into for reentry in found.cut_path.reentries)
            taken = (use.tensor for use in flow.log.calls[row].inputs if use.tensor in given)
            return _DeadUse(next(taken, None), row, found.cut.call)
    return _DeadUse(found.root, found.backward, found.cut.call)


def _followed(flow: Dataflow, found: CutOff) -> Iterator[_DeadUse | None]:
    """Every use of what the line cut, and of what was computed from it without a gradient. Yields None for calls that
    only pass it on."""
    line = flow.line(found.cut.call_site)
    for cut in flow.cuts:
        if cut.kind != found.cut.kind or flow.line(cut.call_site) != line:
            continue
        waiting = [(tensor, cut.call) for tensor in cut.dead_outputs]
        seen = set(cut.dead_outputs)
        while waiting:
            tensor, after = waiting.pop()
            for row in flow.users(tensor, after):
                if flow.log.calls[row].kind == "backward" or _gives_gradient(flow, row):
                    yield _DeadUse(tensor, row, cut.call)
                    continue
                yield None
                made = {use.tensor for use in flow.log.calls[row].outputs}.difference(seen)
                seen.update(made)
                waiting += [(each, row) for each in sorted(made)]


def _gives_gradient(flow: Dataflow, row: int) -> bool:
    return any(use.has_grad_fn for use in flow.log.calls[row].outputs)


def _input_of(case: Case, flow: Dataflow, dead_use: _DeadUse) -> DeadInput | None:
    nodes = case.nodes_of_call(dead_use.call)
    number = nodes[-1].graph if nodes else case.backward_calls.graph_of(dead_use.call)
    if number is None:
        return None
    scope = case.scope_of_call(number, dead_use.cut)
    tensor = None if dead_use.tensor is None else flow.log.tensors[dead_use.tensor]
    # The result of a cut may have been made a leaf, which gets a gradient again.
    is_leaf = any(use.tensor == dead_use.tensor and use.requires_grad for use in flow.log.calls[dead_use.call].inputs)
    leaf = _leaf_named(case.graphs[number], tensor.names) if tensor is not None and is_leaf else None
    if leaf is not None:
        return DeadInput(NodeAt(number, leaf), None, scope)
    own = [at.node for at in nodes if at.graph == number]
    if not own:
        return None
    if tensor is None:
        return DeadInput(NodeAt(number, own[-1]), None, scope)
    node, constant = _node_that_took(case.graph_with_placed_constants(number), own, tensor.facts)
    return DeadInput(NodeAt(number, node), constant, scope)


def _leaf_named(graph: Graph, names: tuple[str, ...]) -> int | None:
    return next((leaf.id for leaf in graph.leaves if not set(names).isdisjoint(leaf.names)), None)


def _node_that_took(graph: Graph, nodes: list[int], facts: TensorFacts) -> tuple[int, int | None]:
    """Which node of one call got a tensor, and as which constant; the last node if no constant fits.

    A call may reshape a tensor before it computes with it; then the number of elements decides.
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
    return one.dtype == other.dtype and one.elements == other.elements
