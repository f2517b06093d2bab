"""Reshapes that take channels for positions: those of a convolution, which are not last, and features, which are."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS
from gradviz.graph.call_log import Call

KEEPS_AXES = frozenset({
    "add", "sub", "mul", "div", "relu", "gelu", "silu", "elu", "tanh", "sigmoid", "leaky_relu", "prelu", "hardtanh",
    "relu6", "mish", "hardswish", "softplus", "dropout", "contiguous", "clone", "to", "float", "half", "bfloat16",
    "masked_fill",
})  # fmt: skip
_KEEPS_CHANNELS = frozenset({
    "batch_norm", "group_norm", "instance_norm", "interpolate", "pad", "softmax", "log_softmax", "getitem", "detach",
    "double", "clamp", "flip", "roll",
})  # fmt: skip
"""They may make more or fewer positions, and keep the first two axes."""
_TRANSPOSE = frozenset({"transpose", "swapaxes", "swapdims", "permute"})
_TAKES_SAMPLES = frozenset({"getitem", "stack", "cat", "index_select"})
_MAX_FOLLOWED = 40


class Mixed(Struct, frozen=True):
    """Two axes that a reshape does not keep apart."""

    origin: int
    """The call that tells what they are."""
    what: str
    pair: str
    fix: str
    is_certain: bool = False
    """Whether the shapes alone tell, and not only how the result is used."""


def as_one_reshape(flow: Dataflow, row: int, call: Call) -> Iterator[Call]:
    """A reshape, and the same call with what the reshapes right before it were given: ``x.flatten(1).unflatten(...)``
    does what one ``view()`` does."""
    yield call
    tensor = call.inputs[0].tensor
    for _ in range(_MAX_RESHAPES):
        made = flow.newest_producer(tensor, row)
        before = None if made is None else flow.log.calls[made]
        if made is None or before is None or plain_name(before.function) not in _RESHAPES or not before.inputs:
            return
        row, tensor = made, before.inputs[0].tensor
        yield replace(call, inputs=before.inputs[:1])


_RESHAPES = frozenset({
    "view", "reshape", "flatten", "unflatten", "ravel", "contiguous", "view_as", "reshape_as", "squeeze", "unsqueeze",
})  # fmt: skip
_MAX_RESHAPES = 3


# -- channels of convolutions ------------------------------------------------------------------------------------------


def channels_with_positions(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(batch, channels, positions...) of a convolution to (batch, positions, channels), or to parts of the channels;
    also where the channels were moved before, and not behind all positions."""
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    found = convolution_of(flow, row, call.inputs[0].tensor) if len(given) > _ROWS and made[-1:] != given[-1:] else None
    if found is None or not 0 < found[1] < len(given) - 1:
        return None
    origin, axis = found
    channels, rest = given[axis], (*given[:axis], *given[axis + 1 :])
    count = prod(rest[1:])
    if min(channels, count) < _ROWS or channels in (count, given[-1]):
        return None
    is_split = axis == 1 and _has_parts_of_channels(given, made)
    if not is_split and made not in ((rest[0], count, channels), (*rest, channels), (rest[0] * count, channels)):
        return None
    what = f"axis {axis} has the channels of {plain_name(flow.log.calls[origin].function)}()"
    fix = f"exchange the axes instead: {_moved(given, made, axis)}"
    return Mixed(origin, what, "channels and positions", fix, is_split)


_ROWS = 2


def _moved(given: Shape, made: Shape, axis: int) -> str:
    if axis > 1 or len(made) < len(given) - 1:
        return f".movedim({axis}, -1).reshape(...)"
    has_positions = len(given) > 3
    flat = ".flatten(2)" if has_positions and len(made) < len(given) else ""
    order = ", ".join(str(each) for each in (0, *range(2, len(given)), 1))
    return f".permute({order})" if has_positions and not flat else f"{flat}.transpose(1, 2)"


def _has_parts_of_channels(given: Shape, made: Shape) -> bool:
    """(batch, channels, height, width) to (batch, height, width, anchors, numbers of each), as of a detector."""
    first = len(given) - 1
    batch, channels, *positions = given
    return made[:first] == (batch, *positions) and len(made) > first + 1 and prod(made[first:]) == channels


def convolution_of(flow: Dataflow, row: int, tensor: int) -> tuple[int, int] | None:
    """The convolution of a batch that a tensor is the result of, and the axis of the tensor with its channels."""
    rank = len(shape_of(flow, tensor))
    axes = list(range(rank))
    for maker, call in flow.makers(tensor, row, _MAX_FOLLOWED):
        name = plain_name(call.function)
        made = shape_of(flow, call.outputs[0].tensor) if call.outputs else ()
        if len(made) != rank or not call.inputs:
            return None
        if name.startswith("conv") and name[-1] == "d":
            # The weight has as many axes as an input with a batch.
            is_batch = len(call.inputs) > 1 and len(shape_of(flow, call.inputs[1].tensor)) == rank
            return (maker, axes.index(1)) if is_batch else None
        if name in _TRANSPOSE:
            order = order_of(call, rank)
            if order is None:
                return None
            axes = [order[axis] for axis in axes]
            continue
        is_known = name in KEEPS_AXES | _KEEPS_CHANNELS or "pool" in name
        if not is_known or made[:2] != shape_of(flow, call.inputs[0].tensor)[:2]:
            return None
    return None


def order_of(call: Call, rank: int) -> list[int] | None:
    """By axis of the result of a transposition: the axis of the input that it is."""
    numbers = [value for place, value in call.scalars.items() if type(value) is int and -rank <= value < rank]
    if plain_name(call.function) == "permute":
        return [each % rank for each in numbers] if len(numbers) == rank else None
    if len(numbers) != _ROWS:
        return None
    order = list(range(rank))
    one, other = (each % rank for each in numbers)
    order[one], order[other] = order[other], order[one]
    return order


# -- features of tokens ------------------------------------------------------------------------------------------------


def features_with_positions(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(batch, tokens, features) of a layer to (batch, features, tokens), for something that takes axis 1 for channels
    or classes."""
    tensor, result = call.inputs[0].tensor, call.outputs[0].tensor
    given, made = shape_of(flow, tensor), shape_of(flow, result)
    if len(given) < 3 or len(made) < 3 or not call.inputs[0].requires_grad:
        return None
    features, count = given[-1], prod(given[1:-1])
    is_exchanged = made[:2] == (given[0], features) and prod(made[2:]) == count
    if not is_exchanged or min(features, count) < _ROWS or features in (count, given[1]):
        return None
    origin = _layer_of_features(flow, row, tensor)
    if origin is None:
        return None
    is_turned = made == (*given[:-2], features, given[-2])
    users = [flow.log.calls[user] for user in users_by_element(flow, row, result)]
    if not any(_takes_channels(user) or (is_turned and _multiplies(flow, user, result)) for user in users):
        return None
    what = f"the last axis has the features of {plain_name(flow.log.calls[origin].function)}()"
    last = len(given) - 1
    return Mixed(origin, what, "features and positions", f"exchange the axes first: .movedim({last}, 1).reshape(...)")


def _layer_of_features(flow: Dataflow, row: int, tensor: int) -> int | None:
    """The layer that made the last axis of a tensor."""
    last = shape_of(flow, tensor)[-1]
    for maker, call in flow.makers(tensor, row, _MAX_FOLLOWED):
        name = plain_name(call.function)
        made = shape_of(flow, call.outputs[0].tensor) if call.outputs else ()
        if made[-1:] != (last,) or not call.inputs:
            return None
        if name in _MAKES_FEATURES or name in RECURRENT_LAYERS:
            return maker
        if name not in KEEPS_AXES and name not in _TAKES_SAMPLES:
            return None
    return None


_MAKES_FEATURES = frozenset({"linear", "layer_norm", "rms_norm", "embedding"})


def _takes_channels(call: Call) -> bool:
    name = plain_name(call.function)
    return name in _TAKES_CHANNELS or (name.startswith("conv") and name[-1] == "d")


def _multiplies(flow: Dataflow, call: Call, turned: int) -> bool:
    """Whether a call is a product for which a matrix of each sample is to be turned: one with the keys of an attention,
    or a layer over the positions."""
    name, given = plain_name(call.function), [use.tensor for use in call.inputs]
    if name == "linear":
        return given[0] == turned
    others = [each for each in given if each != turned]
    is_by_sample = name in _PRODUCTS and given[-1] == turned and bool(others)
    return is_by_sample and len(shape_of(flow, given[-2])) == len(shape_of(flow, turned))


_PRODUCTS = frozenset({"matmul", "bmm", "baddbmm"})
_TAKES_CHANNELS = frozenset({"cross_entropy", "nll_loss", "batch_norm", "group_norm", "instance_norm"})


def users_by_element(flow: Dataflow, row: int, tensor: int) -> Iterator[int]:
    """The calls that use a tensor, also behind what changes each of its elements, or takes or stacks whole samples."""
    waiting, seen = [(tensor, row)], {tensor}
    for _ in range(_MAX_FOLLOWED):
        if not waiting:
            return
        given, after = waiting.pop()  # the newest first: of many samples, one that a batch has
        for user in flow.users(given, after)[:_MAX_FOLLOWED]:
            yield user
            call = flow.log.calls[user]
            if plain_name(call.function) in KEEPS_AXES | _TAKES_SAMPLES and call.outputs:
                result = call.outputs[0].tensor
                if result not in seen:
                    seen.add(result)
                    waiting.append((result, user))
