"""GV843."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import DIFFERENCES, line_in_function_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.graph.call_log import Call


class DecodedMeetsEncoded(Rule):
    """A prediction is brought back to the units of the data, and its target is not.

    What it finds
    -------------
    A loss that compares results of a model, multiplied by a scale and with a mean added, with a target from which the
    same mean was subtracted, and which was divided by the scale.

    Why it matters
    --------------
    Both must be in the same units. Here the model is asked for the normalized target in the units of the data, so what
    it learns is wrong by the mean and the scale wherever its answers are decoded.

    Example
    -------
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    x, y = torch.randn(32, 3), 5 + 3 * torch.randn(32, 2)
    mean, std = y.mean(0), y.std(0)
    target = (y - mean) / std
    for step in range(3):
        decoded = model(x) * std + mean
        loss = torch.nn.functional.mse_loss(decoded, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    x, y = torch.randn(32, 3), 5 + 3 * torch.randn(32, 2)
    mean, std = y.mean(0), y.std(0)
    target = (y - mean) / std
    for step in range(3):
        decoded = model(x) * std + mean
        loss = torch.nn.functional.mse_loss(decoded, target * std + mean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV843"
    name = "decoded_meets_encoded"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            since = flow.step_before(backward)
            for use in flow.log.calls[backward].roots:
                for row in flow.ancestors(use.tensor, backward, since):
                    met = _met(flow, row) if flow.log.calls[row].call_site not in told else None
                    if met is not None:
                        told.add(flow.log.calls[row].call_site)
                        yield self._finding(flow, row, backward, *met)

    def _finding(self, flow: Dataflow, row: int, backward: int, decoded: int, encoded: int) -> Finding:
        location = location_of_line(line_in_function_of(flow, row, backward))
        made = location_of_line(line_in_function_of(flow, encoded, backward)) or location_of_call(flow, encoded)
        back = location_of_call(flow, decoded)
        return self.finding(
            "the prediction was multiplied by a scale and a mean was added"
            f"{'' if back is None else f', at line {back.line}'}; from the target that it is compared with, the same "
            "mean was subtracted: they are in different units",
            symptom="grad_wrong",
            why="the model is asked for normalized values in the units of the data",
            fix="decode the target as well: target * std + mean; or compare the prediction as the model returned it",
            location=location,
            symptom_location=made if made != location else None,
        )


class _Shift(Struct, frozen=True):
    """A mean that was added to scaled values, or subtracted before they were divided."""

    row: int
    mean: int | float
    """A tensor, or a number."""
    is_number: bool
    scale: float | None = None
    """The number by which the values were multiplied, if it is one."""


_PASSED = SHAPE_ONLY | {"stack", "detach", "index_select", "clamp"}
_BOTH = 2
_MAX_STEPS = 10


def _met(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The calls that decoded and encoded what a call compares."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in DIFFERENCES or len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    target = next(use for use in call.inputs if not use.requires_grad)
    decoded = _decoding(flow, call.live_inputs[0].tensor, row)
    encoded = None if decoded is None else _encoding(flow, target.tensor, row)
    if decoded is None or encoded is None or decoded.is_number != encoded.is_number:
        return None
    is_same = isclose(decoded.mean, encoded.mean) if decoded.is_number else decoded.mean == encoded.mean
    scales = decoded.scale, encoded.scale
    is_same &= None in scales or isclose(*scales)  # type: ignore[arg-type]
    return (decoded.row, encoded.row) if is_same else None


def _decoding(flow: Dataflow, tensor: int, row: int) -> _Shift | None:
    """What was added last, if it was added to scaled results."""
    made = _maker(flow, tensor, row)
    if made is None or plain_name(flow.log.calls[made].function) != "add":
        return None
    call = flow.log.calls[made]
    scaled = next(iter(call.live_inputs), None)
    inner = None if scaled is None else _maker(flow, scaled.tensor, made)
    if inner is None or plain_name(flow.log.calls[inner].function) != "mul":
        return None
    scaling = flow.log.calls[inner]
    return _shift(flow, made, call, _factor(scaling)) if len(scaling.live_inputs) == 1 else None


def _encoding(flow: Dataflow, tensor: int, row: int) -> _Shift | None:
    """What was subtracted, if the difference was divided last."""
    made = _maker(flow, tensor, row)
    if made is None or plain_name(flow.log.calls[made].function) not in ("div", "mul"):
        return None
    inner = _maker(flow, flow.log.calls[made].inputs[0].tensor, made)
    call = None if inner is None else flow.log.calls[inner]
    if inner is None or call is None or plain_name(call.function) != "sub" or call.function.endswith("rsub__"):
        return None
    factor = _factor(flow.log.calls[made])
    is_product = plain_name(flow.log.calls[made].function) == "mul"
    return _shift(flow, inner, call, 1 / factor if factor and is_product else factor)


def _factor(call: Call) -> float | None:
    """The number by which a call multiplies or divides."""
    number = call.scalars.get("1", call.scalars.get("other")) if len(call.inputs) == 1 else None
    return float(number) if isinstance(number, (int, float)) else None


def _maker(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that computed values, before parts of them were taken and put together."""
    for _ in range(_MAX_STEPS):
        made = flow.newest_producer(tensor, row)
        if made is None or not flow.log.calls[made].inputs:
            return None
        if plain_name(flow.log.calls[made].function) not in _PASSED:
            return made
        tensor, row = flow.log.calls[made].inputs[0].tensor, made
    return None


def _shift(flow: Dataflow, row: int, call: Call, scale: float | None) -> _Shift | None:
    """The mean that a sum or a difference has beside its values; not one of 0."""
    if len(call.inputs) == 1:
        number = call.scalars.get("1", call.scalars.get("other"))
        is_mean = isinstance(number, (int, float)) and not isinstance(number, bool) and number != 0
        if not is_mean or not isinstance(number, (int, float)):
            return None
        return _Shift(row, float(number), is_number=True, scale=scale)
    live = call.live_inputs
    mean = next((use for use in call.inputs if not use.requires_grad), None) if live else call.inputs[1]
    if mean is None:
        return None
    return _Shift(row, tensor_before(flow, mean.tensor, row, SHAPE_ONLY), is_number=False, scale=scale)
