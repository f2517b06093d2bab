"""GV736."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, callers, function_of
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.kept_best import Better, better_than_best
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.better_by_origin import MAX_ROWS, better_by_hand, better_by_origin
from gradviz.analysis.rules.bases.sources.rates.better_words import better_by_line, better_by_words, is_turned_round
from gradviz.analysis.rules.bases.sources.rates.plateaus_by_hand import Plateau, plateaus_by_hand
from gradviz.analysis.rules.bases.sources.rates.summed_readings import added_to_readings
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.modules_and_schedules import Schedule


class PlateauOfWrongSide(Rule):
    """A schedule waits for a number to fall that should rise, or the other way.

    What it finds
    -------------
    ``ReduceLROnPlateau`` with ``mode="min"``, the default, that is told an accuracy; and with ``mode="max"`` that is
    told a loss; and lines of the program that do the same by hand, ``if accuracy < best``, and lower ``group["lr"]``
    otherwise. What the number is, shows in what it was computed from: a mean of comparisons with the largest score, or
    a loss function of torch. Where that cannot be followed, it shows in the names on the line that tells it, such as
    ``val_acc``, in that of the function that computed it, such as ``ndcg``, or in how the program keeps the best one:
    ``if score > best``. Numbers of which nothing tells it, and numbers that are subtracted from something, are left
    alone.

    Why it matters
    --------------
    The schedule takes every improvement for a setback: the learning rate falls again and again while the model gets
    better, until nothing is learned any more.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    for epoch in range(4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            accuracy = (model(x).argmax(1) == y).float().mean().item()
        schedule.step(accuracy)

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=1)
    for epoch in range(4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            accuracy = (model(x).argmax(1) == y).float().mean().item()
        schedule.step(accuracy)
    """

    code = "GV736"
    name = "plateau_of_wrong_side"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for schedule in case.dataflow.log.schedules:
            if schedule.mode is None or len(schedule.readings) < _MIN_READINGS:
                continue
            better = _better(case, schedule)
            if better is not None and better != schedule.mode:
                yield self._finding(case, schedule, better)

        for file, tree in own_files(case) if case.histories.steps else ():
            ran = LinesThatRan(case.dataflow, file)
            for plateau in plateaus_by_hand(tree):
                better = better_by_hand(case, ran, plateau)
                if better is not None and better != plateau.better:
                    yield self._by_hand(Location(file, plateau.line), plateau, better)

    def _by_hand(self, location: Location, plateau: Plateau, better: Better) -> Finding:
        what = "an accuracy or another number that should rise" if better == "max" else "a loss"
        wrong, right = ("smaller", "larger") if better == "max" else ("larger", "smaller")
        return self.finding(
            f"{plateau.name} is {what}, and this line takes a {wrong} one for the best: the learning rate is lowered "
            "while the model gets better",
            symptom="grad_wrong",
            why="improvements count as setbacks, and each of them brings the next cut of the learning rate nearer",
            fix=f"take a {right} one for better, and begin with the worst number of that side",
            location=location,
        )

    def _finding(self, case: Case, schedule: Schedule, better: Better) -> Finding:
        made = case.location_of_site(schedule.call_site)
        told = case.location_of_site(schedule.readings[0][0])
        what = "an accuracy or another number that should rise" if better == "max" else "a loss"
        numbers = [number for _, number in schedule.readings]
        return self.finding(
            f'{schedule.class_name} with mode="{schedule.mode}" is told {what}{at_line(told)}: '
            f"{numbers[0]:.3g} at first, {numbers[-1]:.3g} at last",
            symptom="grad_wrong",
            why="it takes improvements for setbacks, and lowers the learning rate while the model gets better",
            fix=f'write mode="{better}"',
            location=made,
            symptom_location=told if told != made else None,
            evidence={"times_told": len(numbers)},
        )


def _better(case: Case, schedule: Schedule) -> Better | None:
    """What is better, as the first of these tells."""
    rows = _rows_of_readings(case, schedule)
    return (
        better_by_origin(case, rows)
        or _better_by_names(case, schedule)
        or _better_by_function(case, schedule, rows)
        or _better_than_best(case, schedule)
    )


_MIN_READINGS = 2


# -- what the numbers were computed from -------------------------------------------------------------------------------


def _rows_of_readings(case: Case, schedule: Schedule) -> list[int]:
    """The calls that returned the numbers; none if most of them are results of no call."""
    wanted = {number for _, number in schedule.readings}
    rows: dict[float, list[int]] = {}
    for row, call in enumerate(case.dataflow.log.calls):
        if type(call.result) is float and call.result in wanted and call.inputs:
            rows.setdefault(call.result, []).append(row)
    return [row for each in rows.values() for row in each[-MAX_ROWS:]] if 2 * len(rows) > len(wanted) else []


# -- what the program calls them ---------------------------------------------------------------------------------------


def _better_by_names(case: Case, schedule: Schedule) -> Better | None:
    """What is better, as the names on the lines that tell the numbers say."""
    sites = {site for site, _ in schedule.readings}
    if any(number < 0 for _, number in schedule.readings):
        return None  # It may be turned around.
    found = {better_by_line(case.source_line(case.location_of_site(site)) or "") for site in sites}
    if found == {None}:
        found = {
            better_by_words(each) for site in sites for each in _added_to_told(case, site) if not is_turned_round(each)
        } - {None}
    return next(iter(found)) if len(found) == 1 else None


def _added_to_told(case: Case, site: int | None) -> Iterator[str]:
    told = case.location_of_site(site)
    lines = {} if told is None else case.capture.sources.get(told.file, {})
    yield from added_to_readings(tree_of(lines), told.line) if told is not None and lines else ()


def _better_by_function(case: Case, schedule: Schedule, rows: list[int]) -> Better | None:
    """What is better, as the functions are called that computed the numbers: ``ndcg(scores, relevances)``."""
    if any(number < 0 for _, number in schedule.readings):
        return None
    functions = {_function(case.dataflow, row) for row in rows}
    found = {better_by_words(each) for each in functions}
    return next(iter(found)) if len(found) == 1 else None


def _function(flow: Dataflow, row: int) -> str:
    """The function that computed the number which a call reads: the one around this call, or around that which made
    the tensor, if another function reads it."""
    made = flow.newest_producer(flow.log.calls[row].inputs[0].tensor, row)
    line = next(callers(flow, row if made is None else made), None)
    return "" if line is None else function_of(line).rpartition(".")[2]


def _better_than_best(case: Case, schedule: Schedule) -> Better | None:
    """What is better, as the lines say that keep the best of these numbers."""
    told = {case.location_of_site(site) for site, _ in schedule.readings}
    found = {better_than_best(case.capture.sources.get(each.file, {}), each.line) for each in told if each is not None}
    return next(iter(found)) if len(found) == 1 else None
