"""GV985."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.layer_calls import DENSE_LAYERS
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.moving_averages import Update
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.scoring_calls import is_for_a_loss


class AverageOfTheStart(Rule):
    """A moving average of the weights is scored, and most of it still is the random initialization.

    What it finds
    -------------
    Averages of trained parameters that began as random values, as a copy of the untrained model has, and that keep so
    much of themselves at each update that more than half of these values is left at the end of the program: a decay of
    0.9999 over 900 updates leaves 91 %. The average computes something without gradients behind its last update. A
    program that made fewer than 50 updates, was stopped, uses the average in a loss, or corrects what began at 0, is
    left alone; and where the trained weights are scored as well it is a note.

    Why it matters
    --------------
    A decay d averages over the last 1 / (1 - d) updates. If the training is shorter, the average hardly leaves its
    start: its score or samples are those of a model that was hardly trained, however low the loss is.

    Example
    -------
    import copy
    model = torch.nn.Linear(4, 1)
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(60):
        x = torch.randn(16, 4)
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters()):
                kept.lerp_(new, 0.001)
    with torch.no_grad():
        error = (average(x) - x[:, :1]).abs().mean()

    Instead
    -------
    import copy
    model = torch.nn.Linear(4, 1)
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(60):
        x = torch.randn(16, 4)
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters()):
                kept.lerp_(new, 0.1)
    with torch.no_grad():
        error = (average(x) - x[:, :1]).abs().mean()
    """

    code = "GV985"
    name = "average_of_the_start"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        if case.capture.outcome != "finished":
            return
        by_line: dict[Location | None, list[_Average]] = defaultdict(list)
        for updates in case.averages:
            average = _average_of(case, updates)
            if average is not None and average.left > _MOST_LEFT:
                by_line[location_of_call(case.dataflow, updates[-1].row)].append(average)
        for location, found in by_line.items():
            scored = next((row for each in found if (row := _scored_at(case, each)) is not None), None)
            if scored is not None:
                yield self._finding(case, location, found, scored)

    def _finding(self, case: Case, location: Location | None, found: list[_Average], scored: int) -> Finding:
        flow, first = case.dataflow, found[0]
        is_either = any(_is_scored_itself(case, each) for each in found)
        decay = 1 - _HORIZONS / first.count
        return self.finding(
            f"the average of {case.histories.together(each.source for each in found)} keeps {first.kept:.6g} of itself "
            f"at each of {first.count:,} updates: {first.left:.0%} of what is scored still are the random values that "
            "it began with",
            severity="note" if is_either else self.severity,
            symptom="none",
            why=f"such an average is one over about {1 / (1 - first.kept):,.0f} updates; the program makes too few, "
            "and measures a model that is hardly trained",
            fix=f"keep less{at_line(location)}, such as {decay:.3g}, or begin with little and rise: "
            "min(decay, (1 + step) / (10 + step))",
            location=location,
            symptom_location=location_of_call(flow, scored),
            tensors=names_of(flow, [each.target for each in found]),
            evidence={"updates": first.count, "kept": first.kept, "left": round(first.left, 3)},
        )


_MOST_LEFT = 0.5
_MIN_UPDATES = 50
_FIRST_STEPS = 2
"""An average that is filled behind the first step has the values of an untrained model."""
_HORIZONS = 10
_ROUNDING = 1e-4


class _Average(Struct, frozen=True):
    source: int
    target: int
    last: int
    count: int
    kept: float
    """At the last update."""
    left: float
    """Which part of its first values is left."""


def _average_of(case: Case, updates: list[Update]) -> _Average | None:
    """An average that began as a random initialization."""
    flow, last = case.dataflow, updates[-1]
    rows = frozenset(each.row for each in updates)
    if len(updates) < _MIN_UPDATES or any(abs(each.kept + each.taken - 1) > _ROUNDING for each in updates):
        return None
    steps = case.histories.steps
    filled = [
        row
        for row in flow.changes(updates[0].target, steps[0], last.row)
        if plain_name(flow.log.calls[row].function) in _FILL and row not in rows
    ]
    start = max(filled, default=0)
    kept = [each.kept for each in updates if each.row > start]
    is_early = sum(row < start for row in steps) <= _FIRST_STEPS
    is_at_start = sum(row < updates[0].row for row in steps) <= max(_FIRST_STEPS, len(steps) // len(updates))
    if len(kept) < _MIN_UPDATES or not is_early or not is_at_start or not _is_random(case, updates[0]):
        return None
    unread = _unread_updates(case, updates)
    if unread > _FIRST_STEPS and (max(kept) - min(kept) > _ROUNDING * (1 - last.kept) or last.is_new):
        return None
    end = max((row for row in flow.changes(last.target, last.row, len(flow.log.calls)) if row < steps[-1]), default=-1)
    return _Average(
        last.source, last.target, max(last.row, end), len(kept) + unread, last.kept, prod(kept) * last.kept**unread
    )


def _unread_updates(case: Case, updates: list[Update]) -> int:
    """How many updates may have followed the last known one: of a long program, not every call is recorded that
    computes new values without gradients."""
    own = case.histories.steps_by_optimizer
    steps = [row for each in case.histories.optimizers_of(updates[0].source) for row in own.get(each, [])]
    between = sum(updates[0].row < row < updates[-1].row for row in steps)
    behind = sum(row > updates[-1].row for row in steps)
    return behind * (len(updates) - 1) // between if between else behind


_FILL = frozenset({"copy", "set", "fill", "zero"})
_DRAWS = ("uniform", "normal", "rand", "orthogonal")


def _is_random(case: Case, first: Update) -> bool:
    """Whether an average has random values before its first update: its own, or those of a parameter that was drawn
    and not loaded."""
    flow, start = case.dataflow, case.histories.steps[0]
    drawn = _last_filled(case, first.source)
    if not any(part in drawn for part in _DRAWS):
        return False
    own = {first.source, *flow.sharing_memory(first.source)}
    rows = {*flow.changes(first.target, -1, start)}
    for each in (first.target, *flow.sharing_memory(first.target)):
        rows.update(row for row in flow.ancestors(each, first.row + 1) if row < start)
    for row in rows:
        call = flow.log.calls[row]
        name = plain_name(call.function)
        is_drawn = any(part in name for part in _DRAWS)
        is_copied = any(use.tensor in own for use in call.inputs)
        if is_drawn or (is_copied and not name.endswith("_like")):
            return True
    return False


def _last_filled(case: Case, parameter: int) -> str:
    """What wrote a parameter as a whole before the first step."""
    flow = case.dataflow
    rows = {*flow.changes(parameter, -1, case.histories.steps[0])}
    for each in flow.sharing_memory(parameter):
        rows.update(row for row in flow.ancestors(each, case.histories.steps[0]))
    names = [plain_name(flow.log.calls[row].function) for row in sorted(rows)]
    written = [name for name in names if name in _FILL or any(part in name for part in _DRAWS)]
    return written[-1] if written else ""


def _scored_at(case: Case, average: _Average) -> int | None:
    """Where a layer computes with an average behind its last update, if no loss is computed with it."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    uses = [row for row in flow.users(average.target) if _is_layer(case, row)]
    if any(calls[row].grad_mode == "enabled" and calls[row].live_inputs for row in uses):
        return None
    early = [row for row in uses if row < case.histories.steps[-1]]
    if any(is_for_a_loss(case, row) for row in (*early[:_CHECKED], *early[-_CHECKED:])):
        return None
    behind = [row for row in uses if row > average.last]
    if behind:
        return behind[0]
    # It may be copied onto the trained parameter first.
    for row in flow.users(average.target, average.last):
        call = calls[row]
        if plain_name(call.function) in ("copy", "set") and _writes(case, row, average.source):
            return next((each for each in flow.users(average.source, row) if _is_layer(case, each)), None)
    return None


_CHECKED = 3


def _writes(case: Case, row: int, parameter: int) -> bool:
    own = case.dataflow.sharing_memory(parameter)
    call = case.dataflow.log.calls[row]
    return any(use.tensor in own for use in (*call.changed, *call.inputs[:1]))


def _is_layer(case: Case, row: int) -> bool:
    return plain_name(case.dataflow.log.calls[row].function) in DENSE_LAYERS


def _is_scored_itself(case: Case, average: _Average) -> bool:
    """Whether the trained parameter computes something behind the last step before it is overwritten."""
    flow, last = case.dataflow, case.histories.steps[-1]
    rows = [row for row in flow.users(average.source, last) if _is_layer(case, row)]
    changed = flow.changes(average.source, last, len(flow.log.calls))
    return any(row < min(changed, default=row + 1) for row in rows)
