"""Writes through ``.data`` into what a graph has saved: torch's version counter does not see them.

``x.data`` shares the memory of ``x`` and has a version counter of its own. So the check that refuses a backward after
an in-place change finds nothing changed, and the gradient is computed from the new values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache

from msgspec import Struct

from gradviz.analysis.backward_calls import BackwardCalls
from gradviz.analysis.dataflow import Dataflow
from gradviz.analysis.finding import NodeAt
from gradviz.analysis.refused_change import views_between
from gradviz.graph.call_log import Call
from gradviz.graph.model import Graph, Node
from gradviz.graph.saved_tensors import SavedTensor

_Nodes = dict[int, Node]
"""By their numbers in the order of the forward."""

_READ, _ASSIGN = "torch.Tensor.data", "torch.Tensor.data.__set__"


class UnseenWrite(Struct, frozen=True):
    """A write between a call that saved a tensor, and the backward that needs it. Calls are numbers of the log."""

    write: int
    saver: int
    tensor: int
    slot: str
    node: NodeAt
    backward: int


def unseen_writes(backward_calls: BackwardCalls) -> Iterator[UnseenWrite]:
    """One for each line that writes, where a graph was kept that shows what was saved."""
    flow = backward_calls.flow
    nodes_of: Callable[[int], _Nodes] = cache(lambda graph: _by_sequence_nr(backward_calls.graphs[graph]))
    told: set[int | None] = set()
    for write, call in enumerate(flow.log.calls):
        if call.call_site in told or call.raised is not None:
            continue
        for target in _written_unseen(flow, write, call):
            found = next(_savers(backward_calls, nodes_of, write, target), None)
            if found is not None:
                told.add(call.call_site)
                yield found
                break


def _written_unseen(flow: Dataflow, row: int, call: Call) -> Iterator[int]:
    """Tensors whose memory a call changes without their counter."""
    if call.function == _ASSIGN:
        yield call.inputs[0].tensor
        return
    for use in call.changed:
        ways = (use.tensor, *(base for way in views_between(flow, use.tensor, row) for base in _outputs(flow, way)))
        readers = [maker for tensor in ways for maker in flow.producers(tensor, row)[:1]]
        for reader in readers:
            if flow.log.calls[reader].function == _READ:
                yield flow.log.calls[reader].inputs[0].tensor


def _outputs(flow: Dataflow, row: int) -> list[int]:
    return [use.tensor for use in flow.log.calls[row].outputs]


def _savers(
    backward_calls: BackwardCalls, nodes_of: Callable[[int], _Nodes], write: int, target: int
) -> Iterator[UnseenWrite]:
    """Calls before the write that saved the tensor, or one over the same memory, for a backward after it."""
    flow = backward_calls.flow
    shared = set(flow.sharing_memory(target))
    for backward in backward_calls.next_after(write, _MOST_BACKWARDS):
        graph = backward_calls.graph_of(backward)
        if graph is None:
            continue
        for saver in backward_calls.reached(backward).rows:
            for tensor, saved, node in _saved_by(flow, nodes_of(graph), saver) if saver < write else ():
                if tensor in shared:
                    yield UnseenWrite(write, saver, tensor, saved.slot, NodeAt(graph, node.id), backward)


_MOST_BACKWARDS = 2


def _by_sequence_nr(graph: Graph) -> _Nodes:
    return {node.sequence_nr: node for node in graph.nodes if node.sequence_nr is not None}


def _saved_by(flow: Dataflow, nodes: _Nodes, saver: int) -> Iterator[tuple[int, SavedTensor, Node]]:
    """Tensors of a call that its nodes saved: as large as what is in the slot, on the side that the slot is for."""
    call = flow.log.calls[saver]
    for node in (nodes[number] for number in call.node_numbers if number in nodes):
        for saved in node.saved:
            uses = call.outputs if "result" in saved.slot or saved.slot == "output" else call.inputs
            for use in uses if saved.tensor is not None and saved.kept_in == "slot" else ():
                facts = flow.log.tensors[use.tensor].facts
                if saved.tensor is not None and _count(facts.shape) == _count(saved.tensor.shape) != 1:
                    yield use.tensor, saved, node


def _count(shape: tuple[int | str, ...]) -> int:
    return math.prod(size for size in shape if isinstance(size, int))
