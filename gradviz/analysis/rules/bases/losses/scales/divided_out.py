"""Trained scales that have no influence, because what they multiply is normalized behind it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.dataflow.layer_calls import normalizes_by_batch
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse


class DividedOut(Struct, frozen=True):
    """A parameter whose only use is to multiply what is normalized afterwards."""

    parameter: int
    scaled: int
    """The last call that multiplies with it."""
    normalized: int
    """The call that divides it out."""


def divided_out(histories: ParameterHistories) -> Iterator[DividedOut]:
    """The trained scales of one number, or of one for each vector, of which this is true wherever they are used."""
    flow = histories.flow
    for parameter in sorted(histories.trained):
        found = list[DividedOut]()
        for product in _products_with(flow, parameter):
            end = None if product is None else _divided_by(flow, *product)
            if product is None or end is None:
                found.clear()
                break
            found.append(DividedOut(parameter, product[0], end))
        if len(found) >= _MIN_TIMES:
            yield found[-1]


_MIN_TIMES = 2
_MAX_USES = 40
_MAX_FOLLOWED = 40
_OF_SCALE = frozenset({
    "exp", "softplus", "sigmoid", "abs", "square", "clamp", "relu", "view", "reshape", "unsqueeze", "squeeze", "to",
    "float", "double", "clone", "mul", "div", "add", "tanh", "pow", "sqrt", "reciprocal", "exp2", "expand", "expand_as",
})  # fmt: skip
"""What is made of a scale before it multiplies something."""
_HOMOGENEOUS = frozenset({
    "relu", "leaky_relu", "dropout", "neg", "mul", "div", "view", "reshape", "flatten", "unflatten", "transpose",
    "permute", "contiguous", "clone", "to", "float", "double", "squeeze", "unsqueeze", "getitem",
})  # fmt: skip
"""A factor of what they take is one of what they return."""
_KEEP_AXES = frozenset(
    {"relu", "leaky_relu", "dropout", "neg", "mul", "div", "contiguous", "clone", "to", "float", "double"}
)
_LENGTHS = frozenset({"norm", "vector_norm"})
_SQUARES = frozenset({"square", "pow"})
_OF_LENGTH = frozenset({
    "sum", "mean", "sqrt", "rsqrt", "add", "clamp", "clamp_min", "unsqueeze", "view", "reshape", "expand", "expand_as",
})  # fmt: skip
"""What is done to squares, or to a length, before something is divided by it."""
_MOST_MAKERS = 6


def _products_with(flow: Dataflow, parameter: int) -> Iterator[tuple[int, tuple[int, ...]] | None]:
    """Each call that multiplies something else with a scale, with the axes along which the scale is one number; None
    for a use of another kind."""
    waiting = [(parameter, -1)]
    seen = {parameter}
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, after = waiting.pop(0)
        for row in flow.users(tensor, after)[:_MAX_USES]:
            call = flow.log.calls[row]
            is_operation = call.kind in ("operation", "custom", "compiled")
            if not is_operation or not any(use.requires_grad for use in call.outputs):
                continue
            name, result = plain_name(call.function), call.outputs[0].tensor
            others = [use.tensor for use in call.inputs if use.tensor != tensor]
            is_of_scale = name in _OF_SCALE and prod(shape_of(flow, result)) == prod(shape_of(flow, tensor))
            if is_of_scale and not others:
                if result not in seen:
                    seen.add(result)
                    waiting.append((result, row))
            elif len(others) == 1 and _is_scaled_by(flow, call, name, tensor):
                yield row, _axes_of_one(flow, tensor, result)
            else:
                yield None


def _is_scaled_by(flow: Dataflow, call: Call, name: str, scale: int) -> bool:
    """Whether a call multiplies with a scale, or divides by it: also ``einsum("bd,->bd", x, scale)``."""
    if name == "einsum":
        equation = equation_of(call)
        return not shape_of(flow, scale) and max(equation.terms, key=len) == equation.result
    return name == "mul" or (name == "div" and call.inputs[0].tensor != scale)


def _axes_of_one(flow: Dataflow, scale: int, result: int) -> tuple[int, ...]:
    """The axes of a product along which the scale has a single number."""
    small, large = shape_of(flow, scale), shape_of(flow, result)
    ahead = len(large) - len(small)
    return tuple(axis for axis in range(len(large)) if axis < ahead or small[axis - ahead] == 1)


def _divided_by(flow: Dataflow, row: int, axes: tuple[int, ...]) -> int | None:
    """The call that normalizes a product along such axes, if nothing else has a use for it."""
    result = flow.log.calls[row].outputs[0].tensor
    is_one_number = len(axes) == len(shape_of(flow, result))
    waiting, seen, end = [(result, row)], {result}, None
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, after = waiting.pop()
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            if not any(use.requires_grad for use in call.outputs):
                continue
            name, others = plain_name(call.function), [use for use in call.inputs if use.tensor != tensor]
            if _normalizes(flow, call, name, tensor, axes, is_one_number):
                end = user
            elif _is_by_own_length(flow, call, name, tensor, user):
                end = user if name in ("div", "mul") else end
            elif _keeps_factor(name, call, tensor, others, is_one_number) and call.outputs[0].tensor not in seen:
                seen.add(call.outputs[0].tensor)
                waiting.append((call.outputs[0].tensor, user))
            else:
                return None
    return end if not waiting else None


def _normalizes(flow: Dataflow, call: Call, name: str, tensor: int, axes: tuple[int, ...], is_one_number: bool) -> bool:
    """Whether a call divides by the length, or the standard deviation, along axes on which the scale is one number."""
    rank = len(shape_of(flow, tensor))
    if name == "normalize":
        axis = call.scalars.get("dim", call.scalars.get("2", 1))
        return type(axis) is int and (is_one_number or axis % rank in axes)
    if name == "cosine_similarity":
        axis = call.scalars.get("dim", call.scalars.get("2", 1))
        return is_one_number or (type(axis) is int and axis % rank in axes)
    if call.inputs[0].tensor != tensor:
        return False
    if name in ("layer_norm", "rms_norm"):
        return is_one_number or rank - 1 in axes
    # With averages of earlier batches a normalization does not depend on the scale of this one.
    return is_one_number and (name == "group_norm" or normalizes_by_batch(call))


def _is_by_own_length(flow: Dataflow, call: Call, name: str, tensor: int, row: int) -> bool:
    """Whether a call takes the length of vectors, only to divide by it, or divides vectors by their own length:
    ``x / x.norm(...)``, ``x * x.square().mean(...).rsqrt()``."""
    if name in _LENGTHS or name in _SQUARES:
        is_by_vector = name in _SQUARES or bool(axes_of(call, len(shape_of(flow, tensor))))
        return is_by_vector and _only_divides(flow, row, call.outputs[0].tensor)
    others = [use.tensor for use in call.inputs if use.tensor != tensor]
    if name not in ("div", "mul") or len(others) != 1 or (name == "div" and call.inputs[0].tensor != tensor):
        return False
    for _, made in flow.makers(others[0], row, _MOST_MAKERS):
        made_by = plain_name(made.function)
        if made_by in _LENGTHS | _SQUARES:
            return made.inputs[0].tensor == tensor
        if made_by not in _OF_LENGTH:
            return False
    return False


def _only_divides(flow: Dataflow, row: int, length: int) -> bool:
    """Whether a length has no other use than to divide by it: a penalty would make the scale count."""
    waiting, seen = [(length, row)], {length}
    while waiting:
        tensor, after = waiting.pop()
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            name, is_divisor = plain_name(call.function), call.inputs[-1].tensor == tensor
            if not any(use.requires_grad for use in call.outputs) or (name in ("div", "mul") and len(call.inputs) > 1):
                if name == "div" and not is_divisor:
                    return False
                continue
            result = call.outputs[0].tensor
            if name not in _OF_LENGTH or len(call.live_inputs) > 1 or len(seen) > _MAX_FOLLOWED:
                return False
            if name in ("sum", "mean") and not axes_of(call, len(shape_of(flow, tensor))):
                return False
            if result not in seen:
                seen.add(result)
                waiting.append((result, user))
    return True


def _keeps_factor(name: str, call: Call, tensor: int, others: list[TensorUse], is_one_number: bool) -> bool:
    """Whether a factor of what a call takes is one of what it returns."""
    if name == "linear":
        # Without a bias, which the factor would not multiply.
        return is_one_number and call.inputs[0].tensor == tensor and len(call.inputs) == 2
    return not others and name in (_HOMOGENEOUS if is_one_number else _KEEP_AXES)
