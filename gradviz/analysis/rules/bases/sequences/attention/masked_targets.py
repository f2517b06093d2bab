"""Distributions of targets that leave some positions out, beside those of a model that count them."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.sequences.attention.hiding_masks import HidingMask, mask_of

_SOFTMAXES = frozenset({"softmax", "log_softmax"})
_SAME = frozenset({
    "invert", "logical_not", "bool", "float", "to", "type_as", "unsqueeze", "squeeze", "view", "reshape", "expand",
    "rsub", "clone", "getitem",
})  # fmt: skip
_MAX_MAKERS = 8
_MAX_EDITS = 4


def targets_without_these(flow: Dataflow, softmax: int, masked: int, until: int) -> int | None:
    """The softmax of targets that the mask leaves out before, which is applied behind the softmax of the scores.

    Args:
        softmax: the softmax of the scores.
        masked: the call that applies the mask to what it returns.
        until: the backward call.
    """
    masks = {_plain(flow, use.tensor, masked) for use in flow.log.calls[masked].inputs if not use.requires_grad}
    for row, hidden in _targets_that_leave_out(flow, softmax, until):
        if any(_plain(flow, mask.tensor, mask.row) in masks for mask in hidden):
            return row
    return None


def targets_of_lengths(flow: Dataflow, softmax: int, until: int) -> int | None:
    """The softmax of targets that leaves out what is beyond the length of each row, beside scores of all positions.

    What else targets leave out, such as moves that a game does not allow, a model may well be asked to learn.
    """
    for row, hidden in _targets_that_leave_out(flow, softmax, until):
        if any(_is_of_lengths(flow, mask.tensor, mask.row) for mask in hidden):
            return row
    return None


def _targets_that_leave_out(flow: Dataflow, softmax: int, until: int) -> Iterator[tuple[int, list[HidingMask]]]:
    """The softmaxes of data of the same shape that meet the scores later, with the masks of what they leave out."""
    call = flow.log.calls[softmax]
    scores = call.outputs[0].tensor
    shape, axis = shape_of(flow, scores), axis_of(call, len(shape_of(flow, scores)))
    below: set[int] | None = None
    for row in range(flow.step_before(softmax) + 1, until):
        other = flow.log.calls[row]
        if plain_name(other.function) not in _SOFTMAXES or other.live_inputs or not other.outputs:
            continue
        if shape_of(flow, other.outputs[0].tensor) != shape or axis_of(other, len(shape)) != axis:
            continue
        above = flow.makers(other.inputs[0].tensor, row, _MAX_EDITS)
        hidden = [mask for made, maker in above if (mask := mask_of(flow, made, maker)) is not None]
        if not hidden:
            continue
        below = set(flow.descendants(scores, softmax, until)) if below is None else below
        meets = below.intersection(flow.descendants(other.outputs[0].tensor, row, until))
        if meets and not _is_of_model(flow, row):
            yield row, hidden


def _is_of_lengths(flow: Dataflow, mask: int, row: int) -> bool:
    """Whether a mask was made by comparing positions with lengths."""
    tensor = _plain(flow, mask, row)
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) not in _COMPARES:
        return False
    sides = (flow.newest_producer(_plain(flow, use.tensor, made), made) for use in call.inputs)
    return any(side is not None and plain_name(flow.log.calls[side].function) == "arange" for side in sides)


_COMPARES = frozenset({"lt", "le", "gt", "ge"})


def _plain(flow: Dataflow, tensor: int, row: int) -> int:
    """A mask before it was turned round or given another shape."""
    for _, call in flow.makers(tensor, row, _MAX_MAKERS):
        if plain_name(call.function).strip("_") not in _SAME or not call.inputs:
            break
        tensor = call.inputs[0].tensor
    return tensor


def _is_of_model(flow: Dataflow, row: int) -> bool:
    """Whether a model computed the targets: a student may learn from some of the classes of its teacher."""
    above = flow.ancestors(flow.log.calls[row].inputs[0].tensor, row)
    return any(
        flow.log.tensors[use.tensor].role == "parameter" for each in above for use in flow.log.calls[each].inputs
    )
