"""Matrices and scales, of which a logarithm is taken, and that are applied at several positions of each sample."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2
_MAX_MAKERS = 12
_MOST_FOLLOWED = 60
_MAPS = frozenset({"conv1d", "conv2d", "conv3d", "linear", "matmul", "einsum", "tensordot"})
_SCALES = frozenset({"mul", "div"})
_SAME = SHAPE_ONLY | {"abs", "neg", "detach", "diag", "inverse", "inv"}


class AppliedMap(Struct, frozen=True):
    """The call that applies a matrix or scales to samples."""

    call: int
    positions: int
    samples: int


def applied_map(flow: Dataflow, row: int) -> AppliedMap | None:
    """What applies the matrix, or the scales, of a logarithm to samples at several positions, in the same step."""
    call = _determinant(flow, row)
    if call is None:
        return None
    is_sum = plain_name(call.function) == "sum"
    if is_sum and (len(call.inputs) != 1 or shape_of(flow, call.outputs[0].tensor)):
        return None
    source = _source_of_logarithm(flow, call.inputs[0], row) if is_sum else call.inputs[0].tensor
    source = None if source is None else _above(flow, source, row)
    count = prod(shape_of(flow, call.inputs[0].tensor))
    is_square = len(shape := shape_of(flow, call.inputs[0].tensor)) == _BOTH and shape[0] == shape[1]
    if source is None or (not is_sum and not is_square):
        return None
    since = flow.step_before(row)
    for user in flow.descendants(source, since - 1 if since else None, _end(flow, row), live=True)[:_MOST_FOLLOWED]:
        found = _application(flow, user, source, count, is_scale=is_sum)
        found = found or (_of_diagonal(flow, user, count) if is_sum else None)
        if found is not None:
            return found
    return None


def _determinant(flow: Dataflow, row: int) -> Call | None:
    """The call that takes the matrix or the scales: for ``log()``, the one that made the determinant."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "log":
        return call
    above = (made for _, made in flow.makers(call.inputs[0].tensor, row, _MAX_MAKERS))
    maker = next((made for made in above if plain_name(made.function) not in SHAPE_ONLY | {"abs"}), None)
    return maker if maker is not None and plain_name(maker.function) == "det" else None


def _of_diagonal(flow: Dataflow, row: int, count: int) -> AppliedMap | None:
    """What applies a matrix with these scales on its diagonal: triangular ones, and their products with others."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in _MAKE_DIAGONAL or not call.outputs:
        return None
    if shape_of(flow, call.outputs[0].tensor) != (count, count):
        return None
    matrices, waiting = {call.outputs[0].tensor}, [(call.outputs[0].tensor, row)]
    while waiting and len(matrices) < _MOST_FOLLOWED:
        tensor, made = waiting.pop()
        for user in flow.users(tensor, made):
            later = flow.log.calls[user]
            applied = _applied(flow, user, matrices, count)
            if applied is not None:
                return applied
            result = later.outputs[0].tensor if later.outputs else tensor
            keeps = plain_name(later.function) in _OF_MATRICES and len(shape_of(flow, result)) >= _BOTH
            if keeps and result not in matrices and prod(shape_of(flow, result)) == count**2:
                matrices.add(result)
                waiting.append((result, user))
    return None


_MAKE_DIAGONAL = frozenset({"diag", "diag_embed", "diagflat"})
_OF_MATRICES = SHAPE_ONLY | {"add", "matmul", "mm", "mT", "H", "adjoint", "contiguous"}


def _applied(flow: Dataflow, row: int, matrices: set[int], count: int) -> AppliedMap | None:
    """The call that multiplies samples of several positions with one of the matrices."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in _MAPS:
        return None
    data = [use.tensor for use in call.inputs if use.tensor not in matrices]
    shape = shape_of(flow, data[0]) if data and len(data) < len(call.inputs) else ()
    each = prod(shape[1:])
    has_positions = len(shape) > _BOTH and each % count == 0 and each > count and shape[0] > 1
    return AppliedMap(row, each // count, shape[0]) if has_positions else None


def _end(flow: Dataflow, row: int) -> int | None:
    return next((step for step in flow.rows_of_kind("step") if step > row), None)


def _source_of_logarithm(flow: Dataflow, use: TensorUse, row: int) -> int | None:
    """The scales of which the logarithm is summed, or the logarithm whose exponential is a scale."""
    for _, call in flow.makers(use.tensor, row, _MAX_MAKERS):
        name = plain_name(call.function)
        if name == "log" and len(call.inputs) == 1:
            return call.inputs[0].tensor
        if name not in _SAME:
            break
    exponentials = (flow.log.calls[user] for user in flow.users(_above(flow, use.tensor, row)))
    has_exponential = any(plain_name(each.function) == "exp" or _is_exponential(flow, each) for each in exponentials)
    return use.tensor if has_exponential else None


def _is_exponential(flow: Dataflow, call: Call) -> bool:
    """Whether what a change of shape or of sign makes goes into ``exp()``."""
    if plain_name(call.function) not in _SAME or not call.outputs:
        return False
    return any(plain_name(flow.log.calls[user].function) == "exp" for user in flow.users(call.outputs[0].tensor))


def _above(flow: Dataflow, tensor: int, row: int) -> int:
    """What a tensor was before its shape or its sign was changed."""
    for _, call in flow.makers(tensor, row, _MAX_MAKERS):
        if plain_name(call.function) not in _SAME or not call.inputs:
            break
        tensor = call.inputs[0].tensor
    return tensor


def _application(flow: Dataflow, row: int, source: int, count: int, *, is_scale: bool) -> AppliedMap | None:
    call = flow.log.calls[row]
    if plain_name(call.function) not in (_SCALES if is_scale else _MAPS) or len(call.inputs) < _BOTH:
        return None
    for index, (data, factor) in enumerate((call.inputs[:2], call.inputs[1::-1])):
        shape, size = shape_of(flow, data.tensor), prod(shape_of(flow, factor.tensor))
        if not is_scale and not _is_map(flow, call, data, 1 - index):
            continue
        shape = shape if is_scale else _with_positions(flow, data, row)
        # The data has samples in front, and several positions for each element of the scales, or row of the matrix.
        each = prod(shape[1:])
        width = count if is_scale else round(count**0.5)
        is_own = size == count and _is_made_of(flow, factor.tensor, row, source)
        if is_own and len(shape) > _BOTH and each % width == 0 and each > width and shape[0] > 1:
            return AppliedMap(row, each // width, shape[0])
    return None


def _is_map(flow: Dataflow, call: Call, data: TensorUse, place: int) -> bool:
    """Whether an input is a matrix that maps each vector of the data to another one, not the matrix of a form."""
    if plain_name(call.function) not in ("einsum", "tensordot"):
        return True
    equation = equation_of(call)
    is_kept = prod(shape_of(flow, call.outputs[0].tensor)) == prod(shape_of(flow, data.tensor))
    if len(call.inputs) != _BOTH or not is_kept or plain_name(call.function) == "tensordot":
        return len(call.inputs) == _BOTH and is_kept
    is_whole = equation.has_arrow and len(equation.terms) == _BOTH
    return is_whole and sum(letter in equation.result for letter in equation.terms[place]) == 1


def _with_positions(flow: Dataflow, use: TensorUse, row: int) -> tuple[int, ...]:
    """The shape of the data; of rows that are the positions of all samples, the shape that they had before."""
    shape = shape_of(flow, use.tensor)
    for _, call in flow.makers(use.tensor, row, _MAX_MAKERS) if len(shape) == _BOTH else ():
        if plain_name(call.function) not in SHAPE_ONLY or not call.inputs:
            break
        before = shape_of(flow, call.inputs[0].tensor)
        if prod(before) == prod(shape) and len(before) > _BOTH:
            return before
    return shape


def _is_made_of(flow: Dataflow, tensor: int, row: int, source: int) -> bool:
    """Whether a factor is what the logarithm was taken of, or its exponential."""
    for _, call in flow.makers(tensor, row, _MAX_MAKERS):
        if tensor == source:
            return True
        if plain_name(call.function) not in _SAME | {"exp", "reciprocal"}:
            return False
        tensor = call.inputs[0].tensor
    return tensor == source
