"""What a loss reads of the results of a layer: which calls, and at which position."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

Read = tuple[TensorUse, int]
"""A result of the layer, and the call that takes it."""


def reads_for_loss(case: Case, row: int, call: Call) -> list[Read]:
    """The reads of a call's results from which the next backward call starts; none if that cannot be told."""
    flow = case.dataflow
    until = case.histories.backward_after(row)
    reads = [(use, user) for use in call.outputs for user in flow.users(use.tensor, row)]
    if until is None or any(not flow.log.calls[user].outputs for _, user in reads):
        return []
    return [
        (use, user)
        for use, user in reads
        if user < until
        and until in flow.descendants(flow.log.calls[user].outputs[0].tensor, user, until + 1, live=True)
    ]


def index_of_read(flow: Dataflow, user: int) -> tuple[int, int] | None:
    """The axis and the position that a call picks from three axes, if that is all it does."""
    call = flow.log.calls[user]
    name = plain_name(call.function)
    given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    if name == "select":
        axis, position = (
            call.scalars.get("1", call.scalars.get("dim")),
            call.scalars.get("2", call.scalars.get("index")),
        )
    elif name == "getitem" and len(call.inputs) == 1 and len(call.scalars) == 1:
        ((place, position),) = call.scalars.items()
        axis = {"1": 0, "1[0]": 0, "1[1]": 1}.get(place)
    else:
        return None
    if type(axis) is not int or type(position) is not int or made != (*given[:axis], *given[axis + 1 :]):
        return None
    return axis, position % given[axis]
