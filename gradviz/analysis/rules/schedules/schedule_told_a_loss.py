"""GV878."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.rates.schedule_lines import line_that_steps_this


class ScheduleToldALoss(Rule):
    """A schedule that counts epochs is told a loss, and takes it for the number of the epoch.

    What it finds
    -------------
    ``schedule.step(value)`` with values that are no whole numbers and that also fall, for a schedule other than
    ``ReduceLROnPlateau``.

    Why it matters
    --------------
    What ``step()`` of these schedules is given is the number of the epoch. A loss of 0.7 is taken for the beginning of
    the training, each time: the learning rate hardly ever changes, or goes up and down with the loss.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for epoch in range(6):
        optimizer.zero_grad()
        loss = (model(torch.ones(8, 4)) - 1).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step(loss.item())

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for epoch in range(6):
        optimizer.zero_grad()
        loss = (model(torch.ones(8, 4)) - 1).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
    """

    code = "GV878"
    name = "schedule_told_a_loss"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for schedule in case.dataflow.log.schedules:
            told = schedule.fractions
            if schedule.mode is not None or not any(later < earlier for earlier, later in pairwise(told)):
                continue
            made = case.location_of_site(schedule.call_site)
            stepped = None if made is None else line_that_steps_this(case, made)
            yield self.finding(
                f"{schedule.class_name}.step() is told {', '.join(f'{each:.3g}' for each in told[:_SHOWN])}, and takes "
                "each for the number of the epoch",
                symptom="grad_wrong",
                why="only ReduceLROnPlateau looks at a loss; other schedules count their steps themselves",
                fix="call step() without a number; or use ReduceLROnPlateau, if the loss should decide",
                location=stepped or made,
                symptom_location=made if stepped is not None and made != stepped else None,
            )


_SHOWN = 3
