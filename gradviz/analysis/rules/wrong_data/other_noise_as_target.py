"""GV634."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    DIFFERENCES,
    at_line,
    callers,
    calls_named,
    line_in_function_of,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import is_normal_draw
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule


class OtherNoiseAsTarget(Rule):
    """A denoising model is asked for noise that its input does not contain.

    What it finds
    -------------
    A loss that compares an output of the model with fresh noise, ``randn_like(x)``, which nothing else uses, while the
    input of the model is ``x`` with another draw of the same shape added, such as one that a helper makes itself.

    Why it matters
    --------------
    Nothing in the input tells of that noise. The best answer is its mean, zero, so the loss stays near 1 and the model
    learns nothing.

    Example
    -------
    def with_noise(x, t):
        return (1 - t) * x + t * torch.randn_like(x)

    model = torch.nn.Linear(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, t = torch.randn(16, 4), torch.rand(16, 1)
        noise = torch.randn_like(x)
        loss = (model(torch.cat([with_noise(x, t), t], dim=1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    def with_noise(x, t, noise):
        return (1 - t) * x + t * noise

    model = torch.nn.Linear(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, t = torch.randn(16, 4), torch.rand(16, 1)
        noise = torch.randn_like(x)
        loss = (model(torch.cat([with_noise(x, t, noise), t], dim=1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV634"
    name = "other_noise_as_target"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[int]] = defaultdict(list)
        for row, call in calls_named(flow, DIFFERENCES):
            is_comparison = len(call.inputs) == _SIDES
            if is_comparison and len(call.live_inputs) == 1 and call.inside is None and flow.has_step_after(row):
                lines[call.call_site].append(row)
        for rows in lines.values():
            if len({flow.step_before(row) for row in rows}) < _MIN_STEPS:
                continue
            found = [_other_noise(flow, row) for row in rows[-_MOST_COMPARED:]]
            if None not in found and found[-1] is not None:
                yield self._finding(case, rows[-1], found[-1])

    def _finding(self, case: Case, row: int, noises: _Noises) -> Finding:
        flow = case.dataflow
        other, drawn = location_of_call(flow, noises.in_input), location_of_call(flow, noises.target)
        asked = location_of_line(line_in_function_of(flow, noises.in_input, noises.target))
        if other == drawn:  # one function draws both: the lines that called it differ
            asked, other = _lines_that_draw(flow, noises)
        is_asked = asked is not None and asked != other
        return self.finding(
            f"the noise{at_line(drawn)} is only the target of a loss: the input of the model was made with another "
            f"draw{at_line(other)}",
            symptom="grad_wrong",
            why="the input contains nothing of the noise that the model should find, so it learns to answer zero",
            fix="draw the noise once: give it to the function that adds it to the input, and compare with the same one",
            location=asked if is_asked else drawn,  # a function draws it unless it is given: there it is not
            symptom_location=drawn if is_asked else location_of_call(flow, row),
        )


def _lines_that_draw(flow: Dataflow, noises: _Noises) -> tuple[Location | None, Location | None]:
    """The innermost of the user's own lines behind two draws that are not the same: of the target, and of the input."""
    both = zip(callers(flow, noises.target), callers(flow, noises.in_input), strict=False)
    lines = next((pair for pair in both if (pair[0].file, pair[0].line) != (pair[1].file, pair[1].line)), (None, None))
    return location_of_line(lines[0]), location_of_line(lines[1])


class _Noises(Struct, frozen=True):
    """Two draws, by their rows."""

    target: int
    in_input: int


_SIDES = 2
_MIN_STEPS = 2
_MOST_COMPARED = 4
_MOST_SCALED = 6
_SCALE = frozenset({"mul", "div", "neg", "to", "float", "detach", "clone", "view", "reshape", "squeeze", "unsqueeze"})
_NAMES = frozenset({"noise", "eps", "epsilon"})


def _other_noise(flow: Dataflow, row: int) -> _Noises | None:
    """The draw that is compared with an output, and another one that was added to its input."""
    live, dead = sorted(flow.log.calls[row].inputs, key=lambda use: not use.requires_grad)
    since = flow.step_before(row)
    target = _draw(flow, dead.tensor, row)
    if target is None or target < since or _is_used_elsewhere(flow, target, row):
        return None
    above = flow.ancestors(live.tensor, row, since=since)
    drawn = flow.log.calls[target]
    noise = drawn.outputs[0].tensor
    data = {use.tensor for each in above for use in flow.log.calls[each].inputs}
    is_for_data = any(use.tensor in data for use in drawn.inputs)
    if not is_for_data and _NAMES.isdisjoint(flow.log.tensors[noise].names):
        return None
    for each in reversed(above):
        call = flow.log.calls[each]
        if plain_name(call.function) not in ("add", "sub") or len(call.inputs) != _SIDES or call.live_inputs:
            continue
        if any(shape_of(flow, use.tensor) != shape_of(flow, noise) for use in call.inputs):
            continue
        draws = [_draw(flow, use.tensor, each) for use in call.inputs]
        added = next((draw for draw in draws if draw is not None and since <= draw != target), None)
        if added is not None:
            newest = max(draw for draw in draws if draw is not None and draw >= since)
            return _Noises(target, newest)
    return None


def _draw(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The call that drew a tensor, perhaps times factors."""
    for _ in range(_MOST_SCALED):
        row = flow.newest_producer(tensor, before)
        if row is None:
            return None
        call = flow.log.calls[row]
        if is_normal_draw(call):
            return row
        if plain_name(call.function) not in _SCALE or not call.inputs:
            return None
        size, before = shape_of(flow, call.outputs[0].tensor), row
        same = [use for use in call.inputs if shape_of(flow, use.tensor) == size]
        tensor = (same or call.inputs)[0].tensor
    return None


def _is_used_elsewhere(flow: Dataflow, draw: int, row: int) -> bool:
    """Whether anything but the path to the comparison takes the drawn tensor."""
    tensor = flow.log.calls[draw].outputs[0].tensor
    while True:
        users = [each for each in flow.users(tensor, draw) if each != row]
        if not users:
            return False
        call = flow.log.calls[users[0]]
        if len(users) > 1 or users[0] > row or plain_name(call.function) not in _SCALE or not call.outputs:
            return True
        tensor, draw = call.outputs[0].tensor, users[0]
