"""GV723."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.numbers_of_batches import what_it_is_made_of
from gradviz.analysis.rules.bases.sources.rates.schedule_lines import places_of_schedule
from gradviz.analysis.sources.source_tree import SourceTree
from gradviz.graph.call_log import LoggedOptimizer


class WarmupNeverEnds(Rule):
    """A learning rate is still in its warm-up when the script ends: its schedule is stepped once in many steps.

    What it finds
    -------------
    A learning rate that only rises, changes at fewer than one step in five, and ends below a quarter of the rate that
    the optimizer was made with, or below half of it, if the program says that its warm-up counts steps
    (``warmup_steps``): a schedule whose figures count steps, but that is stepped once for each epoch, also one that the
    program computes itself from the same rate and writes into the groups. A script that was stopped early, and a
    schedule that is stepped at every step, are left alone.

    Why it matters
    --------------
    The model is trained with a small part of the learning rate that was chosen, and the decay behind the warm-up never
    comes.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    for epoch in range(4):
        for batch in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        schedule.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    for epoch in range(4):
        for batch in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            schedule.step()
    """

    code = "GV723"
    name = "warmup_never_ends"
    severity = "warning"
    yields_to = ("schedule_counts_batches",)

    def check(self, case: Case) -> Iterator[Finding]:
        if case.capture.outcome != "finished":
            return
        for number, optimizer in enumerate(case.dataflow.log.optimizers):
            rates = _first_last_and_chosen(optimizer)
            if rates is None:
                continue
            by_hand = _line_by_hand(case, optimizer)
            if _is_far_below(optimizer) or _counts_steps(case, number):
                yield self._finding(case, number, rates, places_of_schedule(case, number))
            elif by_hand is not None and rates[1] <= _SMALL_PART * rates[2]:
                yield self._finding(case, number, rates, {"location": by_hand})

    def _finding(
        self, case: Case, number: int, rates: tuple[float, float, float], places: dict[str, Location | None]
    ) -> Finding:
        first, last, chosen = rates
        optimizer = case.dataflow.log.optimizers[number]
        name = optimizer_words(optimizer)
        return self.finding(
            f"the learning rate of {name} rises from {first:.3g} to {last:.3g}, and never comes near {chosen:.3g}: it "
            f"changes {optimizer.rate_changes:,} times in {optimizer.steps:,} steps",
            symptom="grad_wrong",
            why="the warm-up counts steps, and the schedule seems to be stepped once for each epoch",
            fix="step the schedule behind each optimizer.step(), or let its figures count epochs",
            evidence={"steps": optimizer.steps, "changes": optimizer.rate_changes, "part": round(last / chosen, 3)},
            **places,
        )


_MIN_CHANGES = 2
_STEPS_OF_EACH_CHANGE = 5
_SMALL_PART = 0.25
_LARGEST_PART = 0.5
_WARM_UP_IN_STEPS = re.compile(
    r"warm\w*_?(steps?|iter\w*|batch\w*)\b|\b(steps?|iter\w*|batch\w*)_?\w*warm", re.IGNORECASE
)


def _line_by_hand(case: Case, optimizer: LoggedOptimizer) -> Location | None:
    """The only line that writes a rate, if the program computes it from the one that it made the optimizer with."""
    given = next(iter(optimizer.made_rates), None)
    for file, tree in own_files(case) if given else ():
        written = [
            (target, value)
            for target, value in tree.assignments
            if isinstance(target, ast.Subscript) and getattr(target.slice, "value", None) == "lr"
        ]
        if len(written) == 1 and given in _numbers(tree, written[0][1]):
            return Location(file, written[0][0].lineno)
    return None


def _numbers(tree: SourceTree, value: ast.expr) -> set[object]:
    """The numbers in a value, and in those of the variables and functions in it; without 1, where ramps end."""
    parts = what_it_is_made_of(tree, value)
    return set[object](node.value for part in parts for node in ast.walk(part) if isinstance(node, ast.Constant)) - {1}


def _first_last_and_chosen(optimizer: LoggedOptimizer) -> tuple[float, float, float] | None:
    """The learning rates of the first group, if they only rose, seldom, and not far."""
    first, last = optimizer.first_rate, next(iter(optimizer.learning_rates), None)
    chosen = _chosen(optimizer)
    if first is None or last is None or chosen is None or optimizer.rate_turns:
        return None
    is_seldom = _MIN_CHANGES <= optimizer.rate_changes <= optimizer.steps / _STEPS_OF_EACH_CHANGE
    return (first, last, chosen) if is_seldom and first < last < _LARGEST_PART * chosen else None


def _is_far_below(optimizer: LoggedOptimizer) -> bool:
    """Whether the last rate is a small part of what a schedule began with; a rate that a program writes over says
    less."""
    highest = next(iter(optimizer.highest_rates), None) or 0.0
    return (optimizer.learning_rates[0] or 0.0) <= _SMALL_PART * highest


def _counts_steps(case: Case, number: int) -> bool:
    """Whether a program has a name for the steps of its warm-up, and makes more of them than the warm-up has."""
    optimizer, sources = case.dataflow.log.optimizers[number], case.capture.sources
    steps = case.histories.steps_by_optimizer.get(number, [])
    place = location_of_call(case.dataflow, steps[-1]) if steps else None
    chosen, first = _chosen(optimizer), optimizer.first_rate
    is_long = chosen is not None and bool(first) and chosen / first <= optimizer.steps  # type: ignore[operator]
    lines = {} if place is None else sources.get(place.file, {})
    return is_long and any(_WARM_UP_IN_STEPS.search(text) for text in lines.values())


def _chosen(optimizer: LoggedOptimizer) -> float | None:
    """The rate of the first group before a schedule, or that with which the optimizer was made: the larger one."""
    known = (next(iter(optimizer.highest_rates), None), next(iter(optimizer.made_rates), None))
    return max((each for each in known if each is not None), default=None)
