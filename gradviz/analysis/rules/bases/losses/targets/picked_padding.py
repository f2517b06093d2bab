"""Log-probabilities of the next ids that are added up over the padding of the ids, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.sequences.padded_ids import LOOKUPS, MOST_READ, is_meant_to_pad, same_padding
from gradviz.analysis.rules.bases.sequences.whole_means import average_of_whole
from gradviz.graph.call_log import Padding

_PICKS = frozenset({"gather", "take_along_dim"})
_AXES = 3


def picked_with_padding(case: Case) -> Iterator[tuple[int, Padding]]:
    """The calls that pick the log-probability of each id, where the model reads the same ids and some of them only pad,
    and which are added up or averaged without a mask that hides as many; each with the padding."""
    flow = case.dataflow
    lines: dict[int | None, list[int]] = defaultdict(list)
    for row, call in calls_named(flow, LOOKUPS):
        if call.live_inputs and flow.has_step_after(row):
            lines[call.call_site].append(row)
    for rows in lines.values():
        ids = same_padding([next(iter(flow.log.calls[row].padding.values()), None) for row in rows[:MOST_READ]])
        if ids is None or not ids.is_at_end or ids.axis != 1 or not is_meant_to_pad(case, ids.value):
            continue
        yield from ((row, ids) for row in _picks(flow, rows[0]) if _is_counted(flow, row, ids))


def _picks(flow: Dataflow, lookup: int) -> Iterator[int]:
    """The calls that pick something for the ids of a lookup, or for those that follow them, in the same step."""
    read = tensor_before(flow, flow.log.calls[lookup].inputs[0].tensor, lookup, SHAPE_ONLY)
    until = next((row for row in flow.rows_of_kind("backward") if row > lookup), None)
    for row, call in calls_named(flow, _PICKS):
        if until is None or not lookup < row < until or not call.inputs[0].requires_grad or len(call.inputs) <= 1:
            continue
        index = call.inputs[1].tensor
        is_one_each = len(shape_of(flow, index)) == _AXES and shape_of(flow, index)[-1] == 1
        if is_one_each and tensor_before(flow, index, row, SHAPE_ONLY) == read:
            yield row


def _is_counted(flow: Dataflow, row: int, ids: Padding) -> bool:
    """Whether the padding of what is picked counts. Of ids that follow the others, as many pad, or more."""
    positions = shape_of(flow, flow.log.calls[row].inputs[1].tensor)[:-1]
    is_of_ids = positions[0] * positions[1] in (ids.of, ids.of - positions[0])
    # The average is told how many pad before the last position of each sequence is cut off: here it is there.
    return is_of_ids and average_of_whole(flow, row, positions, ids.count + positions[0]) is not None
