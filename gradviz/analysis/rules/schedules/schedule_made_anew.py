"""GV888."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.modules_and_schedules import Schedule


class ScheduleMadeAnew(Rule):
    """A schedule of learning rates is made again and again for one optimizer, so it never gets beyond its beginning.

    What it finds
    -------------
    Three or more schedules of one kind that one line makes for one optimizer, each of which is stepped once at most. An
    ``ExponentialLR`` is left alone: its first step is like all others.

    Why it matters
    --------------
    A schedule counts its own steps from 0. One that is made at the start of each epoch never reaches its second step,
    its milestones, or its end, and the learning rate stays what it is at the beginning.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)
        for batch in range(2):
            loss = (model(torch.randn(8, 4)) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)
    for epoch in range(4):
        for batch in range(2):
            loss = (model(torch.randn(8, 4)) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    """

    code = "GV888"
    name = "schedule_made_anew"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        log = case.dataflow.log
        made: dict[tuple[int, int | None, str], list[Schedule]] = defaultdict(list)
        for schedule in log.schedules:
            made[schedule.optimizer, schedule.call_site, schedule.class_name].append(schedule)
        for (number, site, kind), schedules in made.items():
            used = [each for each in schedules if each.optimizer_steps or each.has_moved]
            if len(used) < _MIN_TIMES or kind in _ALIKE_AT_ALL_STEPS or any((each.moves or 0) > 1 for each in used):
                continue
            if all(each.length == 1 for each in used):
                continue  # One step is all that each of them was made for.
            optimizer = log.optimizers[number]
            if optimizer.rate_changes and kind in _WAIT:
                continue
            name = optimizer_words(optimizer)
            rate = f": the learning rate is {optimizer.first_rate or 0:.3g} in all {optimizer.steps:,} steps"
            yield self.finding(
                f"{kind} of {name} is made {len(schedules):,} times, and none of them gets beyond its first step"
                + ("" if optimizer.rate_changes else rate),
                symptom="grad_wrong",
                why="a schedule counts its own steps, and a new one begins at 0",
                fix="make it once, before the loop, and call its step() there",
                location=case.location_of_site(site),
                evidence={"schedules": len(schedules), "steps": optimizer.steps},
            )


_MIN_TIMES = 3
_WAIT = frozenset({"StepLR", "MultiStepLR", "ReduceLROnPlateau"})
"""They change nothing at their first step: where the learning rate does change, the program sets it."""
_ALIKE_AT_ALL_STEPS = frozenset({"ExponentialLR", "MultiplicativeLR", "ConstantLR"})
