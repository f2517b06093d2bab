"""GV763."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.rates_by_hand import lines_that_scale_rates
from gradviz.graph.modules_and_schedules import Schedule


class ChangedRateLost(Rule):
    """A line or a second schedule changes the learning rate, and the schedule puts its own back at its next step.

    What it finds
    -------------
    A schedule that computes the learning rate from the one that it began with (``LambdaLR``, ``OneCycleLR``), whose
    optimizer made a step with another rate, and its next step with that of the schedule again, in programs that
    multiply ``group["lr"]`` by a number, or that have a second schedule, such as ``ReduceLROnPlateau``. Schedules that
    go on from the rate that they find (``StepLR``, ``ExponentialLR``) are left alone, as is a line that scales the rate
    again after each step of the schedule, as a warm-up by hand does.

    Why it matters
    --------------
    Most schedules multiply the rate of before, so that what was changed by hand stays. These do not read it: a rate
    that was halved because the loss no longer fell lasts until the next ``step()`` of the schedule, and nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
    for step in range(12):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        warmup.step()
        if step == 7:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
    for step in range(12):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        warmup.step()
        if step == 7:
            warmup.base_lrs = [0.5 * rate for rate in warmup.base_lrs]
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
    """

    code = "GV763"
    name = "changed_rate_lost"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for schedule in case.dataflow.log.schedules:
            if schedule.replaced is None or schedule.class_name not in _FROM_THE_FIRST_RATE:
                continue
            others = [
                each
                for each in case.dataflow.log.schedules
                if each.optimizer == schedule.optimizer and each is not schedule and each.has_moved
            ]
            made = [case.location_of_site(each.call_site) for each in others]
            location = next((each for each in made if each is not None), None)
            if location is None and schedule.replaced_after < _MANY_MOVES:
                location = _line_that_scales(case)
            if location is not None:
                yield self._finding(case, schedule, location, others[0].class_name if others else None)

    def _finding(self, case: Case, schedule: Schedule, location: Location, other: str | None) -> Finding:
        rate, back = schedule.replaced or (0.0, 0.0)
        made = case.location_of_site(schedule.call_site)
        name = optimizer_words(case.dataflow.log.optimizers[schedule.optimizer])
        changes = "this line changes" if other is None else f"this {other} changes"
        return self.finding(
            f"{changes} the learning rate of {name} to {rate:.3g}, and the next step() of {schedule.class_name}"
            f"{at_line(made)} makes it {back:.3g} again",
            symptom="grad_wrong",
            why=f"{schedule.class_name} computes the rate from the one that it began with, and does not read the "
            "current one",
            fix="change the rates that it begins with as well: schedule.base_lrs = [0.5 * rate for rate in "
            "schedule.base_lrs]; or let one schedule compute both factors"
            if other is None
            else f"step {schedule.class_name} only until its part, such as a warm-up, is over, and {other} only then",
            location=location,
            symptom_location=made,
            evidence={"set_to": rate, "replaced_by": back},
        )


_FROM_THE_FIRST_RATE = frozenset({"LambdaLR", "OneCycleLR", "CyclicLR", "CosineAnnealingWarmRestarts"})
"""As torch computes their learning rates; the others multiply the current one."""
_MANY_MOVES = 3
"""A line that scales the rate again after so many moves in a row, as a warm-up by hand does, means it."""


def _line_that_scales(case: Case) -> Location | None:
    """The first line that computes a learning rate from the current one."""
    found = (Location(file, line) for file, tree in own_files(case) for line in lines_that_scale_rates(tree))
    return next(found, None)
