"""Reshapes of one-hot classes that take the classes, which are last, for the axis behind the samples."""

from __future__ import annotations

from math import prod

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.mixed_channels import KEEPS_AXES, Mixed, users_by_element
from gradviz.graph.call_log import Call

_MAX_FOLLOWED = 8
_BOTH = 2
_KEEPS = KEEPS_AXES | {"detach", "long", "int", "double", "type", "type_as", "bool", "cuda"}


def classes_with_positions(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(samples, positions..., classes) of a one-hot coding to (samples, classes, positions...), which is compared with
    trained values of that shape."""
    tensor, result = call.inputs[0].tensor, call.outputs[0].tensor
    given, made = shape_of(flow, tensor), shape_of(flow, result)
    if len(given) < _BOTH or len(made) <= _BOTH or call.inputs[0].requires_grad:
        return None
    classes, count = given[-1], prod(made[2:])
    is_exchanged = made[1] == classes and made[0] * count == prod(given[:-1])
    if not is_exchanged or min(classes, count) < _BOTH or classes in (count, made[-1], *given[1:-1]):
        return None
    origin = _one_hot(flow, row, tensor)
    if origin is None or not any(_compares(flow, user, made) for user in users_by_element(flow, row, result)):
        return None
    last = len(given) - 1
    is_one_row = last == 1
    fix = (
        f"reshape to (samples, positions, classes), then exchange the axes: .movedim({len(made) - 1}, 1)"
        if is_one_row
        else f"exchange the axes first: .movedim({last}, 1)"
    )
    return Mixed(origin, f"the last axis has the {classes} classes", "classes and positions", fix)


def _one_hot(flow: Dataflow, row: int, tensor: int) -> int | None:
    """The call that coded classes along the last axis of a tensor."""
    for maker, call in flow.makers(tensor, row, _MAX_FOLLOWED):
        name = plain_name(call.function)
        if not call.inputs or not call.outputs:
            return None
        shapes = [shape_of(flow, use.tensor) for use in (*call.inputs, call.outputs[0])]
        if name == "one_hot" or _is_compared_with_all(name, shapes) or _is_put_in(name, call, shapes):
            return maker
        if name in ("getitem", "index_select", "embedding"):
            return maker if any(_is_eye(flow, use.tensor, maker) for use in call.inputs) else None
        if name not in _KEEPS or shapes[0] != shapes[-1]:
            return None
    return None


def _is_compared_with_all(name: str, shapes: list[Shape]) -> bool:
    """``target[..., None] == torch.arange(classes)``."""
    made, given = shapes[-1], shapes[:-1]
    if name != "eq" or len(given) != _BOTH:
        return False
    numbers = [each for each in given if prod(each) == made[-1] == each[-1:][-1]] if all(given) else []
    columns = [each for each in given if len(each) == len(made) and each[-1] == 1]
    return len(numbers) == 1 and len(columns) == 1


def _is_put_in(name: str, call: Call, shapes: list[Shape]) -> bool:
    """``zeros.scatter(-1, target[..., None], 1)``."""
    rank = len(shapes[-1])
    if name != "scatter" or len(call.inputs) < _BOTH:
        return False
    return axis_of(call, rank) in (-1, rank - 1) and shapes[1][-1:] == (1,)


def _is_eye(flow: Dataflow, tensor: int, row: int) -> bool:
    made = [plain_name(call.function) for _, call in flow.makers(tensor, row, _MAX_FOLLOWED)]
    return next((each for each in made if each not in _KEEPS), None) == "eye"


def _compares(flow: Dataflow, row: int, shape: Shape) -> bool:
    """Whether a call takes trained values of a shape besides."""
    call = flow.log.calls[row]
    return len(call.inputs) > 1 and any(shape_of(flow, use.tensor) == shape for use in call.live_inputs)
