"""GV778."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.moving_averages import Update
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.weighted_parameters import WeightedParameters
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.saving_lines import may_save
from gradviz.analysis.rules.bases.sources.unread_states import is_never_read, unread_states


class AverageNeverRead(Rule):
    """Averages of the trained weights are made and never used: slow weights that are not copied back.

    What it finds
    -------------
    Slow weights, as of a lookahead: copies that move a large part of the way to the trained parameters after some
    steps each, always the same part, and that nothing reads. Also averages of trained parameters that nothing reads
    until the parameters are copied onto them: the copy goes the wrong way; and momentum that a program computes itself
    at each step, and that nothing reads. Programs that save something are left alone.

    Why it matters
    --------------
    A lookahead goes on from its slow weights. Without the copy the inner optimizer runs as if it were alone; and an
    average that is overwritten before an evaluation is that of the last step. Nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    slow = [p.detach().clone() for p in model.parameters()]
    for step in range(6):
        optimizer.zero_grad()
        (model(torch.randn(8, 4)) - 1).square().mean().backward()
        optimizer.step()
        if step % 2 == 1:
            with torch.no_grad():
                for s, p in zip(slow, model.parameters()):
                    s.add_(p - s, alpha=0.5)

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    slow = [p.detach().clone() for p in model.parameters()]
    for step in range(6):
        optimizer.zero_grad()
        (model(torch.randn(8, 4)) - 1).square().mean().backward()
        optimizer.step()
        if step % 2 == 1:
            with torch.no_grad():
                for s, p in zip(slow, model.parameters()):
                    s.add_(p - s, alpha=0.5)
                    p.copy_(s)
    """

    code = "GV778"
    name = "average_never_read"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories, flow = case.histories, case.dataflow
        if not histories.backward_calls or may_save(case):
            return
        sums = WeightedParameters(flow)
        slow: dict[Location | None, list[Update]] = defaultdict(list)
        overwritten: dict[Location | None, list[tuple[Update, int]]] = defaultdict(list)
        for updates in case.averages:
            copied = _copied_over(flow, sums, updates)
            is_slow = _are_slow(histories, updates) and copied is None
            if (copied is not None or is_slow) and is_never_read(flow, updates[-1].target, updates[0].row):
                if copied is None:
                    slow[location_of_call(flow, updates[-1].row)].append(updates[-1])
                else:
                    overwritten[location_of_call(flow, copied)].append((updates[-1], copied))
        for location, found in slow.items():
            yield self._slow(case, location, found)
        yield from self._momentum(case)
        for location, pairs in overwritten.items():
            yield self._overwritten(case, location, [update for update, _ in pairs])

    def _momentum(self, case: Case) -> Iterator[Finding]:
        """Averages of gradients that no step uses: one for each line that updates them, if it is so of all of these."""
        flow = case.dataflow
        lines: dict[Location | None, dict[int, int]] = defaultdict(dict)
        for state in unread_states(case):
            lines[location_of_call(flow, state.changed)][state.leaf] = state.updated
        for moved, states in lines.items():
            updated = location_of_call(flow, max(states.values()))
            yield self.finding(
                f"the averages of gradients of {case.histories.together(sorted(states))}{at_line(updated)} are "
                "computed at each step, and no step uses them",
                symptom="grad_wrong",
                why="the parameters are changed by the newest gradient alone: there is no momentum",
                fix="change the parameters by the average: p.sub_(average, alpha=rate)",
                location=moved,
                symptom_location=updated if updated != moved else None,
                tensors=names_of(flow, sorted(states)),
                evidence={"parameters": len(states)},
            )

    def _slow(self, case: Case, location: Location | None, updates: list[Update]) -> Finding:
        sources = sorted({each.source for each in updates})
        return self.finding(
            f"copies of {case.histories.together(sources)} move {updates[0].taken:.3g} of the way to them every few "
            "steps, and nothing reads the copies",
            symptom="grad_wrong",
            why="the slow weights of a lookahead are where the next steps begin; here the optimizer goes on from its "
            "own weights",
            fix="copy them back after each update, under torch.no_grad(): p.copy_(slow)",
            location=location,
            tensors=names_of(case.dataflow, sources),
            evidence={"parameters": len(sources), "taken": updates[0].taken},
        )

    def _overwritten(self, case: Case, location: Location | None, updates: list[Update]) -> Finding:
        sources = sorted({each.source for each in updates})
        averaged = location_of_call(case.dataflow, updates[-1].row)
        return self.finding(
            f"the averages of {case.histories.together(sources)}{at_line(averaged)} are overwritten with the "
            "parameters of the last step, and nothing has read them",
            symptom="grad_wrong",
            why="the copy goes the wrong way: what follows runs with the trained weights, not with their average",
            fix="copy the average onto the parameter: p.copy_(average)",
            location=location,
            symptom_location=averaged if averaged != location else None,
            tensors=names_of(case.dataflow, sources),
            evidence={"parameters": len(sources)},
        )


_MIN_UPDATES = 2
_MIN_OVERWRITTEN = 3
_LEAST_TAKEN = 0.2
_MOST_TAKEN = 0.95
_EXACT = 1e-5


def _are_slow(histories: ParameterHistories, updates: list[Update]) -> bool:
    """Whether two or more steps lie between any two updates, which all take the same large part."""
    rows = [each.row for each in updates]
    own = sorted({
        row
        for optimizer in histories.optimizers_of(updates[0].source)
        for row in histories.steps_by_optimizer.get(optimizer, [])
    })  # fmt: skip
    between = [bisect_left(own, other) - bisect_right(own, one) for one, other in pairwise(rows)]
    taken = [each.taken for each in updates]
    is_constant = max(taken) - min(taken) < _EXACT
    is_whole = abs(updates[0].kept + updates[0].taken - 1) < _EXACT
    is_large = _LEAST_TAKEN <= taken[0] <= _MOST_TAKEN
    is_regular = len(updates) >= _MIN_UPDATES and min(between) == max(between) >= _MIN_UPDATES
    return not updates[0].is_new and is_constant and is_whole and is_large and is_regular


def _copied_over(flow: Dataflow, sums: WeightedParameters, updates: list[Update]) -> int | None:
    """The call that copies the trained parameter onto its average, as the last that changes it."""
    last = updates[-1]
    changes = sums.changes.get(flow.log.tensors[last.target].storage or 0, [])
    if last.is_new or len(updates) < _MIN_OVERWRITTEN or not changes or changes[-1] <= last.row:
        return None
    found = sums.sum_of(last.target, changes[-1] + 1, changes[-1] - 1)
    is_copy = found is not None and found.keys() == {last.source} and abs(found[last.source] - 1) < _EXACT
    return changes[-1] if is_copy else None
