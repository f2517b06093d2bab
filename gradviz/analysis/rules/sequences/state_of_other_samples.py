"""GV760."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, line_in_function_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_CELLS, RECURRENT_LAYERS
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.batch_lines import CARRY
from gradviz.analysis.rules.bases.batches.drawn_samples import DrawnSamples, are_continued, drawn_samples


class StateOfOtherSamples(Rule):
    """A recurrent network begins each batch with the state in which it left other samples.

    What it finds
    -------------
    A recurrent layer or cell whose first state in a step is the last one of the step before, while the samples of each
    batch were drawn at random, as by a shuffled loader or ``randperm()``, and do not follow those of the batch before.

    Why it matters
    --------------
    A state sums up what a sequence was so far. That of another sequence is noise, which the network has to learn to
    ignore, and which no sequence has in use. States go from batch to batch only where each row goes on where it ended.

    Example
    -------
    network = torch.nn.GRU(3, 4, batch_first=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    data, state = torch.randn(40, 5, 3), None
    for step in range(4):
        x = data[torch.randperm(40)[:8]]
        out, state = network(x, state)
        state = state.detach()
        loss = (out[:, -1, 0] - x.mean((1, 2))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    network = torch.nn.GRU(3, 4, batch_first=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    data = torch.randn(40, 5, 3)
    for step in range(4):
        x = data[torch.randperm(40)[:8]]
        out, state = network(x)
        loss = (out[:, -1, 0] - x.mean((1, 2))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV760"
    name = "state_of_other_samples"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in _first_calls(flow).values() if case.histories.steps else ():
            carried = [(one, other) for one, other in pairwise(rows) if _carries(flow, one, other)]
            if len(carried) < _MIN_CARRIED or 2 * len(carried) < len(rows) - 1:
                continue
            samples = [(_samples(flow, one), _samples(flow, other)) for one, other in carried[:_MOST_COMPARED]]
            if all(_are_others(*each) for each in samples):
                yield self._finding(flow, carried[len(samples) - 1][1], samples[-1][1])

    def _finding(self, flow: Dataflow, row: int, samples: DrawnSamples | None) -> Finding:
        state = next(use for use in flow.log.calls[row].inputs if use.place in _STATES)
        kept = next((made for made, _ in flow.makers(state.tensor, row, 1)), row)
        # A cell stands in a loop over a sequence: what can be changed is what the loop begins with, or keeps.
        is_cell = plain_name(flow.log.calls[row].function) in RECURRENT_CELLS
        location = location_of_line(line_in_function_of(flow, kept if is_cell else row, row if is_cell else kept))
        batch = None if samples is None else location_of_call(flow, samples.row)
        return self.finding(
            f"the samples of each batch are drawn{at_line(batch)}, and {plain_name(flow.log.calls[row].function)}() "
            "begins with the state in which it left those of the batch before",
            symptom="grad_wrong",
            why="the state of another sequence tells nothing about this one",
            fix="begin each batch with a new state: give the layer none, or zeros; or keep the sequences in their "
            "order, each row going on where it ended",
            location=location,
            symptom_location=batch if batch != location else None,
        )


_STATES = ("1", "1[0]", "hx", "hx[0]")
_WEIGHTS = ("2", "2[0]")
_MIN_CARRIED = 2
_MOST_COMPARED = 3
"""The first ones: what a loader does is not in the log for ever."""
_MAX_CARRYING = 6


def _first_calls(flow: Dataflow) -> dict[int, list[int]]:
    """By weight, the first training call of each recurrent layer or cell in each step."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for row, call in enumerate(flow.log.calls):
        is_recurrent = plain_name(call.function) in RECURRENT_CELLS | RECURRENT_LAYERS
        if is_recurrent and call.outputs and call.outputs[0].requires_grad and flow.has_step_after(row):
            weight = next((use.tensor for use in call.inputs if use.place in _WEIGHTS), -1)
            found[weight].setdefault(flow.step_before(row), row)
    return {weight: list(rows.values()) for weight, rows in found.items()}


def _carries(flow: Dataflow, one: int, other: int) -> bool:
    """Whether a call begins with what a call of the same layer returned in the step of another one."""
    weight = next((use.tensor for use in flow.log.calls[other].inputs if use.place in _WEIGHTS), -1)
    state = next((use for use in flow.log.calls[other].inputs if use.place in _STATES), None)
    for row, call in flow.makers(state.tensor, other, _MAX_CARRYING) if state is not None else ():
        if any(use.tensor == weight for use in call.inputs):
            return one <= row < flow.step_before(other)
        if plain_name(call.function) not in CARRY:
            return False
    return False


def _samples(flow: Dataflow, row: int) -> DrawnSamples | None:
    return drawn_samples(flow, flow.log.calls[row].inputs[0].tensor, row)


def _are_others(one: DrawnSamples | None, other: DrawnSamples | None) -> bool:
    return one is not None and other is not None and not are_continued(one, other)
