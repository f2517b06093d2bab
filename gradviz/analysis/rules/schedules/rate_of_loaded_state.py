"""GV779."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.source_tree import last_name
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
            location = None if source is None else _line_that_loads(case, number, optimizer)
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


def _line_that_loads(case: Case, number: int, optimizer: LoggedOptimizer) -> Location | None:
    """The first line behind the one that makes an optimizer, in its file, that loads a state into its variable."""
    names = {name.rpartition(".")[2] for name in optimizer.names}
    made = next((location_of_call(case.dataflow, row) for row in case.histories.given_at(number)), None)
    found = list[Location]()
    for file, tree in own_files(case):
        if made is not None and made.file == file:
            names |= {last_name(target) for target, value in tree.assignments if _is_at(value, made.line)}
        calls = (node for node in tree.nodes if isinstance(node, ast.Call))
        found += [Location(file, node.lineno) for node in calls if _loads_into(node, names)]
    behind = [each for each in found if made is None or each.file != made.file or each.line > made.line]
    return min(behind or found, key=lambda each: each.line, default=None)


def _is_at(value: ast.expr, line: int) -> bool:
    return value.lineno <= line <= (value.end_lineno or value.lineno)


def _loads_into(call: ast.Call, names: set[str]) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "load_state_dict"
        and last_name(function.value) in names
    )
