"""GV723."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.numbers_of_batches import what_it_is_made_of
from gradviz.analysis.rules.bases.sources.rates.schedule_lines import places_of_schedule
from gradviz.analysis.rules.bases.sources.source_tree import SourceTree
from gradviz.graph.call_log import LoggedOptimizer


class WarmupNeverEnds(Rule):
    """A learning rate is still in its warm-up when the script ends: its schedule is stepped once in many steps.

    What it finds
    -------------
    A learning rate that only rises, changes at fewer than one step in five, and ends below a quarter of the rate that
    the optimizer was made with: a schedule whose figures count steps, but that is stepped once for each epoch, also one
    that the program computes itself from the same rate and writes into the groups. A script that was stopped early, and
    a schedule that is stepped at every step, are left alone.

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
            by_hand = _chosen_by_hand(case, optimizer) if rates is None else None
            if rates is not None:
                yield self._finding(case, number, rates, places_of_schedule(case, number))
            elif by_hand is not None:
                rates = _first_last_and_chosen(optimizer, by_hand.rate)
                if rates is not None:
                    yield self._finding(case, number, rates, {"location": by_hand.location})

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


class _ByHand(Struct, frozen=True):
    """A learning rate that a program writes itself, as a part of the one that it made the optimizer with."""

    rate: float
    location: Location


def _chosen_by_hand(case: Case, optimizer: LoggedOptimizer) -> _ByHand | None:
    """The rate of an optimizer that its program multiplies with something before the first step, and the only line that
    writes a rate."""
    given = next(iter(optimizer.made_rates), None)
    for file, tree in own_files(case) if given else ():
        written = [
            (target, value)
            for target, value in tree.assignments
            if isinstance(target, ast.Subscript) and getattr(target.slice, "value", None) == "lr"
        ]
        if len(written) == 1 and given in _numbers(tree, written[0][1]):
            return _ByHand(float(given or 0), Location(file, written[0][0].lineno))
    return None


def _numbers(tree: SourceTree, value: ast.expr) -> set[object]:
    """The numbers in a value, and in those of the variables and functions in it; without 1, where ramps end."""
    parts = what_it_is_made_of(tree, value)
    return set[object](node.value for part in parts for node in ast.walk(part) if isinstance(node, ast.Constant)) - {1}


def _first_last_and_chosen(optimizer: LoggedOptimizer, given: float | None = None) -> tuple[float, float, float] | None:
    """The learning rates of the first group, if they only rose, seldom, and not far."""
    first, last = optimizer.first_rate, next(iter(optimizer.learning_rates), None)
    chosen = given or next(iter(optimizer.highest_rates), None)
    if first is None or last is None or chosen is None or optimizer.rate_turns:
        return None
    is_seldom = _MIN_CHANGES <= optimizer.rate_changes <= optimizer.steps / _STEPS_OF_EACH_CHANGE
    return (first, last, chosen) if is_seldom and first < last <= _SMALL_PART * chosen else None
