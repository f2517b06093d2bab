"""GV942."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.rates.loaded_states import line_that_loads
from gradviz.analysis.rules.bases.sources.rates.schedule_lines import WRITES_A_RATE
from gradviz.graph.call_log import LoggedOptimizer
from gradviz.graph.modules_and_schedules import Schedule


class ScheduleNotResumed(Rule):
    """A training goes on from a saved state of its optimizer, and its schedule begins anew.

    What it finds
    -------------
    An optimizer that loads a state, so that its first step uses the learning rate of that state and not the one that
    its schedule began with, where that schedule counts its steps from 0. A schedule that is made after the loading, and
    begins with the rate that it finds, is left alone.

    Why it matters
    --------------
    The state of an optimizer holds the learning rate, but the schedule keeps its own count. From its next step on, it
    sets the rates of the beginning once more: a second warm-up, or a decay that ends too late.

    Example
    -------
    def build():
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 10)

    def train(model, optimizer, schedule, steps):
        for step in range(steps):
            loss = (model(torch.randn(8, 4)) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    model, optimizer, schedule = build()
    train(model, optimizer, schedule, 6)
    saved = [each.state_dict() for each in (model, optimizer, schedule)]
    model, optimizer, schedule = build()
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    train(model, optimizer, schedule, 4)

    Instead
    -------
    def build():
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 10)

    def train(model, optimizer, schedule, steps):
        for step in range(steps):
            loss = (model(torch.randn(8, 4)) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    model, optimizer, schedule = build()
    train(model, optimizer, schedule, 6)
    saved = [each.state_dict() for each in (model, optimizer, schedule)]
    model, optimizer, schedule = build()
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    schedule.load_state_dict(saved[2])
    train(model, optimizer, schedule, 4)
    """

    code = "GV942"
    name = "schedule_not_resumed"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        log = case.dataflow.log
        # Of schedules in a row, those that come later wait at 0.
        of_optimizers = Counter(schedule.optimizer for schedule in log.schedules)
        for schedule in log.schedules:
            optimizer = log.optimizers[schedule.optimizer]
            if of_optimizers[schedule.optimizer] > 1 or not _begins_anew(schedule, optimizer):
                continue
            location = line_that_loads(case, schedule.optimizer, optimizer)
            if location is not None and not _sets_rates_itself(case):
                yield self._finding(case, schedule, optimizer, location)

    def _finding(self, case: Case, schedule: Schedule, optimizer: LoggedOptimizer, location: Location) -> Finding:
        rate, began = optimizer.first_rate, schedule.first_rate
        return self.finding(
            f"the state that {optimizer_words(optimizer)} loads brings a learning rate of {rate:.3g}, but its "
            f"{schedule.class_name} counts from 0, where it began with {began:.3g}: from its next step on, it sets the "
            "rates of the beginning once more",
            symptom="grad_wrong",
            why="a schedule keeps its own count of steps, which the state of the optimizer does not hold",
            fix="save the state of the schedule as well, and load it here: "
            'scheduler.load_state_dict(checkpoint["scheduler"])',
            location=location,
            symptom_location=case.location_of_site(schedule.call_site),
            evidence={"rate": rate, "began": began},
        )


_MIN_MOVES = 2
_SAME = 0.01


def _begins_anew(schedule: Schedule, optimizer: LoggedOptimizer) -> bool:
    """Whether a schedule begins at 0 beside an optimizer whose first step used a rate from elsewhere."""
    rate, began = optimizer.first_rate, schedule.first_rate
    if rate is None or began is None or schedule.first_count != 0 or (schedule.moves or 0) < _MIN_MOVES:
        return False
    is_first = schedule.optimizer_steps == optimizer.steps  # It was there before the first step.
    return is_first and abs(rate - began) > _SAME * max(rate, began)


def _sets_rates_itself(case: Case) -> bool:
    """Whether some line of the program sets a learning rate, so that the first one may come from there."""
    return any(WRITES_A_RATE.search(text) for lines in case.capture.sources.values() for text in lines.values())
