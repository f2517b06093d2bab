"""Where what an operation computes with was made: its module, its weights, the values that they begin with."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import callers, class_of
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite


def line_of_module(flow: Dataflow, call: Call) -> int | None:
    """The call site where a module of torch was made in which a call ran; None for what runs in none of torch's own."""
    return None if call.scope is None else flow.site_of_module(flow.log.scopes[call.scope].path)


def line_that_keeps(flow: Dataflow, row: int, owner: str) -> CallSite | None:
    """The line that made something for the module with the path `owner`, which keeps it.

    What makes it may be another constructor or a function that builds layers. The line to change is in a method of the
    owner's class; where the owner was given it later, it is the first line that is in no constructor.
    """
    made = flow.row_of_module(owner)
    if made is None:
        return flow.line_of(row)
    classes = {class_of(line) for line in callers(flow, made) if line.function.endswith("__init__")}
    lines = list(callers(flow, row))
    own = [line for line in lines if class_of(line) in classes]
    return next(iter(own or [line for line in lines if not line.function.endswith("__init__")]), flow.line_of(row))


def line_apart(flow: Dataflow, row: int, other: int) -> CallSite | None:
    """The innermost line of a call on which another one does not stand: one function may have made both."""
    beside = {(line.file, line.line) for line in callers(flow, other)}
    return next((line for line in callers(flow, row) if (line.file, line.line) not in beside), flow.line_of(row))


def first_writes(flow: Dataflow, tensor: int, before: int) -> tuple[int, ...]:
    """The calls that gave a tensor the values it began with, oldest first: those before any optimizer's step."""
    rows = {row for shared in flow.sharing_memory(tensor) for row in flow.producers(shared, before)}
    rows |= set(flow.changes(tensor, -1, before))
    steps = [row for row in rows if flow.log.calls[row].kind == "step"]
    return tuple(sorted(row for row in rows if not steps or row < min(steps)))


def optimizer_that_moved(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The call that made the optimizer which stepped a tensor last; None where none did, or none was seen made."""
    calls = flow.log.calls
    steps = [row for row in flow.changes(tensor, -1, before) if calls[row].kind == "step"]
    optimizer = calls[steps[-1]].optimizer if steps else None
    if optimizer is None:
        return None
    made = (row for row, call in enumerate(calls) if call.kind == "add_param_group" and call.optimizer == optimizer)
    return next(made, None)


def is_set_by_hand(flow: Dataflow, writes: tuple[int, ...]) -> bool:
    """Whether the last of the calls that wrote a tensor stands on another line than the one that made it."""
    if not writes:
        return False
    lines = [flow.line_of(row) for row in (writes[0], writes[-1])]
    return lines[0] is not None and lines[1] is not None and lines[0].line != lines[1].line
