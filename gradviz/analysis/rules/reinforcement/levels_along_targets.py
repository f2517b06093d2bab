"""GV767."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first
from gradviz.analysis.rules.bases.losses.targets.axes_of_levels import (
    CrossedTargets,
    axis_of_quantiles,
    crossed_targets,
    line_of_axis,
    shape_before_copies,
)
from gradviz.graph.call_log import Call, TensorUse


class LevelsAlongTargets(Rule):
    """The levels of predicted quantiles lie along the axis of the targets, not along that of the predictions.

    What it finds
    -------------
    A quantile loss of all pairs of predictions and targets, as in QR-DQN and IQN, in which each level between 0 and 1
    goes with one of the targets: ``tau - (error < 0)``, also as ``where()`` or as the larger one of two products, where
    the predictions are along the other axis of the errors. Inside of ``torch.func.vmap()``, the sign that gets the
    level as its weight says which of the two are the predictions.

    Also a loss of several quantiles for each of several targets, as the days of a forecast, in which the targets vary
    along the axis of the levels, and are the same along another one, which has the same size: ``y[:, None] - pred`` of
    predictions (samples, days, levels). It leaves targets alone that layers computed, as the quantiles of a teacher,
    and predictions of several members side by side. Which of the two axes has the quantiles shows where one of them is
    compared with all targets, as in a score, or where each has a layer of its own.

    Why it matters
    --------------
    The level says which quantile a prediction is for. Along the targets, all predictions get the same mixture of
    levels, so that they become the same number; and of several days, the first quantile of each is fitted to the first
    day, the second to the second. It does not raise where there are as many of both.

    Example
    -------
    net, tau = torch.nn.Linear(4, 8), (torch.arange(8) + 0.5) / 8
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x, target = torch.randn(16, 4), torch.randn(16, 8)
        error = target[:, None, :] - net(x)[:, :, None]
        weight = (tau - (error.detach() < 0).float()).abs()
        loss = (weight * error.abs()).mean(2).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net, tau = torch.nn.Linear(4, 8), (torch.arange(8) + 0.5) / 8
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x, target = torch.randn(16, 4), torch.randn(16, 8)
        error = target[:, None, :] - net(x)[:, :, None]
        weight = (tau.view(1, -1, 1) - (error.detach() < 0).float()).abs()
        loss = (weight * error.abs()).mean(2).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV767"
    name = "levels_along_targets"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _CHOICES | _SUMS):
            if call.call_site in told or call.kind != "operation" or not flow.has_step_after(row):
                continue
            pairs = _pairs_of(flow, row, call)
            crossed = _crossed_of(flow, row, call) if pairs is None else None
            if pairs is not None:
                yield self._finding(flow, row, pairs)
            elif crossed is not None:
                yield self._finding_of_crossed(case, *crossed)
            told |= {call.call_site} if pairs is not None or crossed is not None else set()

    def _finding(self, flow: Dataflow, row: int, pairs: _Pairs) -> Finding:
        location, made = two_lines(flow, row, pairs.call)
        shape = ["1"] * len(pairs.shape)
        shape[pairs.predictions] = "-1"
        return self.finding(
            f"the levels of the quantiles lie along axis {pairs.targets} of the errors {pairs.shape}, which has the "
            f"targets: the predictions are along axis {pairs.predictions}",
            symptom="grad_wrong",
            why="each prediction should have one level: along the targets, all of them get the same mixture of levels",
            fix=f"put the levels along the predictions: tau.view({', '.join(shape)})",
            location=location,
            symptom_location=made,
        )

    def _finding_of_crossed(self, case: Case, row: int, level: int, found: CrossedTargets) -> Finding:
        flow = case.dataflow
        axis = axis_of_quantiles(case, found)
        is_of_levels = axis == found.same
        edited, moved = (row, level) if is_of_levels else (found.call, found.target)
        location, made = two_lines(flow, line_of_axis(flow, moved, edited), found.call if edited != row else row)
        shape = ["1"] * len(found.shape)
        shape[found.same] = "-1"
        levels = f"put the levels along axis {found.same}: tau.view({', '.join(shape)})"
        targets = f"put the targets along axis {found.same}: target.unsqueeze({found.levels})"
        otherwise = f", if the predictions have their quantiles along axis {found.levels}; else {levels}"
        return self.finding(
            f"the targets vary along axis {found.levels} of the errors {found.shape}, as the levels of the quantiles "
            f"do, and are the same along axis {found.same}: each quantile is fitted to another target",
            symptom="grad_wrong",
            why="all quantiles that are predicted for one target should meet that target: here, each of them meets the "
            "target whose number is that of its level",
            fix=levels if is_of_levels else targets + ("" if axis is not None else otherwise),
            location=location,
            symptom_location=made,
        )


class _Pairs(Struct, frozen=True):
    """The errors of all pairs of predictions and targets."""

    call: int
    shape: Shape
    predictions: int
    """The axis along which only the predictions vary."""
    targets: int


_BOTH, _THREE = 2, 3
_MAX_MAKERS = 8
_CHOICES = frozenset({"sub", "where", "max", "maximum", "fmax", "amax"})
_SUMS = frozenset({"add"})
_PARTS = frozenset({"relu", "clamp", "clamp_min", "clamp_max"})
_COMPARES = frozenset({"lt", "gt", "le", "ge", "less", "greater", "less_equal", "greater_equal"})
_KEEPS = _COMPARES | {"float", "to", "type", "type_as", "double", "half", "detach", "bool", "long", "int", "neg", "mul"}
_SIZES = frozenset({
    "abs", "where", "smooth_l1_loss", "huber_loss", "pow", "square", "mul", "sub", "add", "clamp", "div", "relu",
    "clamp_min", "clamp_max",
})  # fmt: skip


def _pairs_of(flow: Dataflow, row: int, call: Call) -> _Pairs | None:
    """The errors whose sign chooses between what a level gives, if the levels lie along their targets."""
    for level, table in _chosen_levels(flow, row, call) if len(call.inputs) >= _BOTH else ():
        is_target_first = _is_target_first(flow, row, call, level, table)
        pairs = _errors_above(flow, table.tensor, row, is_target_first=is_target_first)
        if pairs is not None and _varies(flow, level, pairs.targets, pairs) and not _varies(
            flow, level, pairs.predictions, pairs
        ):  # fmt: skip
            return pairs
    return None


def _crossed_of(flow: Dataflow, row: int, call: Call) -> tuple[int, int, CrossedTargets] | None:
    """The same for targets that vary along the levels while the predictions do so as well, behind the call that took a
    level, and the level."""
    made = flow.newest_producer(call.inputs[0].tensor, row) if len(call.live_inputs) == len(call.inputs) == 1 else None
    if made is not None and plain_name(flow.log.calls[made].function) in ("stack", "cat"):
        row, call = made, flow.log.calls[made]  # the larger one along the axis of a stack
    for level, table in _chosen_levels(flow, row, call):
        for above, each in _tables_above(flow, table.tensor, row):
            is_difference = plain_name(each.function) == "sub"
            found = crossed_targets(flow, above, level) if is_difference else None
            if found is not None:
                return row, level.tensor, found
    return None


def _chosen_levels(flow: Dataflow, row: int, call: Call) -> list[tuple[TensorUse, TensorUse]]:
    """The levels between which the sign of errors chooses, each with what tells that sign."""
    name = plain_name(call.function)
    if name == "sub" and len(call.inputs) >= _BOTH:
        sides = call.inputs[:_BOTH], call.inputs[1::-1]  # without out=
        options = [(one, other) for one, other in sides if _is_sign(flow, other.tensor, row)]
    elif name == "where" and len(call.inputs) == _THREE:
        options = [(level, call.inputs[0]) for use in call.inputs[1:] if (level := _level_in(flow, use, row))]
    elif name in _SUMS and len(call.live_inputs) == _BOTH:
        return _levels_of_parts(flow, row, call)
    elif name != "sub" and len(call.live_inputs) == _BOTH:
        options = [(level, use) for use in call.inputs if (level := _level_in(flow, use, row))]
    else:
        options = []
    return [(level, table) for level, table in options if _is_level(flow, level, row)]


def _levels_of_parts(flow: Dataflow, row: int, call: Call) -> list[tuple[TensorUse, TensorUse]]:
    """The same of a sum of the positive and of the negative part, ``q * relu(e) + relu(-e)``, or of the size and what
    tilts it, ``|e| / 2 + (q - 0.5) * e``."""
    parts = [{plain_name(each.function) for _, each in _tables_above(flow, use.tensor, row)} for use in call.inputs]
    options = [(level, use) for use in call.inputs if (level := _level_in(flow, use, row))]
    if all(names & _PARTS for names in parts) and any("neg" in names for names in parts):
        return [(level, table) for level, table in options if _is_level(flow, level, row)]
    if sum("abs" in names for names in parts) == 1 and len(options) == 1:
        return [(level, table) for level, table in options if _is_tilt(flow, level, row)]
    return []


def _is_tilt(flow: Dataflow, use: TensorUse, row: int) -> bool:
    values = flow.values_of(use, row)
    if use.requires_grad or values is None or values.minimum is None or values.maximum is None:
        return False
    return -1 < values.minimum < 0 < values.maximum < 1


def _is_target_first(flow: Dataflow, row: int, call: Call, level: TensorUse, table: TensorUse) -> bool | None:
    """Whether the errors are targets minus predictions, as the weights tell: errors above zero, of predictions that are
    too low, have the level as their weight. None where they do not tell it."""
    names = (plain_name(maker.function) for _, maker in flow.makers(table.tensor, row, _MAX_MAKERS))
    compares = next((name for name in names if name in _COMPARES), "")
    is_below = compares in ("lt", "le")
    if not compares:
        return None
    if plain_name(call.function) == "sub":
        return is_below
    made = flow.newest_producer(level.tensor, row)
    is_rest = made is not None and is_number_first(flow.log.calls[made])
    is_of_true = level.place in ("1", "input")
    return (is_below is not is_of_true) is not is_rest if plain_name(call.function) == "where" else None


def _is_sign(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor holds ones where a comparison is true, and zeros elsewhere."""
    made = (plain_name(call.function) for _, call in flow.makers(tensor, row, _MAX_MAKERS))
    for name in made:
        if name in _COMPARES:
            return True
        if name not in _KEEPS:
            return False
    return False


def _level_in(flow: Dataflow, use: TensorUse, row: int) -> TensorUse | None:
    """The level that one side of a choice is, or that it is a product with."""
    if not use.requires_grad:
        return use
    made = flow.newest_producer(use.tensor, row)
    call = None if made is None else flow.log.calls[made]
    if call is None or plain_name(call.function) != "mul" or len(call.live_inputs) != 1:
        return None
    return next((each for each in call.inputs if not each.requires_grad), None)


def _is_level(flow: Dataflow, use: TensorUse, row: int) -> bool:
    values = flow.values_of(use, row) or flow.values(tensor_before(flow, use.tensor, row, SHAPE_ONLY), row)
    if use.requires_grad or values is None or values.minimum is None or values.maximum is None:
        return False
    # Of max(tau * e, (tau - 1) * e), the second factor is negative.
    return 0 < values.minimum < values.maximum < 1 or -1 < values.minimum < values.maximum < 0


def _varies(flow: Dataflow, level: TensorUse, axis: int, pairs: _Pairs) -> bool:
    shape = shape_of(flow, level.tensor)
    place = axis - len(pairs.shape) + len(shape)
    return place >= 0 and shape[place] > 1


def _errors_above(flow: Dataflow, tensor: int, row: int, *, is_target_first: bool | None) -> _Pairs | None:
    """The difference of predictions and targets that a table was computed from, element by element."""
    for made, call in _tables_above(flow, tensor, row):
        is_difference = plain_name(call.function) == "sub"
        pairs = _pairs(flow, made, call, is_target_first=is_target_first) if is_difference else None
        if pairs is not None:
            return pairs
    return None


def _tables_above(flow: Dataflow, tensor: int, row: int) -> Iterator[tuple[int, Call]]:
    shape = shape_of(flow, tensor)
    return flow.makers_above(tensor, row, 2 * _MAX_MAKERS, lambda each: _tables(flow, each, shape))


def _tables(flow: Dataflow, call: Call, shape: Shape) -> tuple[TensorUse, ...]:
    is_kept = plain_name(call.function) in _KEEPS | _SIZES
    return tuple(use for use in call.inputs if shape_of(flow, use.tensor) == shape) if is_kept else ()


def _pairs(flow: Dataflow, row: int, call: Call, *, is_target_first: bool | None) -> _Pairs | None:
    if len(call.inputs) != _BOTH or not call.outputs:
        return None
    sides = _sides(flow, row, call, is_target_first=is_target_first)
    if sides is None:
        return None
    result = shape_of(flow, call.outputs[0].tensor)
    live, dead = sides
    one, other = (shape_before_copies(flow, use.tensor, row, len(result)) for use in (live, dead))
    own = [axis for axis, (size, rest) in enumerate(zip(one, other, strict=True)) if size > 1 == rest]
    theirs = [axis for axis, (size, rest) in enumerate(zip(one, other, strict=True)) if size == 1 < rest]
    return _Pairs(row, result, own[0], theirs[0]) if len(own) == len(theirs) == 1 else None


def _sides(flow: Dataflow, row: int, call: Call, *, is_target_first: bool | None) -> tuple[TensorUse, TensorUse] | None:
    """The predictions and the targets. Inside of ``vmap()`` nothing says what has a gradient, and no value is read."""
    if len(call.live_inputs) == 1:
        return call.live_inputs[0], next(use for use in call.inputs if not use.requires_grad)
    is_hidden = not call.live_inputs and all(flow.values_of(use, row) is None for use in call.inputs)
    if not is_hidden or is_target_first is None:
        return None
    first, second = call.inputs
    return (second, first) if is_target_first else (first, second)
