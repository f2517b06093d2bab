"""GV779."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.rates.loaded_states import line_that_loads
from gradviz.graph.call_log import LoggedOptimizer


class RateOfLoadedState(Rule):
    """The state that an optimizer loads replaces the learning rate that it was made with.

    What it finds
    -------------
    An optimizer that is made with one learning rate, loads the state of another optimizer of the same program that was
    made with another rate, and makes all its steps with that rate. Left alone are optimizers whose rate is set after
    the loading, or by a schedule, and those that go on with a rate that a schedule had brought down.

    Why it matters
    --------------
    ``state_dict()`` holds the groups with all their settings, and ``load_state_dict()`` puts these in the place of what
    the constructor was given: a fine-tuning with ``lr=1e-4`` makes steps of ``1e-2``. Nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    first = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(3):
        first.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        first.step()
    second = torch.optim.Adam(model.parameters(), lr=0.0001)
    second.load_state_dict(first.state_dict())
    for step in range(3):
        second.zero_grad()
        (model(torch.randn(8, 4)) - 1).square().mean().backward()
        second.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    first = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(3):
        first.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        first.step()
    second = torch.optim.Adam(model.parameters(), lr=0.0001)
    second.load_state_dict(first.state_dict())
    for group in second.param_groups:
        group["lr"] = 0.0001
    for step in range(3):
        second.zero_grad()
        (model(torch.randn(8, 4)) - 1).square().mean().backward()
        second.step()
    """

    code = "GV779"
    name = "rate_of_loaded_state"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        log = case.dataflow.log
        scheduled = {schedule.optimizer for schedule in log.schedules}
        for number, optimizer in enumerate(log.optimizers):
            made = _only(optimizer.made_rates)
            if made is None or number in scheduled or optimizer.rate_changes or optimizer.first_rate in (None, made):
                continue
            earlier = (each for each in log.optimizers[:number] if _is_source(each, optimizer, made))
            source = next(earlier, None)
            location = None if source is None else line_that_loads(case, number, optimizer)
            if source is not None and location is not None:
                yield self._finding(case, number, source, location)

    def _finding(self, case: Case, number: int, source: LoggedOptimizer, location: Location) -> Finding:
        optimizer = case.dataflow.log.optimizers[number]
        made = [location_of_call(case.dataflow, row) for row in case.histories.given_at(number)][:1]
        rate, used = _only(optimizer.made_rates), optimizer.first_rate
        return self.finding(
            f"{optimizer_words(optimizer)} is made with a learning rate of {rate:.3g} and makes all its "
            f"{optimizer.steps:,} steps with {used:.3g}: the state that it loads brings the rate of "
            f"{optimizer_words(source)}",
            symptom="grad_wrong",
            why="load_state_dict() replaces the groups with their settings, not only momentum and averages",
            fix='set the rate after the loading: for group in optimizer.param_groups: group["lr"] = rate',
            location=location,
            symptom_location=made[0] if made else None,
            evidence={"made_with": rate, "used": used},
        )


def _only(rates: tuple[float | None, ...]) -> float | None:
    return rates[0] if rates and len(set(rates)) == 1 else None


def _is_source(other: LoggedOptimizer, optimizer: LoggedOptimizer, made: float) -> bool:
    """Whether another optimizer was made with the rate that this one uses, and kept it to its end."""
    used = optimizer.first_rate
    is_alike = other.class_name == optimizer.class_name and other.steps > 0
    return is_alike and _only(other.made_rates) == used == _only(other.learning_rates) and used != made
