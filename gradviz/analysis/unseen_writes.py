"""Writes through ``.data`` into what a graph has saved: torch's version counter does not see them.

``x.data`` shares the memory of ``x`` and has a version counter of its own. So the check that refuses a backward after
an in-place change finds nothing changed, and the gradient is computed from the new values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.dataflow import Dataflow
from gradviz.analysis.finding import NodeAt
from gradviz.analysis.reached_calls import reached_by
from gradviz.analysis.refused_change import views_between
from gradviz.graph.call_log import Call
from gradviz.graph.model import Graph, Node
from gradviz.graph.saved_tensors import SavedTensor

_READ, _ASSIGN = "torch.Tensor.data", "torch.Tensor.data.__set__"


class UnseenWrite(Struct, frozen=True):
    """A write between a call that saved a tensor, and the backward that needs it. Calls are numbers of the log."""

    write: int
    saver: int
    tensor: int
    slot: str
    node: NodeAt
    backward: int


def unseen_writes(flow: Dataflow, graphs: Sequence[Graph]) -> Iterator[UnseenWrite]:
    """One for each line that writes, where a graph was kept that shows what was saved."""
    known = {graph.backward.number: place for place, graph in enumerate(graphs) if graph.backward is not None}
    told: set[int | None] = set()
    for write, call in enumerate(flow.log.calls):
        if call.call_site in told or call.raised is not None:
            continue
        for target in _written_unseen(flow, write, call):
            found = next(_savers(flow, graphs, known, write, target), None)
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
    flow: Dataflow, graphs: Sequence[Graph], known: dict[int, int], write: int, target: int
) -> Iterator[UnseenWrite]:
    """Calls before the write that saved the tensor, or one over the same memory, for a backward after it."""
    for backward in _next_backwards(flow, write):
        place = known.get(int(flow.log.calls[backward].name or 0))
        if place is None:
            continue
        nodes = {node.sequence_nr: node for node in graphs[place].nodes if node.sequence_nr is not None}
        shared = set(flow.sharing_memory(target))
        for saver in reached_by(flow, backward).rows:
            for tensor, saved, node in _saved_by(flow, nodes, saver) if saver < write else ():
                if tensor in shared:
                    yield UnseenWrite(write, saver, tensor, saved.slot, NodeAt(place, node.id), backward)


def _next_backwards(flow: Dataflow, write: int) -> list[int]:
    calls = flow.log.calls
    later = (row for row in range(write + 1, len(calls)) if calls[row].kind == "backward")
    return [row for row, _ in zip(later, range(_MOST_BACKWARDS), strict=False)]


_MOST_BACKWARDS = 2


def _saved_by(flow: Dataflow, nodes: dict[int, Node], saver: int) -> Iterator[tuple[int, SavedTensor, Node]]:
    """Tensors of a call that its nodes saved: as large as what is in the slot, on the side that the slot is for."""
    call = flow.log.calls[saver]
    first = call.sequence_nr or 0
    for node in (nodes[number] for number in range(first, first + call.node_count) if number in nodes):
        for saved in node.saved:
            uses = call.outputs if "result" in saved.slot or saved.slot == "output" else call.inputs
            for use in uses if saved.tensor is not None and saved.kept_in == "slot" else ():
                facts = flow.log.tensors[use.tensor].facts
                if saved.tensor is not None and _count(facts.shape) == _count(saved.tensor.shape) != 1:
                    yield use.tensor, saved, node


def _count(shape: tuple[int | str, ...]) -> int:
    return math.prod(size for size in shape if isinstance(size, int))
