"""GV940."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.arrays.whole_turns import WholeTurns, sines_of_whole_turns
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call, ValueFacts


class PeriodsAreWhole(Rule):
    """The sine or cosine of a column is the same number in all rows, as its angles are whole turns.

    What it finds
    -------------
    A sine or cosine of data that differ by three turns or more, whose results all are the same number, at all calls of
    the line, and that a network gets: 2 pi times a whole number.

    Why it matters
    --------------
    An hour or a month is written as a point on a circle, so that 23 is near 0. Where the hour is not divided by 24,
    each angle is a whole turn: the columns are constant, and the network does not know the hour.

    Example
    -------
    hours = torch.randint(0, 24, (64,))
    angle = 2 * torch.pi * hours
    x = torch.stack([torch.sin(angle), torch.cos(angle)], dim=1)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = (model(x)[:, 0] - (hours > 12).float()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    hours = torch.randint(0, 24, (64,))
    angle = 2 * torch.pi * hours / 24
    x = torch.stack([torch.sin(angle), torch.cos(angle)], dim=1)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = (model(x)[:, 0] - (hours > 12).float()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV940"
    name = "periods_are_whole"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int]()
        at_lines = defaultdict[Location | None, list[tuple[int, Call]]](list)
        for row, call in calls_named(flow, {"sin", "cos"}):
            if call.inputs and call.outputs and call.inside is None and not call.outputs[0].requires_grad:
                at_lines[location_of_call(flow, row)].append((row, call))
        for calls in at_lines.values():
            row, call = calls[0]
            # Two columns of one angle have one mistake.
            if call.inputs[0].tensor in told or not all(_is_constant(flow, *each) for each in calls):
                continue
            if any(_is_read_by_layer(flow, *each) for each in calls):
                told.add(call.inputs[0].tensor)
                yield self._finding(flow, row, call)
        for file, tree in own_files(case) if not told and case.histories.reached_by else ():
            ran = LinesThatRan(flow, file)
            for turns in sines_of_whole_turns(tree):
                if not ran.rows_in(turns.wave, turns.wave):
                    yield self._of_arrays(file, turns)

    def _of_arrays(self, file: str, turns: WholeTurns) -> Finding:
        return self.finding(
            f"the sine and the cosine of 2 pi times {turns.name}, a whole number, are the same for all rows: the "
            "network gets a constant",
            symptom="grad_wrong",
            why=_WHY,
            fix="divide by the period first: 2 * np.pi * hour / 24, for hours of a day",
            location=Location(file, turns.angle),
            symptom_location=Location(file, turns.wave) if turns.wave != turns.angle else None,
        )

    def _finding(self, flow: Dataflow, row: int, call: Call) -> Finding:
        angles, made = flow.values_of(call.inputs[0], row), flow.newest_producer(call.inputs[0].tensor, row)
        turns = _width(angles) / (2 * math.pi)
        location, other = two_lines(flow, row if made is None else made, row)
        return self.finding(
            f"{call_words(call)} gives the same number for all {angles.count if angles else 0:,} angles, which go over "
            f"{turns:,.3g} turns: all are whole turns, or halves, and the network gets a constant",
            symptom="grad_wrong",
            why=_WHY,
            fix="divide by the period first: 2 * math.pi * hour / 24, for hours of a day",
            location=location,
            symptom_location=other,
            evidence={"turns": turns},
        )


_WHY = "2 pi times a whole number is where the circle begins: the sine is 0 there, and the cosine 1"
_MIN_TURNS = 3
"""Both ends of an interval may well be a turn apart, and a wave is 0 at both."""
_MIN_COUNT = 8
_MAX_WIDTH = 1e-2
"""Of float32, the angles of ten thousand turns are exact to a thousandth."""
_LAYERS = frozenset({"linear", "matmul", "addmm", "mm", "conv1d", "conv2d", "lstm", "gru", "rnn_tanh", "einsum"})


def _width(values: ValueFacts | None) -> float:
    if values is None or values.minimum is None or values.maximum is None:
        return 0.0
    return values.maximum - values.minimum


def _is_constant(flow: Dataflow, row: int, call: Call) -> bool:
    made, given = call.outputs[0].values, flow.values_of(call.inputs[0], row)
    if made is None or given is None or made.count < _MIN_COUNT or not made.is_finite:
        return False
    return _width(given) >= _MIN_TURNS * 2 * math.pi * 0.99 and _width(made) < _MAX_WIDTH


def _is_read_by_layer(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a layer that trains takes what is made of it before any loss does."""
    below = (flow.log.calls[each] for each in flow.descendants(call.outputs[0].tensor, row))
    first = next((each for each in below if each.live_inputs), None)
    return first is not None and plain_name(first.function) in _LAYERS and flow.has_step_after(row)
