"""GV767."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class LevelsAlongTargets(Rule):
    """The levels of predicted quantiles lie along the axis of the targets, not along that of the predictions.

    What it finds
    -------------
    A quantile loss of all pairs of predictions and targets, as in QR-DQN and IQN, in which each level between 0 and 1
    goes with one of the targets: ``tau - (error < 0)``, also as ``where()`` or as the larger one of two products, where
    the predictions are along the other axis of the errors.

    Why it matters
    --------------
    The level says which quantile a prediction is for. Along the targets, all predictions get the same mixture of
    levels, so that they become the same number. It does not raise where there are as many of both.

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
        for row, call in enumerate(flow.log.calls):
            if plain_name(call.function) not in _CHOICES or len(call.inputs) < _BOTH or call.call_site in told:
                continue
            found = _pairs_of(flow, row, call) if call.kind == "operation" and flow.has_step_after(row) else None
            if found is not None:
                told.add(call.call_site)
                yield self._finding(flow, row, found)

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


class _Pairs(Struct, frozen=True):
    """The errors of all pairs of predictions and targets."""

    call: int
    shape: Shape
    predictions: int
    """The axis along which only the predictions vary."""
    targets: int


_BOTH, _THREE = 2, 3
_MAX_MAKERS = 8
_CHOICES = frozenset({"sub", "where", "max", "maximum"})
_COMPARES = frozenset({"lt", "gt", "le", "ge", "less", "greater", "less_equal", "greater_equal"})
_KEEPS = _COMPARES | {"float", "to", "type", "type_as", "double", "half", "detach", "bool", "long", "int", "neg", "mul"}
_SIZES = frozenset({
    "abs", "where", "smooth_l1_loss", "huber_loss", "pow", "square", "mul", "sub", "add", "clamp", "div",
})  # fmt: skip


def _pairs_of(flow: Dataflow, row: int, call: Call) -> _Pairs | None:
    """The errors whose sign chooses between what a level gives, if the levels lie along their targets."""
    name = plain_name(call.function)
    if name == "sub":
        sides = call.inputs[:_BOTH], call.inputs[1::-1]  # without out=
        options = [(one, other) for one, other in sides if _is_sign(flow, other.tensor, row)]
    elif name == "where" and len(call.inputs) == _THREE:
        options = [(level, call.inputs[0]) for use in call.inputs[1:] if (level := _level_in(flow, use, row))]
    elif len(call.live_inputs) == _BOTH:
        options = [(level, use) for use in call.inputs if (level := _level_in(flow, use, row))]
    else:
        options = []
    for level, table in options:
        pairs = _errors_above(flow, table.tensor, row) if _is_level(flow, level, row) else None
        if pairs is not None and _varies(flow, level, pairs.targets, pairs) and not _varies(
            flow, level, pairs.predictions, pairs
        ):  # fmt: skip
            return pairs
    return None


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
    values = flow.values_of(use, row)
    if use.requires_grad or values is None or values.minimum is None or values.maximum is None:
        return False
    # Of max(tau * e, (tau - 1) * e), the second factor is negative.
    return 0 < values.minimum < values.maximum < 1 or -1 < values.minimum < values.maximum < 0


def _varies(flow: Dataflow, level: TensorUse, axis: int, pairs: _Pairs) -> bool:
    shape = shape_of(flow, level.tensor)
    place = axis - len(pairs.shape) + len(shape)
    return place >= 0 and shape[place] > 1


def _errors_above(flow: Dataflow, tensor: int, row: int) -> _Pairs | None:
    """The difference of predictions and targets that a table was computed from, element by element."""
    shape = shape_of(flow, tensor)
    for made, call in flow.makers_above(tensor, row, 2 * _MAX_MAKERS, lambda each: _tables(flow, each, shape)):
        pairs = _pairs(flow, made, call) if plain_name(call.function) == "sub" else None
        if pairs is not None:
            return pairs
    return None


def _tables(flow: Dataflow, call: Call, shape: Shape) -> tuple[TensorUse, ...]:
    is_kept = plain_name(call.function) in _KEEPS | _SIZES
    return tuple(use for use in call.inputs if shape_of(flow, use.tensor) == shape) if is_kept else ()


def _pairs(flow: Dataflow, row: int, call: Call) -> _Pairs | None:
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1 or not call.outputs:
        return None
    result = shape_of(flow, call.outputs[0].tensor)
    live, dead = call.live_inputs[0], next(use for use in call.inputs if not use.requires_grad)
    one, other = (_before_expansion(flow, use.tensor, row, len(result)) for use in (live, dead))
    own = [axis for axis, (size, rest) in enumerate(zip(one, other, strict=True)) if size > 1 == rest]
    theirs = [axis for axis, (size, rest) in enumerate(zip(one, other, strict=True)) if size == 1 < rest]
    return _Pairs(row, result, own[0], theirs[0]) if len(own) == len(theirs) == 1 else None


def _before_expansion(flow: Dataflow, tensor: int, row: int, rank: int) -> Shape:
    """The shape of a tensor before it was expanded, with as many axes as the result."""
    shape = shape_of(flow, tensor)
    made = flow.newest_producer(tensor, row)
    if made is not None and plain_name(flow.log.calls[made].function) in ("expand", "expand_as", "repeat"):
        shape = shape_of(flow, flow.log.calls[made].inputs[0].tensor)
    return (1,) * (rank - len(shape)) + shape
