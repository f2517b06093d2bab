"""GV639."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import line_in_function_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_module
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.boxes.boxes_beyond import BoxesBeyond, boxes_beyond, leaves_without_overlap
from gradviz.analysis.rules.bases.boxes.value_bounds import bounds_of_call, is_never_negative
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.losses.loss_arguments import (
    SHAPE_ONLY,
    calls_in_training,
    is_reduced_as_a_whole,
    value_maker,
)
from gradviz.graph.call_log import Call


class TargetNeverReached(Rule):
    """The last operation of a model cannot make the values that its targets have.

    What it finds
    -------------
    A squared or absolute error, by a function of torch or by hand, of what ``sigmoid``, ``tanh``, ``softmax``,
    ``relu``, ``softplus``, ``silu``, ``gelu``, ``elu``, ``exp``, ``clamp`` or ``threshold`` returned, where the targets
    of at least half of the steps are beyond its range by a quarter of that range; for those without an upper bound,
    clearly negative targets. Also ``relu`` or ``softplus`` directly before a cross entropy, whose logits can then not
    be negative, or ``sigmoid``, with which no class can be likely; and the overlap of boxes that have such bounds with
    boxes of the data in other units. Targets that are drawn at random, and errors that a mask selects, are left alone.

    Why it matters
    --------------
    The error never falls below a bound, which looks like a model that is too small. Where the operation is pressed to
    the end of its range its slope is zero, and training stops.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4)
    y = 5 * x[:, :1]
    for step in range(3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4)
    y = 5 * x[:, :1]
    for step in range(3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    """

    code = "GV639"
    name = "target_never_reached"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, _ERRORS | _OF_LOGITS):
            met = [found for row in rows if (found := _meeting(flow, row)) is not None]
            beyond = [each for each in met if each.is_beyond(each.lowest, each.highest)]
            if len(beyond) < _MIN_CALLS or 2 * len(beyond) < len(rows):
                continue
            lowest, highest = min(each.lowest for each in met), max(each.highest for each in met)
            if beyond[-1].is_beyond(lowest, highest):
                yield self._finding(flow, beyond[-1], lowest, highest)
        for boxes in boxes_beyond(flow):
            yield self._of_boxes(case, boxes)

    def _of_boxes(self, case: Case, boxes: BoxesBeyond) -> Finding:
        flow, bounds = case.dataflow, boxes.bounds
        made = flow.log.calls[bounds.row]
        module = location_of_line(flow.line(line_of_module(flow, made)))
        given, bounded = _line_that_gives_on(flow, bounds.row), module or location_of_call(flow, bounds.row)
        location, other = (bounded, location_of_call(flow, boxes.row)) if given is None else (given, bounded)
        return self.finding(
            f"{plain_name(made.function)}() keeps predicted boxes between {bounds.low:g} and {bounds.high:g}, and "
            f"those of the data go from {boxes.lowest:.4g} to {boxes.highest:.4g}: they are in other units",
            symptom="grad_wrong",
            why="predicted and true boxes do not overlap, whatever is predicted: an overlap of zero has no slope",
            fix="multiply the predictions by the size of the image, or divide the targets by it",
            location=location,
            symptom_location=other if other != location else None,
            tensors=leaves_without_overlap(case, boxes.row),
            evidence={"lowest": boxes.lowest, "highest": boxes.highest},
        )

    def _finding(self, flow: Dataflow, last: _Meeting, lowest: float, highest: float) -> Finding:
        made, loss = flow.log.calls[last.made], location_of_call(flow, last.row)
        name, function = plain_name(made.function), plain_name(flow.log.calls[last.row].function)
        module = location_of_line(flow.line(line_of_module(flow, made)))
        location = module or location_of_call(flow, last.made)
        if function in _OF_LOGITS:
            between = f"all these logits lie between {last.low:g} and {last.high:g}"
            bounds = between if name == "sigmoid" else "none of these logits can be negative"
            message = f"{function}() gets what {name}() made: {bounds}"
        else:
            bounds = f"below {last.low:g}" if last.high == inf else f"outside of {last.low:g} to {last.high:g}"
            message = f"{name}() cannot return values {bounds}, and the targets go from {lowest:.4g} to {highest:.4g}"
        return self.finding(
            message,
            symptom="grad_wrong",
            why="the model cannot say that an answer is unlikely" if function in _OF_LOGITS else
            "however long it trains, these targets are out of reach; at the end of its range, its slope is zero",
            fix=f"leave out {name}() at the end of the model" + (
                "" if function in _OF_LOGITS else ", or scale the targets to its range"
            ),
            location=location,
            symptom_location=loss if loss != location else None,
            evidence={"lowest": lowest, "highest": highest},
        )  # fmt: skip


def _line_that_gives_on(flow: Dataflow, row: int) -> Location | None:
    """The line that gives the result of a call to another function, which converts boxes or compares them: there they
    can be scaled; None if the next calls are beside it."""
    user = next(iter(flow.users(flow.log.calls[row].outputs[0].tensor, row)), None)
    own, next_line = flow.line_of(row), None if user is None else flow.line_of(user)
    if user is None or own is None or next_line is None or next_line.function == own.function:
        return None
    return location_of_line(line_in_function_of(flow, user, row))


class _Meeting(Struct, frozen=True):
    """The result of an operation with bounds, and the targets with which a loss compares it."""

    row: int
    made: int
    low: float
    high: float
    lowest: float
    highest: float
    is_of_logits: bool

    def is_beyond(self, lowest: float, highest: float) -> bool:
        """Whether targets with these bounds are clearly out of reach."""
        if self.is_of_logits:
            return True
        span = (highest - lowest) if self.high == inf else self.high - self.low
        return lowest < self.low - _QUARTER * span or highest > self.high + _QUARTER * span


_QUARTER = 0.25
_MIN_CALLS = 2
_ERRORS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "sub", "dist"})
_OF_LOGITS = frozenset({"cross_entropy", "binary_cross_entropy_with_logits"})
_DRAWS = frozenset({"randn", "rand", "randn_like", "rand_like", "normal", "uniform"})
_SIDES = 2
_HALF = 0.5


def _meeting(flow: Dataflow, row: int) -> _Meeting | None:
    call = flow.log.calls[row]
    name, sides = plain_name(call.function), call.inputs[:_SIDES]
    live = [use for use in sides if use.requires_grad]
    if len(sides) < _SIDES or len(live) != 1 or not _is_whole_error(flow, row, name):
        return None
    target = next(use for use in sides if use is not live[0])
    made, values = value_maker(flow, live[0].tensor, row), flow.values_of(target, row)
    bounds = None if made is None else bounds_of_call(made[1])
    if made is None or values is None or values.minimum is None or values.maximum is None or bounds is None:
        return None
    if name in _OF_LOGITS:
        is_of_classes = name == "cross_entropy"
        is_told = is_never_negative(made[1]) and (is_of_classes or values.minimum < _HALF)
        is_told |= is_of_classes and plain_name(made[1].function) == "sigmoid"
        bounded = value_maker(flow, made[1].inputs[0].tensor, made[0]) if made[1].inputs else None
        # Of probabilities that a clamp keeps from zero, the softmax is to be left out, which another rule tells.
        is_told &= bounded is None or plain_name(bounded[1].function) != "softmax"
    else:
        known = value_maker(flow, target.tensor, row)
        is_drawn = known is not None and plain_name(known[1].function) in _DRAWS
        is_told = not is_drawn and shape_of(flow, target.tensor) == shape_of(flow, live[0].tensor)
    found = _Meeting(row, made[0], *bounds, values.minimum, values.maximum, name in _OF_LOGITS)
    return found if is_told else None


def _is_whole_error(flow: Dataflow, row: int, name: str) -> bool:
    """Whether all elements of a difference count: it is squared, or its sign is left out, and then it is averaged."""
    if name != "sub":
        return is_reduced_as_a_whole(flow, row)
    users = flow.users(flow.log.calls[row].outputs[0].tensor, row)
    while len(users) == 1 and plain_name(flow.log.calls[users[0]].function) in SHAPE_ONLY - {"getitem"}:
        users = flow.users(flow.log.calls[users[0]].outputs[0].tensor, users[0])
    if len(users) != 1:
        return False
    error = flow.log.calls[users[0]]
    is_of_one = len(error.inputs) > 1 and len({use.tensor for use in error.inputs}) == 1
    is_told = plain_name(error.function) in _OF_TWO if is_of_one else _is_size(error)
    if not is_told or not error.outputs:
        return False
    if not shape_of(flow, error.outputs[0].tensor):
        return True
    ends = [flow.log.calls[user] for user in flow.users(error.outputs[0].tensor, users[0])]
    return bool(ends) and all(plain_name(end.function) in ("mean", "sum") for end in ends)


def _is_size(error: Call) -> bool:
    return is_squared(error) or plain_name(error.function) in _SIZES


_SIZES = frozenset({"abs", "norm", "vector_norm"})
_OF_TWO = frozenset({"mul", "dot", "vdot", "inner", "vecdot", "einsum", "matmul"})
"""Products of a difference with itself."""
