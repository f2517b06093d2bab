"""GV858."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import DIFFERENCES, at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.network_outputs import SAME_VALUES, Layer, layer_behind
from gradviz.graph.call_log import Call, TensorUse


class ScoredInOtherUnits(Rule):
    """Predictions of scaled targets are compared with targets that were not scaled.

    What it finds
    -------------
    A layer that is trained towards targets which were standardized, divided or taken the logarithm of, and whose
    outputs an evaluation subtracts, as they are, from values in the range from before: far from everything that it was
    trained to predict.

    Why it matters
    --------------
    The error is about as large as the targets themselves, whatever the model has learned. It says nothing, and what is
    chosen or stopped by it is left to chance.

    Example
    -------
    x = torch.randn(60, 4)
    price = 1000 + 50 * x.sum(1, keepdim=True)
    scaled = (price - price.mean()) / price.std()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.mse_loss(model(x[:40]), scaled[:40])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(torch.nn.functional.l1_loss(model(x[40:]), price[40:]))

    Instead
    -------
    x = torch.randn(60, 4)
    price = 1000 + 50 * x.sum(1, keepdim=True)
    scaled = (price - price.mean()) / price.std()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.mse_loss(model(x[:40]), scaled[:40])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        predicted = model(x[40:]) * price.std() + price.mean()
        print(torch.nn.functional.l1_loss(predicted, price[40:]))
    """

    code = "GV858"
    name = "scored_in_other_units"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        scalings = _scalings(flow)
        told = set[int | None]()
        for row, call in calls_named(flow, DIFFERENCES) if scalings else ():
            if len(call.inputs) < _BOTH or call.call_site in told or any(use.requires_grad for use in call.outputs):
                continue
            for prediction, target in (call.inputs[:_BOTH], call.inputs[1::-1]):
                found = next(iter(_undone(flow, row, prediction, target, scalings)), None)
                if found is not None:
                    told.add(call.call_site)
                    yield self._finding(case, row, found)
                    break

    def _finding(self, case: Case, row: int, found: _Scaling) -> Finding:
        flow = case.dataflow
        location, scaled = location_of_call(flow, row), location_of_call(flow, found.row)
        is_logarithm = plain_name(flow.log.calls[found.row].function).startswith("log")
        return self.finding(
            f"predictions of targets that were scaled{at_line(scaled)}, to {_words(found.after)}, are compared with "
            "values from before the scaling",
            symptom="none",
            why="the error is about as large as the targets, whatever the model has learned",
            fix="take the exponential of the predictions first"
            if is_logarithm
            else "undo the scaling first: predicted * std + mean",
            location=location,
            symptom_location=scaled if scaled != location else None,
            evidence={"scaled": _words(found.after), "before": _words(found.before)},
        )


_BOTH = 2
_MAX_CALLS = 10
_SCALE = frozenset({"sub", "div", "mul", "add", "log", "log1p", "sqrt"})
_FARTHER = 1.0
_WIDER = 5.0
_MARGIN = 0.5


class _Scaling(Struct, frozen=True):
    """A call that changed the scale of what a layer is trained to predict."""

    row: int
    before: tuple[float, float]
    after: tuple[float, float]
    """The range of the targets at last."""


def _scalings(flow: Dataflow) -> dict[Layer, list[_Scaling]]:
    """By layer: the calls that scaled the targets with which a loss compares its outputs."""
    found: dict[Layer, list[_Scaling]] = {}
    tried = set[int | None]()
    for row, call in calls_named(flow, DIFFERENCES):
        if call.call_site in tried or len(call.inputs) < _BOTH or not flow.has_step_after(row):
            continue
        live = [use for use in call.inputs[:_BOTH] if use.requires_grad]
        given = [use for use in call.inputs[:_BOTH] if not use.requires_grad]
        if len(live) == len(given) == 1:
            tried.add(call.call_site)
            layer = layer_behind(flow, live[0].tensor, row)
            scalings = _scalings_above(flow, given[0], row) if layer is not None else []
            if layer is not None and scalings:
                found[layer] = scalings
    return found


def _scalings_above(flow: Dataflow, target: TensorUse, row: int) -> list[_Scaling]:
    found, after = list[_Scaling](), _range(flow, target, row)
    for made, call in flow.makers(target.tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in _SCALE and call.inputs and not _is_of_two(flow, call):
            # Where only a part is taken, the whole tells the range.
            after = _range_of(call) if not found else after
            before = _range(flow, call.inputs[0], made)
            if before is not None and after is not None:
                found.append(_Scaling(made, before, after))
        elif name not in SAME_VALUES:
            break
    return found


def _is_of_two(flow: Dataflow, call: Call) -> bool:
    """Whether two tensors with a number for each sample are combined, as rewards and later values: that is no unit."""
    sizes = [prod(shape_of(flow, use.tensor)) for use in call.inputs]
    return len(sizes) > 1 and min(sizes) == max(sizes) > 1


def _undone(
    flow: Dataflow, row: int, prediction: TensorUse, target: TensorUse, scalings: dict[Layer, list[_Scaling]]
) -> Iterator[_Scaling]:
    layer = layer_behind(flow, prediction.tensor, row)
    given = _range(flow, target, row) if layer in scalings else None
    if layer is None or given is None or layer_behind(flow, target.tensor, row) == layer:
        return
    for each in scalings[layer]:
        margin = _MARGIN * (each.before[1] - each.before[0])
        is_of_before = each.before[0] - margin <= given[0] and given[1] <= each.before[1] + margin
        if is_of_before and _is_far(given, each.after) and _has_same_origin(flow, target, row, each):
            yield each


def _has_same_origin(flow: Dataflow, target: TensorUse, row: int, scaling: _Scaling) -> bool:
    """Whether values were not scaled themselves: they are those that were scaled, or others from the same line, or come
    into torch as they are."""
    own, end = _origins(flow, target, row)
    scaled, other_end = _origins(flow, flow.log.calls[scaling.row].inputs[0], scaling.row)
    return end is None or not own.isdisjoint(scaled) or end == other_end


def _origins(flow: Dataflow, use: TensorUse, row: int) -> tuple[set[int], int | None]:
    """The tensors that hold the same values, or more of them, and the line that computed these."""
    found = {use.tensor}
    for _, call in flow.makers(use.tensor, row, _MAX_CALLS):
        if plain_name(call.function) not in SAME_VALUES:
            return found, None if plain_name(call.function) in ("tensor", "as_tensor") else call.call_site
        found |= {each.tensor for each in call.inputs[:1]}
    return found, None


def _is_far(given: tuple[float, float], trained: tuple[float, float]) -> bool:
    """Whether values lie beyond all that a layer is trained to predict, or are spread much wider."""
    width = trained[1] - trained[0]
    is_beyond = given[0] > trained[1] + _FARTHER * width or given[1] < trained[0] - _FARTHER * width
    return width > 0 and (is_beyond or given[1] - given[0] > _WIDER * width)


def _range(flow: Dataflow, use: TensorUse, row: int) -> tuple[float, float] | None:
    values = flow.values_of(use, row)
    if values is None or values.minimum is None or values.maximum is None:
        return None
    return values.minimum, values.maximum


def _range_of(call: Call) -> tuple[float, float] | None:
    values = call.outputs[0].values if call.outputs else None
    if values is None or values.minimum is None or values.maximum is None:
        return None
    return values.minimum, values.maximum


def _words(values: tuple[float, float]) -> str:
    return f"{values[0]:.3g} ... {values[1]:.3g}"
