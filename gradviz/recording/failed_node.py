"""Which node raised, when backward did. torch does not say, so it is worked out afterwards.

A node of a Python function is in the traceback. For the others: without ``retain_graph`` the engine frees what a node
saved as soon as it has run, and on one device it runs nodes by falling sequence number; so the first one in that order
that still has its saved tensors is the one that failed. A message that names a function decides between equals.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from gradviz.graph.model import Graph
from gradviz.recording import torch_compat
from gradviz.recording.graph_walker import Walk
from gradviz.recording.torch_compat import LEAF_SEQUENCE_NR

_NAMED_IN_MESSAGE = re.compile(r"[Ff]unction '?(\w+)'? returned")


def marked(graph: Graph, place: int) -> Graph:
    """The graph with the node noted as the one that failed."""
    assert graph.backward is not None
    return replace(graph, backward=replace(graph.backward, failed_node=place))


def find(walked: Walk, error: BaseException, *, retains_graph: bool) -> int | None:
    """Place of the node that raised `error`, or None where it cannot be told."""
    order = sorted(
        (place for place, number in enumerate(walked.sequence_nrs) if number != LEAF_SEQUENCE_NR),
        key=lambda place: -walked.sequence_nrs[place],
    )
    in_python = _by_traceback(walked, order, error)
    if in_python is not None:
        return in_python
    named = _NAMED_IN_MESSAGE.search(str(error))
    if named:
        places = [place for place in order if walked.wrappers[place].name() == named.group(1)]
        executed = [place for place in places if _is_freed(walked.wrappers[place])]
        if len(places) == 1 or executed:
            return executed[-1] if executed else places[0]
    if retains_graph:
        return None
    return next((place for place in order if _is_freed(walked.wrappers[place]) is False), None)


def _by_traceback(walked: Walk, order: list[int], error: BaseException) -> int | None:
    codes = set()
    trace = error.__traceback__
    while trace is not None:
        codes.add(trace.tb_frame.f_code)
        trace = trace.tb_next
    candidates = [place for place in order if _backward_code(walked.wrappers[place]) in codes]
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    return next((place for place in candidates if _is_freed(walked.wrappers[place]) is not True), None)


def _backward_code(wrapper: Any) -> Any:
    function_class = torch_compat.python_function_class(wrapper)
    backward = getattr(function_class, "backward", None)
    return getattr(getattr(backward, "__wrapped__", backward), "__code__", None)


def _is_freed(wrapper: Any) -> bool | None:
    """Whether what the node saved is gone; None where it saved nothing."""
    for slot in dir(wrapper):
        if slot.startswith("_raw_saved_"):
            try:
                raw = getattr(wrapper, slot)
            except RuntimeError:
                return True
            saved = raw if isinstance(raw, tuple) else (raw,)
            if saved and saved[0] is not None:
                return saved[0].data is None
    return None
