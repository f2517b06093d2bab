"""GV854."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.network_outputs import SAME_VALUES
from gradviz.graph.call_log import Call, ValueFacts


class PixelsScaledOtherwise(Rule):
    """Pixels are divided by 255 twice, or normalized with figures for another range.

    What it finds
    -------------
    A division by 255 of values that were divided by 255 before, or that come into torch as floating-point numbers
    between 0 and 1; and pixels from 0 to 255 from which a constant mean between 0 and 1 is subtracted, and that are
    divided by such a deviation: those are meant for pixels from 0 to 1. A network with parameters gets the result.

    Why it matters
    --------------
    After the second division all pixels are nearly 0, and a network sees hardly more than its biases. Normalized with
    the wrong figures they reach a thousand, and what was learned before means nothing.

    Example
    -------
    pixels = torch.randint(0, 256, (40, 12), dtype=torch.uint8)
    images = pixels.float() / 255
    model = torch.nn.Linear(12, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        batch = images[step * 8 : step * 8 + 8] / 255
        loss = torch.nn.functional.cross_entropy(model(batch), torch.zeros(8, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    pixels = torch.randint(0, 256, (40, 12), dtype=torch.uint8)
    images = pixels.float() / 255
    model = torch.nn.Linear(12, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        batch = images[step * 8 : step * 8 + 8]
        loss = torch.nn.functional.cross_entropy(model(batch), torch.zeros(8, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV854"
    name = "pixels_scaled_otherwise"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[int]] = defaultdict(list)
        for row, call in calls_named(flow, {"div", "mul", "sub"}):
            if call.inputs and not call.inputs[0].requires_grad and (_is_by_255(call) or _normalizes(flow, row, call)):
                lines[call.call_site].append(row)
        for rows in lines.values():
            finding = self._of_line(case, rows)
            if finding is not None and _reaches_network(flow, rows[-1]):
                yield finding

    def _of_line(self, case: Case, rows: list[int]) -> Finding | None:
        flow, row = case.dataflow, rows[0]
        all_values = [flow.values_of(flow.log.calls[each].inputs[0], each) for each in rows]
        brightest = max((each for each in all_values if each is not None), key=_brightness, default=None)
        call = flow.log.calls[row]
        if brightest is None or None in all_values:
            return None
        if not _is_by_255(call):
            return self._other_range(case, row, brightest) if _is_of_bytes(brightest) else None
        first = _divided_before(flow, call.inputs[0].tensor, row)
        is_known = first is not None or _came_so(flow, call.inputs[0].tensor)
        return self._twice(case, row, first, brightest) if is_known and _is_of_unit_range(brightest) else None

    def _twice(self, case: Case, row: int, first: int | None, values: ValueFacts) -> Finding:
        location = location_of_call(case.dataflow, row)
        before = None if first is None else location_of_call(case.dataflow, first)
        return self.finding(
            f"pixels are divided by 255{at_line(before)}, and here once more"
            if first is not None
            else f"pixels between {values.minimum:.3g} and {values.maximum:.3g} are divided by 255",
            symptom="grad_wrong",
            why="what the network gets is at most 1 / 255: all images look nearly alike to it",
            fix="leave out this division",
            location=location,
            symptom_location=before if before != location else None,
            evidence={"maximum": values.maximum or 0.0},
        )

    def _other_range(self, case: Case, row: int, values: ValueFacts) -> Finding:
        return self.finding(
            f"pixels up to {values.maximum:.3g} are normalized with a mean and a deviation between 0 and 1, which are "
            "meant for pixels from 0 to 1",
            symptom="grad_wrong",
            why="the network gets inputs that are 255 times too large",
            fix="divide the pixels by 255 before",
            location=location_of_call(case.dataflow, row),
            evidence={"maximum": values.maximum or 0.0},
        )


_WHITE = 255
_NEARLY = 1e-6
_MIN_BRIGHT = 128
_MAX_CHANNELS = 4
_MAX_CALLS = 12
_MIN_PIXELS = 16
_ONE = 1.0 + 1e-6


def _is_by_255(call: Call) -> bool:
    if len(call.inputs) != 1:
        return False
    number = call.scalars.get("1", call.scalars.get("other"))
    name = plain_name(call.function)
    if not isinstance(number, int | float) or isinstance(number, bool):
        return False
    return (name == "div" and number == _WHITE) or (name == "mul" and abs(number * _WHITE - 1) < _NEARLY)


def _brightness(values: ValueFacts) -> float:
    return -1.0 if values.maximum is None else values.maximum


def _is_of_unit_range(values: ValueFacts) -> bool:
    low, high = values.minimum, values.maximum
    return low is not None and high is not None and low >= 0 and 0 < high <= _ONE


def _is_of_bytes(values: ValueFacts) -> bool:
    low, high = values.minimum, values.maximum
    return low is not None and high is not None and low >= 0 and _MIN_BRIGHT <= high <= _WHITE


def _divided_before(flow: Dataflow, tensor: int, row: int) -> int | None:
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        if _is_by_255(call):
            return made
        if plain_name(call.function) not in SAME_VALUES:
            return None
    return None


def _came_so(flow: Dataflow, tensor: int) -> bool:
    """Whether numbers came into torch as they are, such as those of a NumPy array."""
    known = flow.log.tensors[tensor]
    is_image = len(known.facts.shape) > 1 and prod(shape_of(flow, tensor)) >= _MIN_PIXELS
    return known.producer is None and known.role == "tensor" and known.facts.dtype.startswith("float") and is_image


def _normalizes(flow: Dataflow, row: int, call: Call) -> bool:
    """``(pixels - mean) / deviation``, with constants between 0 and 1."""
    if plain_name(call.function) != "sub" or not _is_share(flow, row, call) or not call.outputs:
        return False
    following = flow.users(call.outputs[0].tensor, row)[:1]
    return any(
        plain_name(flow.log.calls[each].function) == "div" and _is_share(flow, each, flow.log.calls[each])
        for each in following
    )


def _is_share(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether what is subtracted, or divided by, is a constant between 0 and 1, or one for each channel."""
    if len(call.inputs) == 1:
        number = call.scalars.get("1", call.scalars.get("other"))
        return isinstance(number, float) and 0 < number < 1
    given = call.inputs[1]
    values = flow.values_of(given, row)
    if values is None or values.minimum is None or values.maximum is None or values.count > _MAX_CHANNELS:
        return False
    makers = [each for _, each in flow.makers(given.tensor, row, _MAX_CALLS)]
    is_constant = all(plain_name(each.function) in (*SAME_VALUES, "tensor", "as_tensor") for each in makers)
    return is_constant and values.minimum > 0 and values.maximum < 1


def _reaches_network(flow: Dataflow, row: int) -> bool:
    """Whether parameters meet the result in a step of training."""
    call = flow.log.calls[row]
    until = flow.next_of_kind("step", row)
    reached = flow.descendants(call.outputs[0].tensor, row, until) if call.outputs else ()
    return any(flow.log.calls[each].live_inputs for each in reached)
