"""GV672."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    ERRORS_OF_VALUES,
    at_line,
    callers,
    calls_named,
    class_of,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import DENSE_LAYERS
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.stored_batches import line_that_stores
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.sources.shared_arrays import line_that_returns_own, line_that_shares
from gradviz.graph.call_log import Call, ValueFacts


class NextStateIsState(Rule):
    """The states and the next states of a batch have the same values, because both are one array.

    What it finds
    -------------
    A loss that compares a network's answer to states with a target made from a network's answer to other data of the
    same shape, without a gradient, where both have the same smallest and largest value at every step. An environment
    that changes its state in place and returns it, a memory that stores it without a copy, or a batch that is put
    together twice of the same field. Where the smallest and largest value are bounds of the environment, all layers
    have the same results for both, too, whenever both networks have the same weights.

    Why it matters
    --------------
    The value of what follows is then that of the state itself: the network learns from transitions that never happened.

    Example
    -------
    network = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    state, memory = torch.zeros(2), []
    for step in range(9):
        state = torch.randn(2)
        before = state
        state += 0.1
        memory.append((before, torch.randn(()), state))
        states, rewards, following = (torch.stack(each) for each in zip(*memory))
        with torch.no_grad():
            target = rewards + 0.9 * network(following).max(1).values
        loss = (network(states)[:, 0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    network = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    state, memory = torch.zeros(2), []
    for step in range(9):
        state = torch.randn(2)
        before = state.clone()
        state += 0.1
        memory.append((before, torch.randn(()), state))
        states, rewards, following = (torch.stack(each) for each in zip(*memory))
        with torch.no_grad():
            target = rewards + 0.9 * network(following).max(1).values
        loss = (network(states)[:, 0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV672"
    name = "next_state_is_state"
    severity = "warning"
    yields_to = ("batch_of_equal_rows",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, int, int]]] = defaultdict(list)
        for row, call in calls_named(flow, ERRORS_OF_VALUES):
            is_error = len(call.inputs) == _BOTH and len(call.live_inputs) == 1
            pair = _states(flow, row) if is_error and flow.has_step_after(row) else None
            if pair is not None:
                lines[call.call_site].append((row, *pair))
        for found in lines.values():
            if len(found) >= _MIN_STEPS and (_are_alike(flow, found) or _answers_are_alike(case, found)):
                yield self._finding(case, *found[-1])

    def _finding(self, case: Case, row: int, states: int, following: int) -> Finding:
        flow = case.dataflow
        made = flow.newest_producer(following, row)
        batch, loss = None if made is None else location_of_call(flow, made), location_of_call(flow, row)
        location = line_that_stores(case, batch) or _line_that_fills(flow, made) or batch
        location = location or line_that_returns_own(case) or line_that_shares(case)
        first = flow.newest_producer(states, row)
        places = at_line(None if first is None else location_of_call(flow, first)), at_line(batch)
        return self.finding(
            f"the states{places[0]} and the next states{places[1]} always have the same values",
            symptom="grad_wrong",
            why="they were stored without a copy, and are one array that was changed in place since, or one of them "
            "was read twice: the value of what follows is that of the state itself",
            fix="store copies, state.copy() or state.clone(), where the environment returns or the memory takes them",
            location=location or loss,
            symptom_location=loss if loss != location else None,
        )


_FILLS = frozenset({"setitem", "copy", "index_copy"})


def _line_that_fills(flow: Dataflow, made: int | None) -> Location | None:
    """The line that gives values to a memory from which a batch is taken: the call of the method that writes them."""
    given = () if made is None else flow.log.calls[made].inputs[:1]
    for use in given:
        fills = [each for each in flow.changes(use.tensor, 0, made or 0) if _fills(flow.log.calls[each])]
        lines = list(callers(flow, fills[-1])) if fills else []
        if lines:
            outside = (line for line in lines if class_of(line) != class_of(lines[0]))
            return location_of_line(next(outside, lines[0]) if class_of(lines[0]) else lines[0])
    return None


def _fills(call: Call) -> bool:
    return plain_name(call.function) in _FILLS and call.kind == "operation"


_BOTH = 2
_MIN_STEPS = 3
_MIN_NUMBERS = 8
_MOST_ABOVE = 60


def _states(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The data that a network got for a prediction, and that of which the target was made."""
    live, dead = sorted(flow.log.calls[row].inputs, key=lambda use: not use.requires_grad)
    target = value_maker(flow, dead.tensor, row)
    if target is None or plain_name(target[1].function) not in ("add", "sub"):
        return None
    states, following = (_given(flow, tensor, row) for tensor in (live.tensor, dead.tensor))
    if states is None or following is None or states == following:
        return None
    shape = shape_of(flow, states)
    is_batch = len(shape) >= _BOTH and prod(shape) >= _MIN_NUMBERS
    return (states, following) if is_batch and shape == shape_of(flow, following) else None


def _given(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The data that the first layer of a network got, if one network alone made a tensor."""
    above = flow.ancestors(tensor, row, since=flow.step_before(row))[-_MOST_ABOVE:]
    first = next((each for each in above if plain_name(flow.log.calls[each].function) in DENSE_LAYERS), None)
    given = None if first is None else flow.log.calls[first].inputs[0]
    return None if given is None or given.requires_grad else given.tensor


def _are_alike(flow: Dataflow, found: Sequence[tuple[int, int, int]]) -> bool:
    """Whether the two have the same bounds at every step, and not the same ones at all steps, unless it is always the
    same batch: every picture of a game has the same darkest and brightest colour."""
    pairs = [(_bounds(flow.values(one, row)), _bounds(flow.values(other, row))) for row, one, other in found]
    is_varied = len({one for one, _ in pairs}) > 1 or len({states for _, states, _ in found}) == 1
    return is_varied and all(one == other is not None for one, other in pairs)


def _answers_are_alike(case: Case, found: Sequence[tuple[int, int, int]]) -> bool:
    """Whether an environment returns an array that it changes, and every layer has the same results for states and for
    next states at each step where the first one has: there both networks have the same weights. It tells more than the
    bounds of states that an environment keeps in bounds, which they reach in every batch."""
    flow = case.dataflow
    if any(not _have_one_range(flow, *each) for each in found) or line_that_returns_own(case) is None:
        return False
    pairs = [tuple(_results(flow, tensor, row) for tensor in states) for row, *states in found]
    same = [(one, other) for one, other in pairs if one[:1] == other[:1] != []]
    told = {zeros for one, _ in same for _, _, zeros, count in one if 0 < zeros < count}
    return all(one == other for one, other in same) and len(told) >= _MIN_TOLD


def _have_one_range(flow: Dataflow, row: int, states: int, following: int) -> bool:
    one, other = (_bounds(flow.values(tensor, row)) for tensor in (states, following))
    return one == other is not None


_MIN_TOLD = 2
_MAX_LAYERS = 8


def _results(flow: Dataflow, tensor: int, before: int) -> list[tuple[float | None, float | None, int, int]]:
    """Bounds, zeros and size of the results that the calls of a network had, one after the other, from its first."""
    found, row = list[tuple[float | None, float | None, int, int]](), flow.step_before(before)
    users = [each for each in flow.users(tensor, row) if each < before]
    first = next((each for each in users if plain_name(flow.log.calls[each].function) in DENSE_LAYERS), None)
    while first is not None and len(found) < _MAX_LAYERS:
        result = flow.log.calls[first].outputs[0]
        if result.values is None or plain_name(flow.log.calls[first].function) in _ENDS:
            break
        facts = result.values
        found.append((facts.minimum, facts.maximum, facts.zeros, facts.count))
        following = flow.users(result.tensor, first)
        first = following[0] if following and following[0] < before and flow.log.calls[following[0]].outputs else None
    return found


_ENDS = frozenset({"gather", "max", "amax", "argmax", "getitem", "squeeze", "sum"})
"""What takes the value of one action: behind them, both differ."""


def _bounds(values: ValueFacts | None) -> tuple[float, float, int] | None:
    if values is None or values.minimum is None or values.maximum is None or values.minimum == values.maximum:
        return None
    if values.minimum.is_integer() and values.maximum.is_integer():
        return None  # Other one-hot states, and other places of a grid, have the same bounds.
    return values.minimum, values.maximum, values.zeros
