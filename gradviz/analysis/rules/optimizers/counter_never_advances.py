"""GV787."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.first_corrections import first_corrections
from gradviz.analysis.rules.bases.sources.rates.lost_counts import LostCount, lost_counts
from gradviz.analysis.rules.bases.sources.rates.still_counters import StillCounter, still_counters
from gradviz.analysis.rules.bases.sources.rates.tensor_counters import (
    counter_behind,
    dropped_counts,
    is_statement_of_sum,
)
from gradviz.analysis.sources.parsed_lines import function_around
from gradviz.analysis.sources.source_tree import SourceTree, tree_of


class CounterNeverAdvances(Rule):
    """A counter of steps keeps its first value.

    What it finds
    -------------
    A variable such as ``step`` or ``self.count`` that is set to 0 or 1, and by nothing else in its file, where a loop
    or a method of a training computes with it again and again; a counter that is a tensor, to which each step adds a
    number without keeping the sum; statements that compute the next count and keep it nowhere, such as
    ``state._replace(step=state.step + 1)``; and running averages that each step divides by ``1 - beta``, the bias
    correction of the first step.

    Why it matters
    --------------
    What depends on the counter stays as it was in the first step: a warm-up at its lowest rate, a bias correction that
    enlarges each step tenfold, an update of a target that happens at each step or at none.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    for batch in range(4):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * min(1.0, (step + 1) / 100)
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    for batch in range(4):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * min(1.0, (step + 1) / 100)
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    """

    code = "GV787"
    name = "counter_never_advances"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[Location | None]()
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(flow, file)
            for counter in still_counters(tree):
                if _is_read_again(ran, tree, counter):
                    told.add(Location(file, counter.read))
                    yield self._still(file, counter)
            for lost in lost_counts(tree):
                if Location(file, lost.line) not in told and _is_lost_again(ran, tree, lost):
                    told.add(Location(file, lost.line))
                    yield self._lost(file, lost)
        dropped = {
            counter: rows for counter, rows in dropped_counts(flow).items() if _is_statement(case, flow, rows[-1])
        }
        for rows in dropped.values():
            finding = self._dropped(flow, rows)
            if finding.location not in told:
                told.add(finding.location)
                yield finding
        for row, beta in first_corrections(flow):
            finding = self._correction(case, row, beta, dropped)
            if told.isdisjoint((finding.location, finding.symptom_location)):
                told.add(finding.location)
                yield finding

    def _still(self, file: str, counter: StillCounter) -> Finding:
        return self.finding(
            f"{counter.name} is {counter.value} at line {counter.line} and never changes: line {counter.read} computes "
            "with the same number each time",
            symptom="grad_wrong",
            why="a rate, a correction or a condition that depends on a counter stays as it was in the first step",
            fix=f"count: {counter.name} += 1 after each step",
            location=Location(file, counter.line),
            symptom_location=Location(file, counter.read),
        )

    def _lost(self, file: str, lost: LostCount) -> Finding:
        return self.finding(
            f"line {lost.line} computes the next {lost.name} and does not keep it: the counter has its first value at "
            "each step",
            symptom="grad_wrong",
            why=lost.why,
            fix=lost.fix,
            location=Location(file, lost.line),
        )

    def _dropped(self, flow: Dataflow, rows: list[int]) -> Finding:
        return self.finding(
            f"{plain_name(flow.log.calls[rows[-1]].function)}() returns the next count, and nothing takes "
            f"it: the counter has the same value after {len(rows):,} calls",
            symptom="grad_wrong",
            why="without an underscore at its end, such a function returns new tensors and leaves those that it got "
            "as they are",
            fix="count in place: t.add_(1), or torch._foreach_add_(ts, 1); or keep the result: t = t + 1",
            location=location_of_call(flow, rows[-1]),
            evidence={"calls": len(rows)},
        )

    def _correction(self, case: Case, row: int, beta: float, dropped: dict[int, list[int]]) -> Finding:
        used = location_of_call(case.dataflow, row)
        counter = counter_behind(case.dataflow, case.dataflow.log.calls[row].inputs[-1].tensor, row)
        sums = dropped.get(-1 if counter is None else counter)
        location = location_of_call(case.dataflow, sums[-1]) if sums else _line_of_counter(case, used)
        location = location or _line_of_tensor(case.dataflow, row, counter) or used
        return self.finding(
            f"a running average of factor {beta:.4g} is divided by {1 - beta:.4g} at each step: that is the bias "
            "correction 1 - beta ** t of the first step",
            symptom="grad_wrong",
            why="the average has filled up after some steps, and is still enlarged as if it were the first one",
            fix="count the steps, t += 1, before 1 - beta ** t is computed",
            location=location,
            symptom_location=used if used != location else None,
            evidence={"factor": beta},
        )


_MIN_TIMES = 4
_POWER = re.compile(r"\*\*\s*([\w.]+(?:\[[^\]]*\])*)")


def _is_statement(case: Case, flow: Dataflow, row: int) -> bool:
    here = location_of_call(flow, row)
    lines = {} if here is None else case.capture.sources.get(here.file, {})
    return here is not None and bool(lines) and is_statement_of_sum(tree_of(lines), here.line)


def _is_read_again(ran: LinesThatRan, tree: SourceTree, counter: StillCounter) -> bool:
    """Whether the line that reads a counter runs many times, in a loop or method that takes steps."""
    for loop in counter.loops:
        rows = ran.rows_in(loop.lineno, loop.end_lineno or loop.lineno)
        if ran.has_backward(rows) and ran.runs_again(tree, loop):
            return True
    return not counter.loops and ran.moments(ran.rows_in(counter.read, counter.read)) >= _MIN_TIMES


def _is_lost_again(ran: LinesThatRan, tree: SourceTree, lost: LostCount) -> bool:
    """Whether the statement runs many times, in a loop that takes steps or in a function that such a loop calls."""
    for loop in lost.loops:
        rows = ran.rows_in(loop.lineno, loop.end_lineno or loop.lineno)
        if ran.has_backward(rows) and ran.runs_again(tree, loop):
            return True
    return lost.around is not None and ran.moments(ran.rows_in(*lost.around)) >= _MIN_TIMES


def _line_of_tensor(flow: Dataflow, row: int, counter: int | None) -> Location | None:
    """Where a counter that is a tensor was made."""
    made = () if counter is None else flow.producers(counter, row)[-1:]
    return location_of_call(flow, made[0]) if made else None


def _line_of_counter(case: Case, used: Location | None) -> Location | None:
    """The only line of the function that sets the exponent of the correction."""
    lines = {} if used is None else case.capture.sources.get(used.file, {})
    power = None if used is None else _POWER.search(lines.get(used.line, ""))
    if used is None or power is None:
        return None
    sets = re.compile(rf"^\s*{re.escape(power[1])}\s*=(?!=)")
    found = [number for number in function_around(lines, used.line) or () if sets.match(lines[number])]
    return Location(used.file, found[0]) if len(found) == 1 else None
