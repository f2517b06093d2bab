"""Losses that are averaged or added up over all positions of padded sequences, also over those that only pad."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE
from gradviz.graph.call_log import IGNORED_CLASS, Call, TensorUse

_WITH_CLASSES = frozenset({"cross_entropy", "nll_loss"})
_COMPARE = frozenset({"sub", "gather", "take_along_dim", *LOSSES_BY_SAMPLE})
_ENDS = frozenset({"mean", "sum"})
_BY_POSITION = frozenset({
    "linear", "dropout", "relu", "gelu", "silu", "elu", "tanh", "sigmoid", "leaky_relu", "softplus", "layer_norm",
    "softmax", "log_softmax", "logsumexp", "log", "exp", "neg", "square", "pow", "abs", "add", "sub", "mul", "div",
    "squeeze", "unsqueeze", "view", "reshape", "flatten", "transpose", "permute", "contiguous", "clamp", "clone",
    "getitem", "select", "float", "to", "gather", "take_along_dim", "matmul", "addmm", "sum", "mean", "index_select",
    *LOSSES_BY_SAMPLE,
})  # fmt: skip
"""They compute each position by itself, where they keep the positions."""
_MAX_FOLLOWED = 60


class WholeMean(Struct, frozen=True):
    """A loss of all positions."""

    row: int
    """The call that averages or adds up."""
    padded: int
    """The call that padded the sequences."""
    count: int
    """The positions that only pad."""
    of: int
    """All positions."""


def means_of_unpacked(flow: Dataflow) -> Iterator[WholeMean]:
    """The losses of what ``pad_packed_sequence()`` returned; the first of each line."""
    seen = set[int | None]()
    for row, call in enumerate(flow.log.calls):
        if not call.function.endswith("pad_packed_sequence") or call.call_site in seen or not call.live_inputs:
            continue
        if not call.outputs or not flow.has_step_after(row):
            continue
        seen.add(call.call_site)
        shape, packed = (shape_of(flow, use.tensor) for use in (call.outputs[0], call.inputs[0]))
        count = prod(shape[:_AXES]) - packed[0]
        end = _end(flow, row, call.outputs[0].tensor, shape[:_AXES], is_compared=False) if count > 0 else None
        if end is not None:
            yield WholeMean(end, row, count, prod(shape[:_AXES]))


def average_of_whole(flow: Dataflow, row: int, target: Shape, padded: int) -> int | None:
    """The call that averages or adds up all positions of what another call makes of a target of sequences, or more of
    them than there would be without those that only pad."""
    out = flow.log.calls[row].outputs
    is_known = bool(out) and len(target) >= _AXES
    return _end(flow, row, out[0].tensor, target[:_AXES], padded, is_compared=True) if is_known else None


_AXES = 2


def _end(flow: Dataflow, row: int, tensor: int, positions: Shape, padded: int = 0, *, is_compared: bool) -> int | None:
    """The call that averages what is computed of each position; None if something may leave positions out."""
    until = next((each for each in flow.rows_of_kind("backward") if each > row), None)
    kept, compared, end = {tensor}, {tensor} if is_compared else set[int](), None
    for user in flow.descendants(tensor, row, until, live=True) if until is not None else ():
        call = flow.log.calls[user]
        given = [use.tensor for use in call.inputs if use.tensor in kept]
        if call.kind != "operation" or not call.outputs or not given:
            continue
        name, out = plain_name(call.function), call.outputs[0].tensor
        if len(kept) > _MAX_FOLLOWED or name not in _BY_POSITION or _may_leave_out(flow, user, call, positions, padded):
            return None
        shape = shape_of(flow, out)
        is_compared = any(each in compared for each in given) or (
            name in _COMPARE and _has_target(flow, call, positions)
        )
        if is_compared and (name in _ENDS or name in LOSSES_BY_SAMPLE) and (not shape or shape == positions[:1]):
            end = user if end is None else end
        elif not _keeps(shape, positions):
            return None
        else:
            kept.add(out)
            compared |= {out} if is_compared else set()
    return end


def _keeps(shape: Shape, positions: Shape) -> bool:
    """Whether a tensor still has all positions: as two axes, also around one of classes, or as one."""
    both = set(positions)
    return (
        (len(shape) >= _AXES and set(shape[:_AXES]) == both)
        or (len(shape) > _AXES and {shape[0], shape[-1]} == both)
        or shape[:1] == (prod(positions),)
    )


def _has_target(flow: Dataflow, call: Call, positions: Shape) -> bool:
    return any(not use.requires_grad and _keeps(shape_of(flow, use.tensor), positions) for use in call.inputs)


def _may_leave_out(flow: Dataflow, row: int, call: Call, positions: Shape, padded: int) -> bool:
    """Whether a call multiplies by zeros, or ignores targets of some value; not by fewer zeros than positions pad."""
    name, dead = plain_name(call.function), [use for use in call.inputs if not use.requires_grad]
    if name == "mul":
        return any(_has_zeros(flow, use, row) and not _has_few_zeros(flow, use, row, positions, padded) for use in dead)
    if name in ("div", "matmul"):
        return any(_has_zeros(flow, use, row) for use in dead)
    if name not in LOSSES_BY_SAMPLE:
        return False
    if len(dead) > 1:  # the weights of classes or elements
        return True
    ignored = call.scalars.get("ignore_index", IGNORED_CLASS)
    values = flow.values_of(dead[0], row) if dead else None
    is_ignored = name in _WITH_CLASSES and (
        ignored != IGNORED_CLASS or (values is not None and values.minimum == ignored)
    )
    return is_ignored or (values is not None and values.nans > 0)


def _has_zeros(flow: Dataflow, use: TensorUse, row: int) -> bool:
    values = flow.values_of(use, row)
    return values is None or values.zeros > 0


def _has_few_zeros(flow: Dataflow, use: TensorUse, row: int, positions: Shape, padded: int) -> bool:
    """Whether a mask of positions has fewer zeros than positions that pad: it leaves others out, as those of a prompt.
    The last position of each sequence may have been cut off. A mask may also be one for all sequences."""
    values, shape = flow.values_of(use, row), shape_of(flow, use.tensor)
    if values is None:
        return False
    is_for_all = shape in (positions[1:], (1, *positions[1:]))
    zeros = values.zeros * (positions[0] if is_for_all else 1)
    return (is_for_all or values.count == prod(positions)) and zeros < padded - positions[0]
