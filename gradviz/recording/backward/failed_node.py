"""Finds the node that raised in a backward. torch does not report it, so it is inferred afterwards.

A node of a Python function is in the traceback. If it was watched which nodes ran, the failed node is the next one: all
nodes that send it gradients had run, and it had not. Otherwise: on one device the engine runs nodes by falling sequence
number, and without ``retain_graph`` it frees what a node saved as soon as the node has run. So the failed node is the
first in that order that was freed by an *earlier* backward, or else the first that still has its saved tensors. If
several fit, a message that names a function decides. Nodes from which no wanted input is reached do not run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gradviz.graph.model import Graph
from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.torch_access.capabilities import FAILED_BACKWARD
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR, SHOWS_SLOTS, python_function_class, raw_slots
from gradviz.recording.walk.capture_builder import CaptureBuilder, Recorded
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.roots import slots_in

_NAMED_IN_MESSAGE = re.compile(r"[Ff]unction '?(\w+)'? returned")


def marked(graph: Graph, index: int) -> Graph:
    """The graph, in which the node is noted as the one that failed."""
    assert graph.backward is not None
    return replace(graph, backward=replace(graph.backward, failed_node=index))


def find(
    walked: Walk,
    error: BaseException,
    *,
    inputs: Sequence[tuple[int, int] | None],
    freed_before: frozenset[int],
    retains_graph: bool,
    ran: frozenset[int] | None = None,
) -> int | None:
    """Index of the node that raised `error`, or None if it cannot be known.

    Args:
        walked: the graph, as it was before the call.
        error: what backward raised.
        inputs: node and output at which each gradient was wanted; empty for all leaves.
        freed_before: indices of nodes that were freed before the call.
        retains_graph: the call frees nothing, so freed nodes prove nothing.
        ran: indices of the nodes that ran to their end, if that was watched.
    """
    order = _order_of_execution(walked, inputs)
    in_python = _by_traceback(walked, order, error)
    if in_python is not None:
        return in_python
    if ran is not None and not inputs:
        return _next_to_run(walked, ran)
    named = _NAMED_IN_MESSAGE.search(str(error))
    if named:
        indices = [index for index in order if walked.wrappers[index].name() == named.group(1)]
        executed = [index for index in indices if is_freed(walked.wrappers[index])]
        if len(indices) == 1 or executed:
            return executed[-1] if executed else indices[0]
    if freed_before and "second time" in str(error):
        return next((index for index in order if index in freed_before), None)
    if retains_graph:
        return None
    return next((index for index in order if is_freed(walked.wrappers[index]) is False), None)


def freed_indices(walked: Walk) -> frozenset[int]:
    """Indices of the nodes whose saved tensors are gone already."""
    return frozenset(index for index, wrapper in enumerate(walked.wrappers) if is_freed(wrapper))


def _order_of_execution(walked: Walk, inputs: Sequence[tuple[int, int] | None]) -> list[int]:
    wanted = {slot[0] for slot in inputs if slot is not None}
    reaches = [not inputs] * len(walked.wrappers)
    if inputs:
        for index, edges in enumerate(walked.edges):
            reaches[index] = index in wanted or any(edge is not None and reaches[edge.target] for edge in edges)
    numbers = walked.sequence_nrs
    indices = (index for index, number in enumerate(numbers) if number != LEAF_SEQUENCE_NR and reaches[index])
    return sorted(indices, key=lambda index: -numbers[index])


def _next_to_run(walked: Walk, ran: frozenset[int]) -> int | None:
    """The node that the engine would have run next: of all that wait for nothing, leaves come first."""
    waiting = set(range(len(walked.wrappers))) - ran
    held_up = {edge.target for index in waiting for edge in walked.edges[index] if edge is not None}
    return max(waiting - held_up, key=walked.sequence_nrs.__getitem__, default=None)


def _by_traceback(walked: Walk, order: list[int], error: BaseException) -> int | None:
    codes = set()
    trace = error.__traceback__
    while trace is not None:
        codes.add(trace.tb_frame.f_code)
        trace = trace.tb_next
    candidates = [index for index in order if _backward_code(walked.wrappers[index]) in codes]
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    return next((index for index in candidates if is_freed(walked.wrappers[index]) is not True), None)


def _backward_code(wrapper: Any) -> Any:
    function_class = python_function_class(wrapper)
    backward = getattr(function_class, "backward", None)
    return getattr(getattr(backward, "__wrapped__", backward), "__code__", None)


def is_freed(wrapper: Any) -> bool | None:
    """Whether the saved tensors of the node are gone; None if it saved nothing."""
    for slot in _saved_slots(type(wrapper), wrapper):
        try:
            raw = getattr(wrapper, slot)
        except RuntimeError:
            return True
        saved = raw if isinstance(raw, tuple) else (raw,)
        if saved and saved[0] is not None:
            return saved[0].data is None if SHOWS_SLOTS else None
    return None


_slots_of_class: dict[type, tuple[str, ...]] = {}


def _saved_slots(node_class: type, wrapper: Any) -> tuple[str, ...]:
    slots = _slots_of_class.get(node_class)
    if slots is None:
        slots = tuple(raw_slots(wrapper))
        if python_function_class(wrapper) is None:
            _slots_of_class[node_class] = slots
    return slots


# -- Marks the failed node in graphs of backward calls that raised -----------------------------------------------------

_NO_NODES: frozenset[int] = frozenset()


class FailedBackwards:
    """The failed backward calls of one recording."""

    def __init__(self, builder: CaptureBuilder) -> None:
        self._builder = builder
        self.has_failed = False
        """Whether there was one."""

    def freed_before(self, recorded: Recorded | None) -> frozenset[int]:
        """Indices of the nodes that earlier calls freed; to be called before the call runs."""
        try:
            return freed_indices(recorded.walk) if recorded is not None else _NO_NODES
        except Exception as defect:  # must not reach the program
            self._builder.disclose_defect("the nodes that earlier calls freed could not be determined", defect)
            return _NO_NODES

    def note(
        self,
        recorded: Recorded | None,
        request: BackwardRequest,
        error: Exception,
        freed_before: frozenset[int] = _NO_NODES,
    ) -> None:
        """The call for which this was recorded ended in `error`."""
        self.has_failed = True
        self._builder.happened.add(FAILED_BACKWARD)
        if recorded is None:
            return
        graphs = self._builder.graphs
        try:
            index = find(
                recorded.walk,
                error,
                inputs=slots_in(recorded.walk, request.inputs),
                freed_before=freed_before,
                retains_graph=request.retain_graph or request.create_graph,
                ran=_indices_that_ran(graphs[recorded.graph_index]),
            )
        except Exception as defect:  # the program's own error matters more
            self._builder.disclose_defect("the node that failed could not be found", defect)
            return
        if index is not None:
            graphs[recorded.graph_index] = marked(graphs[recorded.graph_index], index)


def _indices_that_ran(graph: Graph) -> frozenset[int] | None:
    """Nodes that backward ran to their end; None if that was not watched."""
    if all(root.gradient is None for root in graph.roots):
        return None
    return frozenset(node.id for node in graph.nodes if node.run is not None)
