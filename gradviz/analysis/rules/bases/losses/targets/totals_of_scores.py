"""The total of scores over one axis, beside the scores that an index chooses along another one."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training
from gradviz.graph.call_log import Call

_TOTALS = frozenset({"logsumexp", "log_softmax", "softmax"})
_TABLE = 2


def totals_beside_choices(case: Case) -> Iterator[tuple[int, int]]:
    """Calls of ``logsumexp`` over one axis of a table that is not square, and of ``gather`` along the other one, both
    for the same backward, where nothing adds up the axis of the choice."""
    flow = case.dataflow
    for rows in calls_in_training(flow, frozenset({"logsumexp"})):
        row = rows[-1]
        call = flow.log.calls[row]
        scores = call.inputs[0].tensor
        shape, backward = shape_of(flow, scores), case.histories.backward_after(row)
        if len(shape) != _TABLE or shape[0] == shape[1] or backward is None:
            continue
        users = [each for each in flow.users(scores, flow.step_before(row)) if each < backward]
        axes = {axis_of(each, _TABLE) for user in users if _is_total(each := flow.log.calls[user])}
        chosen = [user for user in users if _chooses(flow, user, axis_of(call, _TABLE))]
        if (
            len(axes) == 1
            and chosen
            and not _is_indexed(flow, row)
            and all(_reaches(flow, each, backward) for each in (row, chosen[-1]))
        ):
            yield row, chosen[-1]


def _is_indexed(flow: Dataflow, row: int) -> bool:
    """Whether an index picks from the totals: those of the classes of the samples, among all inputs of the batch."""
    users = (flow.log.calls[user] for user in flow.users(flow.log.calls[row].outputs[0].tensor, row))
    return any(
        plain_name(call.function) in ("getitem", "gather", "index_select") and len(call.inputs) > 1 for call in users
    )


def _is_total(call: Call) -> bool:
    return plain_name(call.function) in _TOTALS


def _chooses(flow: Dataflow, row: int, axis: int | None) -> bool:
    call = flow.log.calls[row]
    return plain_name(call.function) == "gather" and axis is not None and axis_of(call, _TABLE) == 1 - axis


def _reaches(flow: Dataflow, row: int, backward: int) -> bool:
    made = flow.log.calls[row].outputs[0].tensor
    return backward in flow.descendants(made, row, backward + 1, live=True)
