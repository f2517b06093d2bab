"""GV721."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.rates.schedule_lines import lines_that_write_rates
from gradviz.graph.call_log import LoggedOptimizer


class RatesMadeEqual(Rule):
    """The groups of an optimizer get learning rates of their own, and a schedule gives all of them the same one.

    What it finds
    -------------
    An optimizer whose groups were added with different learning rates other than 0, and that have one and the same rate
    at half of its steps or more: ``OneCycleLR`` or ``CyclicLR`` with one number for all groups, and a line that writes
    one rate into each group.

    Why it matters
    --------------
    A pretrained part that should move slowly moves as fast as the new head, and loses what it knows.

    Example
    -------
    body, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    groups = [dict(params=body.parameters(), lr=0.001), dict(params=head.parameters(), lr=0.1)]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=6)
    for step in range(6):
        optimizer.zero_grad()
        head(torch.relu(body(torch.randn(8, 4)))).square().mean().backward()
        optimizer.step()
        schedule.step()

    Instead
    -------
    body, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    groups = [dict(params=body.parameters(), lr=0.001), dict(params=head.parameters(), lr=0.1)]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[0.001, 0.1], total_steps=6)
    for step in range(6):
        optimizer.zero_grad()
        head(torch.relu(body(torch.randn(8, 4)))).square().mean().backward()
        optimizer.step()
        schedule.step()
    """

    code = "GV721"
    name = "rates_made_equal"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for number, optimizer in enumerate(case.dataflow.log.optimizers):
            if optimizer.levelled_steps >= max(_MIN_STEPS, optimizer.steps / 2):
                yield self._finding(case, number, optimizer)

    def _finding(self, case: Case, number: int, optimizer: LoggedOptimizer) -> Finding:
        schedule, place = _what_sets_them(case, number)
        rates = sorted({rate for rate in optimizer.made_rates if rate})
        one_for_each = ", ".join("?" if rate is None else f"{rate:.3g}" for rate in optimizer.made_rates[:_MAX_RATES])
        more = ", ..." if len(optimizer.made_rates) > _MAX_RATES else ""
        at_steps = f"{optimizer.levelled_steps:,} of {optimizer.steps:,} steps"
        return self.finding(
            f"the groups of {optimizer_words(optimizer)} were added with learning rates from {rates[0]:.3g} to "
            f"{rates[-1]:.3g}, and all have the same one at {at_steps}",
            symptom="grad_wrong",
            why="one number for all groups replaces the rate of each of them",
            fix=f"give {schedule} one number for each group: max_lr=[{one_for_each}{more}]"
            if schedule
            else 'keep the rate of each group before the loop, group["initial_lr"] = group["lr"], and write '
            'group["lr"] = factor * group["initial_lr"]',
            location=place,
            evidence={"steps": optimizer.levelled_steps},
        )


_MIN_STEPS = 3
_MAX_RATES = 4
_WITH_A_RATE_FOR_EACH = ("OneCycleLR", "CyclicLR")


def _what_sets_them(case: Case, optimizer: int) -> tuple[str, Location | None]:
    """The class of the schedule, "" if it is none, and the line that makes it, writes the rates, or uses them."""
    for schedule in case.dataflow.log.schedules:
        if schedule.optimizer == optimizer and schedule.class_name in _WITH_A_RATE_FOR_EACH:
            return schedule.class_name, case.location_of_site(schedule.call_site)
    steps = case.histories.steps_by_optimizer.get(optimizer, [])
    step = location_of_call(case.dataflow, steps[-1]) if steps else None
    return "", next(iter(lines_that_write_rates(case, step)), step)
