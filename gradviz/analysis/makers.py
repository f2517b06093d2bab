"""Where what an operation computes with was made: its module, its weights, the values that they begin with."""

from __future__ import annotations

from gradviz.analysis.dataflow import Dataflow
from gradviz.graph.call_log import Call


def line_of_module(flow: Dataflow, call: Call) -> int | None:
    """The call site where a module of torch was made in which a call ran; None for what runs in none of torch's own."""
    return None if call.scope is None else flow.site_of_module(flow.log.scopes[call.scope].path)


def first_writes(flow: Dataflow, tensor: int, before: int) -> tuple[int, ...]:
    """The calls that gave a tensor the values it began with, oldest first: those before any optimizer's step."""
    rows = {row for shared in flow.sharing_memory(tensor) for row in flow.producers(shared, before)}
    rows |= set(flow.changes(tensor, -1, before))
    steps = [row for row in rows if flow.log.calls[row].kind == "step"]
    return tuple(sorted(row for row in rows if not steps or row < min(steps)))


def is_set_by_hand(flow: Dataflow, writes: tuple[int, ...]) -> bool:
    """Whether the last of the calls that wrote a tensor stands on another line than the one that made it."""
    if not writes:
        return False
    lines = [flow.line_of(row) for row in (writes[0], writes[-1])]
    return lines[0] is not None and lines[1] is not None and lines[0].line != lines[1].line
