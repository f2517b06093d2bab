"""GV796."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.swapped_states import SwappedStates, swapped_states
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.names.crossed_names import CrossedNames, crossed_names
from gradviz.analysis.rules.bases.sources.names.old_and_new import TurnedRatio, turned_ratios
from gradviz.analysis.rules.bases.sources.own_files import own_files


class ArgumentsInOtherOrder(Rule):
    """A call gives two arguments, or takes two results, in the order of each other's names.

    What it finds
    -------------
    Calls of the program's own functions, methods and modules on lines that ran in training, where the first of two
    values has the name of the second parameter and the second that of the first; and ``values, rewards = f()`` where
    ``f`` returns ``rewards, values``. Letters such as ``x`` and ``t`` only where another call has them in order. What
    is called in both orders with the same names is left alone. Also an LSTM whose two states are given to it in the
    other order than that in which it returned them, and functions that compute ``exp(new - old)`` of what they are
    given, and get the value with a gradient as the old one.

    Why it matters
    --------------
    Two tensors of one shape fit in each other's place: nothing raises, and what is learned belongs to other data.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def advantages(rewards, values):
        return rewards + 0.9 * values.roll(-1).detach() - values
    for step in range(3):
        states, rewards = torch.randn(8, 4), torch.randn(8)
        values = model(states).squeeze(1)
        loss = advantages(values, rewards).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def advantages(rewards, values):
        return rewards + 0.9 * values.roll(-1).detach() - values
    for step in range(3):
        states, rewards = torch.randn(8, 4), torch.randn(8)
        values = model(states).squeeze(1)
        loss = advantages(rewards, values).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV796"
    name = "arguments_in_other_order"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(flow, file)
            for crossed in crossed_names(tree):
                if any(flow.has_step_after(row) for row in ran.rows_in(crossed.first_line, crossed.line)):
                    yield self._finding(file, crossed)
            for turned in turned_ratios(flow, file, tree):
                yield self._of_ratio(case, turned)
        for swapped in swapped_states(flow):
            if flow.has_step_after(swapped.row):
                yield self._of_states(flow, swapped)

    def _of_ratio(self, case: Case, turned: TurnedRatio) -> Finding:
        flow = case.dataflow
        line, used = location_of_line(turned.line), location_of_call(flow, turned.row)
        return self.finding(
            f"what is given as {turned.old} has a gradient, and what is given as {turned.new} has none: the ratio"
            f"{at_line(used)} is turned round",
            symptom="grad_wrong",
            why="the old value is a constant, computed before; with the two swapped, training lowers what it should "
            "raise",
            fix="swap the two arguments, or give both by name",
            location=line,
            symptom_location=used if used != line else None,
            tensors=leaf_names_above(flow, turned.live, turned.row, since=flow.step_before(turned.row)),
        )

    def _of_states(self, flow: Dataflow, swapped: SwappedStates) -> Finding:
        name, whose = call_words(flow.log.calls[swapped.row]), "it" if swapped.are_own else "another LSTM"
        return self.finding(
            f"{name} gets the cell state that {whose} returned as its hidden state, and the hidden state as its cell "
            "state",
            symptom="grad_wrong",
            why="it takes and returns the hidden state first and the cell state second, and both have one shape, so "
            "nothing raises",
            fix="take them in the order in which they are returned: h, c = cell(x, (h, c)), or out, (h, c) = lstm(x, "
            "(h, c))",
            location=location_of_call(flow, swapped.row),
        )

    def _finding(self, file: str, crossed: CrossedNames) -> Finding:
        (one, other), (first, second) = crossed.given, crossed.wanted
        if crossed.is_result:
            returned = f"{crossed.called}() returns {first}, {second} at line {crossed.function_line}"
            what = f"{returned}, and line {crossed.line} takes them as {one}, {other}"
            fix = f"take them in the order in which they are returned: {other}, {one} = {crossed.called}(...)"
        else:
            what = f"{crossed.called}() gets {one} as {first} and {other} as {second}"
            fix = f"swap the two arguments, or give them by name: {first}={other}, {second}={one}"
        return self.finding(
            what,
            symptom="grad_wrong",
            why="the two tensors fit in each other's place, so nothing raises",
            fix=fix,
            location=Location(file, crossed.line),
            symptom_location=Location(file, crossed.function_line),
        )
