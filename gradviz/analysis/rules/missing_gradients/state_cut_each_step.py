"""GV115."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import line_in_function_of, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.layer_calls import RECURRENT_CELLS, RECURRENT_LAYERS, is_batch_first
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.numbers.gradient_origins import state_of
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.states_cut import StateCut, acts_between, is_compared, states_cut
from gradviz.graph.call_log import Call


class StateCutEachStep(Rule):
    """The state of a recurrent cell is cut off at every time step of one backward call.

    What it finds
    -------------
    A cell (``LSTMCell``, ``GRUCell``, ``RNNCell``, or a layer called for one time step at a time) that gets its own
    last state without its history each time, so that only its last call has a gradient, or each call one of its own
    loss. Also a state of any formula that is cut off before each of several time steps, whose losses are added for one
    backward call, or of which the loss uses the last: the same weights take it once in each step, and nothing else
    connects the steps.

    Why it matters
    --------------
    The model gets gradients as if it had no memory: no loss reaches an earlier step, and it does not learn to keep
    anything. To detach the state is right between two backward calls, not between two time steps of one.

    Example
    -------
    cell, head = torch.nn.GRUCell(3, 8), torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x, h = torch.randn(6, 16, 3), torch.zeros(16, 8)
        for t in range(6):
            h = cell(x[t], h.detach())
        loss = (head(h) - x[0, :, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    cell, head = torch.nn.GRUCell(3, 8), torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x, h = torch.randn(6, 16, 3), torch.zeros(16, 8)
        for t in range(6):
            h = cell(x[t], h)
        loss = (head(h) - x[0, :, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV115"
    name = "state_cut_each_step"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, histories = case.dataflow, case.histories
        told = set()
        for backward in histories.last_backward_of_each_line if histories.steps else ():
            reached = case.backward_calls.reached(backward).members
            groups: dict[int, list[int]] = defaultdict(list)
            start = max(flow.step_before(backward), flow.backward_before(backward) or 0)
            for row in range(start, backward):
                call = flow.log.calls[row]
                if _is_time_step(case, call):
                    groups[_weight(call)].append(row)
            for rows in groups.values():
                cuts = [_cut_between(case, one, other) for one, other in pairwise(rows)]
                known = [each for each in cuts if each is not None]
                if len(known) < max(_MIN_CUTS, len(cuts)):
                    continue
                live = [row for row in rows if row in reached and _has_gradient(case, row)]
                location = location_of_call(flow, known[-1])
                if live == rows[-1:] and location not in told:
                    told.add(location)
                    yield self._finding(case, rows, known[-1])
                elif live == rows and location not in told and _is_for_one_loss(case, rows, known):
                    told.add(location)
                    yield self._of_each_step(case, StateCut(known[-1], rows[-1], len(rows), is_last=False))
            for found in states_cut(case, backward):
                location = location_of_call(case.dataflow, found.cut)
                if location not in told:
                    told.add(location)
                    yield self._of_each_step(case, found)

    def _finding(self, case: Case, rows: list[int], cut: int) -> Finding:
        flow = case.dataflow
        location, used = two_lines(flow, cut, rows[-1])
        name = plain_name(flow.log.calls[rows[-1]].function)
        return self.finding(
            f"the state is cut off before each of {len(rows):,} calls of {name}(), and the loss uses the last: no "
            "gradient reaches the earlier time steps",
            symptom="grad_none",
            why="detach() keeps the values and drops the history, so nothing learns to carry something on",
            fix="give the cell its state as it is, and detach it only after backward(), for the next sequence",
            location=location,
            symptom_location=used,
            evidence={"time_steps": len(rows)},
        )

    def _of_each_step(self, case: Case, found: StateCut) -> Finding:
        flow = case.dataflow
        location = location_of_line(line_in_function_of(flow, found.cut, found.used))
        used = location_of_call(flow, found.used)
        return self.finding(
            f"the state is cut off before each of {found.times:,} time steps, and the loss uses the last: no gradient "
            "reaches the earlier time steps"
            if found.is_last
            else f"the state is cut off before each of {found.times:,} time steps, whose losses one backward() takes: "
            "no gradient reaches an earlier step than the one with the loss",
            symptom="grad_wrong",
            why="detach() keeps the values and drops the history: each step learns for itself, and nothing learns to "
            "carry something on",
            fix="give each step the state as it is, and detach it only after backward(), for the next window",
            location=location,
            symptom_location=used if used != location else None,
            evidence={"time_steps": found.times},
        )


_CUTS = frozenset({"detach", "data", "clone"})
_MIN_CUTS = 2
_MAX_FOLLOWED = 3


def _is_for_one_loss(case: Case, rows: list[int], cuts: list[int]) -> bool:
    """Whether the steps, whose losses one backward call takes, are those of a training, as far as it can be known: no
    actions are drawn between them, and the state itself is no prediction."""
    flow = case.dataflow
    states = ((flow.log.calls[cut].inputs[0].tensor, cut) for cut in cuts)
    is_prediction = any(is_compared(flow, *state) for state in states)
    return len(cuts) >= _MIN_STEPS and not acts_between(flow, rows[0], rows[-1]) and not is_prediction


_MIN_STEPS = 4


def _is_time_step(case: Case, call: Call) -> bool:
    """Whether it is a call of a recurrent cell, or of a recurrent layer with sequences of one step."""
    name = plain_name(call.function)
    if not call.outputs or not call.outputs[0].requires_grad:
        return False
    if name in RECURRENT_CELLS:
        return True
    shape = shape_of(case.dataflow, call.inputs[0].tensor) if name in RECURRENT_LAYERS else ()
    return len(shape) == 3 and shape[1 if is_batch_first(call) else 0] == 1


def _has_gradient(case: Case, row: int) -> bool:
    """Whether a gradient other than zero arrived at it; also where none was measured."""
    states = {state_of(case.graphs[at.graph].nodes[at.node].arrived) for at in case.nodes_of_call(row)}
    return states != {"zero"}


def _weight(call: Call) -> int:
    """The first parameter, by which the calls of one cell are told from those of others."""
    return next((use.tensor for use in call.inputs if use.place in ("2", "2[0]")), -1)


def _cut_between(case: Case, one: int, other: int) -> int | None:
    """The call that cuts the state off, which one call returned and the other one takes."""
    flow = case.dataflow
    made = {use.tensor for use in flow.log.calls[one].outputs}
    states = [use for use in flow.log.calls[other].inputs if use.place in ("1", "1[0]")]
    if not states or states[0].requires_grad:
        return None
    cut = None
    for maker, call in flow.makers(states[0].tensor, other, _MAX_FOLLOWED):
        if plain_name(call.function) not in _CUTS:
            return None
        given = call.inputs[0]
        cut = maker if given.requires_grad else cut
        if given.tensor in made:
            return cut
    return None
