"""Heads of detectors whose numbers of each anchor are counted off from a map with the channels in front.

A view of (batch, anchors * numbers, height, width) as (batch, rows, numbers) takes neighbouring cells of one channel
for the numbers of one row. A network can learn from such rows if nothing says what they are, as capsules do, so it only
counts where a loss compares them, number by number, with constants: targets or anchors that lie in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.mixed_channels import KEEPS_AXES, Mixed, convolution_of
from gradviz.graph.call_log import Call

_LOSSES = frozenset({
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "cross_entropy", "nll_loss", "sub",
})  # fmt: skip
_ARITHMETIC = frozenset({"mul", "add", "sub", "div"})
_KEEPS_ROWS = KEEPS_AXES | {"exp", "log_softmax", "softmax", "clamp", "getitem", "log", "square", "sqrt", "where"}
_RESHAPES = frozenset({"view", "reshape", "flatten", "unflatten"})
_CLASSES = frozenset({"cross_entropy", "nll_loss"})
_MAX_FOLLOWED = 60
_MAX_MAKERS = 20
_ROWS = 2


def cells_with_channels(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(batch, anchors * numbers, positions...) of a convolution to (batch, all anchors, numbers), or all rows of it."""
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    if len(given) <= _ROWS or not _ROWS <= len(made) <= _ROWS + 1 or (len(made) > _ROWS and made[0] != given[0]):
        return None
    channels, numbers, width = given[1], made[-1], given[-1]
    if not 1 < numbers < channels or channels % numbers or numbers in (width, prod(given[2:])):
        return None
    found = convolution_of(flow, row, call.inputs[0].tensor)
    if found is None or found[1] != 1 or not any(_is_told(flow, row, call.outputs[0].tensor, numbers)):
        return None
    what = f"axis 1 has the channels of {plain_name(flow.log.calls[found[0]].function)}(), {numbers:,} for each anchor"
    order = ", ".join(str(each) for each in (0, *range(2, len(given)), 1))
    fix = f"put the channels last first: .permute({order}).reshape(batch, -1, {numbers:,})"
    return Mixed(found[0], what, "channels and cells", fix, True)


def _is_told(flow: Dataflow, row: int, tensor: int, numbers: int) -> Iterator[bool]:
    """For each call that compares the rows with constants, which were not laid out in the same way: True."""
    waiting, seen = [(tensor, row, False)], {tensor}
    while waiting and len(seen) < _MAX_FOLLOWED:
        given, after, is_part = waiting.pop()
        for user in flow.users(given, after)[:_MAX_FOLLOWED]:
            call = flow.log.calls[user]
            name, made = plain_name(call.function), call.outputs[0].tensor if call.outputs else None
            if made is None or not call.outputs[0].requires_grad:
                continue
            if name in (_LOSSES | _ARITHMETIC if is_part else _LOSSES) and _meets_rows(flow, user, given, numbers):
                yield True
            shape, before = shape_of(flow, made), shape_of(flow, given)
            is_cut = name == "getitem" and shape[-1:] != before[-1:]
            is_kept = name in _KEEPS_ROWS or (name in ("cat", *_RESHAPES) and shape[-1:] == before[-1:])
            if is_kept and made not in seen:
                seen.add(made)
                waiting.append((made, user, is_part or is_cut))


def _meets_rows(flow: Dataflow, row: int, tensor: int, numbers: int) -> bool:
    """Whether a call takes rows together with constants that have a value for each row."""
    call = flow.log.calls[row]
    others = [use.tensor for use in call.inputs[:2] if use.tensor != tensor and not use.requires_grad]
    shape = shape_of(flow, tensor)
    for other in others:
        has_each = shape_of(flow, other)[-_ROWS:-1] == shape[-_ROWS:-1] and shape[-_ROWS] > 1
        is_classes = plain_name(call.function) in _CLASSES and shape_of(flow, other) == shape[:-1]
        if (has_each or is_classes) and not _is_laid_out_alike(flow, other, row, numbers):
            return True
    return False


def _is_laid_out_alike(flow: Dataflow, tensor: int, row: int, numbers: int) -> bool:
    """Whether constants come from a map by a view of the same kind."""
    for _, call in flow.makers(tensor, row, _MAX_MAKERS):
        name = plain_name(call.function)
        if name in _RESHAPES and call.inputs and call.outputs:
            given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
            if made[-1:] == (numbers,) != given[-1:]:
                return True
    return False
