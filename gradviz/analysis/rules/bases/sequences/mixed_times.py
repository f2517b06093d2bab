"""Reshapes that take samples for time steps or layers: those of recurrent layers, and of tensors that were stacked."""

from __future__ import annotations

from math import prod

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS
from gradviz.analysis.rules.bases.mixed_channels import KEEPS_AXES, Mixed
from gradviz.graph.call_log import Call

_KEEPS_FRONT = KEEPS_AXES | {"linear", "layer_norm", "rms_norm", "softmax", "log_softmax", "detach", "double"}
_SEQUENCES = RECURRENT_LAYERS | {"multi_head_attention_forward"}
_STACKS = frozenset({"stack"})
_MAX_FOLLOWED = 20
_PAIR = 2
_FIX = "exchange the axes instead: .transpose(0, 1)"


def samples_with_times(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(one, other, features) to (other, one, features): samples and times of a recurrent layer, in either order, of
    what it gets or gives."""
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    what = "axes 0 and 1 are the samples and the times"
    if len(given) > _PAIR and _is_turned(given[:_PAIR], given[_PAIR:], made):
        origin = _made_in_front(flow, row, call.inputs[0].tensor)
        if origin is not None and plain_name(flow.log.calls[origin].function) in _SEQUENCES:
            return Mixed(origin, what, "samples and times", _FIX)
    users = (flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row))
    is_exchanged = len(given) == len(made) > _PAIR and _is_turned(given[:_PAIR], given[_PAIR:], made)
    if is_exchanged and any(plain_name(user.function) in RECURRENT_LAYERS for user in users):
        return Mixed(row, what, "samples and times", _FIX)
    return None


def stacked_with_samples(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(n, samples, features) of n tensors that were stacked to (samples, n, features), as the states of n time steps.

    What ``cat()`` joins may be parts of one batch that was repeated."""
    if not call.inputs[0].requires_grad:
        return None
    origin = _made_in_front(flow, row, call.inputs[0].tensor)
    put = None if origin is None else flow.log.calls[origin]
    if origin is None or put is None or plain_name(put.function) not in _STACKS or put.scalars.get("1", 0) != 0:
        return None
    count, shapes = len(put.inputs), {shape_of(flow, use.tensor) for use in put.inputs}
    each = shapes.pop() if len(shapes) == 1 else ()
    if not each or put.scalars.get("dim", 0) != 0 or not _is_turned((count, each[0]), each[1:], _made(flow, call)):
        return None
    what = f"{plain_name(put.function)}() put {count} tensors of {each} one after the other"
    return Mixed(origin, what, "these tensors and their rows", f"{_FIX}, or torch.stack(tensors, dim=1)")


def rows_joined_otherwise(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(one * other, features) to (other, one, features), of rows that a reshape had joined of (one, other, ...)."""
    given, made = shape_of(flow, call.inputs[0].tensor), _made(flow, call)
    if not call.inputs[0].requires_grad or not 0 < len(given) < len(made) or prod(made[:_PAIR]) != given[0]:
        return None
    for maker, before in flow.makers(call.inputs[0].tensor, row, _MAX_LAYERS):
        name = plain_name(before.function)
        if not before.inputs or not before.outputs or shape_of(flow, before.outputs[0].tensor)[:1] != given[:1]:
            return None
        front = shape_of(flow, before.inputs[0].tensor)
        if name in _JOINS and front[:1] != given[:1]:
            if prod(front[:_PAIR]) != given[0] or front[:_PAIR] != made[:_PAIR][::-1] or front[0] == front[1]:
                return None
            what = f"{name}() had joined axes of {front[0]:,} and {front[1]:,}"
            fix = f"part them in the same order: .view({front[0]}, {front[1]}, ...), and exchange axes afterwards"
            return Mixed(maker, what, "rows of different samples", fix) if min(front[:_PAIR]) >= _PAIR else None
        if name not in _KEEPS_ROWS:
            return None
    return None


_JOINS = frozenset({"view", "reshape", "flatten"})
_KEEPS_ROWS = _KEEPS_FRONT | _JOINS | {
    "batch_norm", "group_norm", "conv1d", "conv2d", "conv3d", "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "mean", "sum", "squeeze", "unsqueeze", "normalize",
}  # fmt: skip
_MAX_LAYERS = 60


def _made(flow: Dataflow, call: Call) -> Shape:
    return shape_of(flow, call.outputs[0].tensor)


def _is_turned(front: Shape, rest: Shape, made: Shape) -> bool:
    """Whether a shape has the two sizes in front in the other order, and then the rest, however it is parted."""
    one, other = front
    if one == other or min(front) < _PAIR:
        return False
    is_flat = bool(rest) and made == (other, one * prod(rest))
    return is_flat or (made[:_PAIR] == (other, one) and prod(made[_PAIR:]) == prod(rest))


def _made_in_front(flow: Dataflow, row: int, tensor: int) -> int | None:
    """The call that made the first two axes of a tensor, which others only computed with."""
    front = shape_of(flow, tensor)[:_PAIR]
    for maker, call in flow.makers(tensor, row, _MAX_FOLLOWED):
        name = plain_name(call.function)
        if name in _SEQUENCES or name in _STACKS:
            # The last states of a recurrent layer have other axes in front.
            results = (use for use in call.outputs if use.place in ("return[0]", "return"))
            return maker if any(_is(flow, use.tensor, front) for use in results) else None
        if name not in _KEEPS_FRONT or not call.inputs or not _is(flow, call.inputs[0].tensor, front):
            return None
    return None


def _is(flow: Dataflow, tensor: int, front: Shape) -> bool:
    return shape_of(flow, tensor)[:_PAIR] == front


def layers_with_samples(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(layers * directions, batch, features), the last states of a recurrent layer, to (batch, all features)."""
    state, made = call.inputs[0].tensor, shape_of(flow, call.outputs[0].tensor)
    given = shape_of(flow, state)
    if len(given) != 3 or min(given[:2]) < 2 or made != (given[1], given[0] * given[2]):
        return None
    state, maker = _before_parts(flow, state, row)
    if maker is None:
        return None
    is_state = any(use.tensor == state and use.place != "return[0]" for use in flow.log.calls[maker].outputs)
    if plain_name(flow.log.calls[maker].function) not in RECURRENT_LAYERS or not is_state:
        return None
    what = f"axis 0 has the layers and directions of {plain_name(flow.log.calls[maker].function)}()"
    return Mixed(maker, what, "layers and samples", "exchange the axes first: .transpose(0, 1).reshape(batch, -1)")


def _before_parts(flow: Dataflow, tensor: int, row: int) -> tuple[int, int | None]:
    """The tensor of which another one has some layers, or the samples in another order, and the call that made it."""
    maker = flow.newest_producer(tensor, row)
    for _ in range(_MAX_PARTS):
        part = None if maker is None else flow.log.calls[maker]
        if part is None or plain_name(part.function) not in ("getitem", "index_select") or not part.inputs:
            break
        whole = part.inputs[0].tensor
        if shape_of(flow, whole)[1:] != shape_of(flow, tensor)[1:]:
            break
        tensor, maker = whole, flow.newest_producer(whole, maker or row)
    return tensor, maker


_MAX_PARTS = 3
