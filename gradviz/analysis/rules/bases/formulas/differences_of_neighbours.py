"""Differences of neighbours: ``x[1:] - x[:-1]``, ``diff(x)``, ``conv1d(x, [-1, 1])``, a product with such a matrix."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call, TensorUse

_PARTS = frozenset({"getitem", "narrow", "select", "index_select"})
_CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d"})
_MATRICES = frozenset({"matmul", "mm", "mv", "linear"})
_BOTH = 2
_IMAGE = 3


def differences_of_neighbours(case: Case, row: int) -> tuple[int, frozenset[int]] | None:
    """The tensor and the axes along which a call subtracts neighbours: of an image, or of what is trained."""
    flow = case.dataflow
    call = flow.log.calls[row]
    name = plain_name(call.function)
    if name in _CONVOLUTIONS:
        return _by_kernel(case, row, call)
    if name in _MATRICES and len(call.inputs) == _BOTH:
        return _by_matrix(case, row, call)
    base = _base(flow, row, call, name)
    if base is None:
        return None
    whole, shape = shape_of(flow, base), shape_of(flow, call.outputs[0].tensor)
    if len(whole) != len(shape) or not _is_wide(case, base):
        return None
    shorter = [axis for axis, (one, other) in enumerate(zip(whole, shape, strict=True)) if one != other]
    is_one_less = len(shorter) == 1 and whole[shorter[0]] == shape[shorter[0]] + 1
    return (base, frozenset(shorter)) if is_one_less else None


def _is_wide(case: Case, base: int) -> bool:
    return base in case.histories.trained or len(shape_of(case.dataflow, base)) >= _IMAGE


def _base(flow: Dataflow, row: int, call: Call, name: str) -> int | None:
    """What two parts are of that a call subtracts."""
    if name == "diff" and len(call.inputs) == 1:
        return call.inputs[0].tensor
    is_difference = name == "sub" or (name == "add" and number_of(call, "alpha", missing=1.0) == -1)
    if not is_difference or len(call.live_inputs) != _BOTH or len(call.inputs) != _BOTH:
        return None
    bases = {_whole(flow, use.tensor, row) for use in call.inputs}
    return next(iter(bases)) if len(bases) == 1 else None


def _whole(flow: Dataflow, tensor: int, row: int) -> int | None:
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    return call.inputs[0].tensor if call is not None and plain_name(call.function) in _PARTS else None


def _by_kernel(case: Case, row: int, call: Call) -> tuple[int, frozenset[int]] | None:
    """A convolution with kernels of one plus and one minus of the same size, as ``[-1, 1]``."""
    flow = case.dataflow
    if len(call.inputs) != _BOTH or call.inputs[1].requires_grad:
        return None
    size = shape_of(flow, call.inputs[1].tensor)
    if len(size) < _IMAGE or size[1] != 1 or not _are_pairs(flow, call.inputs[1], row, size[0]):
        return None
    base = tensor_before(flow, call.inputs[0].tensor, row, SHAPE_ONLY - PARTS)
    along = frozenset(axis for axis in range(_BOTH, len(size)) if size[axis] > 1)
    return (base, along) if _is_wide(case, base) and (len(along) == 1 or size[0] > 1) else None


def _by_matrix(case: Case, row: int, call: Call) -> tuple[int, frozenset[int]] | None:
    """A product with a matrix of one row for each pair of neighbours."""
    flow = case.dataflow
    dead = [use for use in call.inputs if not use.requires_grad]
    size = shape_of(flow, dead[0].tensor) if len(dead) == 1 else ()
    if len(size) != _BOTH or abs(size[0] - size[1]) != 1 or not _are_pairs(flow, dead[0], row, min(size)):
        return None
    base = tensor_before(flow, call.live_inputs[0].tensor, row, SHAPE_ONLY - PARTS)
    along = [axis for axis, number in enumerate(shape_of(flow, base)) if number == max(size)]
    return (base, frozenset(along[:1])) if along and _is_wide(case, base) else None


def _are_pairs(flow: Dataflow, use: TensorUse, row: int, count: int) -> bool:
    """Whether a tensor has so many pairs of one number, once with each sign, and zeros: as its extremes tell."""
    values = flow.values_of(use, row)
    if values is None or values.minimum is None or values.maximum is None:
        return False
    return values.minimum == -values.maximum < 0 and values.count - values.zeros == _BOTH * count
