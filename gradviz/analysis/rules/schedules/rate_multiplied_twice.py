"""GV730."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.modules_and_schedules import Schedule


class RateMultipliedTwice(Rule):
    """A schedule of factors gets the learning rate itself, and multiplies the learning rate by it.

    What it finds
    -------------
    ``LambdaLR`` or ``MultiplicativeLR`` whose first factor is the learning rate of the optimizer, below 0.2, so that
    training begins with its square; a ``LambdaLR`` whose highest factor in the whole run is that, after a warm-up; and
    a ``LinearLR`` that rises to it: ``start_factor`` and ``end_factor`` are factors, too. Also a ``LambdaLR`` for a
    learning rate of at most 0.02 whose factors rise and fall again, and never come to a twentieth, as those of a
    formula for the learning rate itself do: ``width**-0.5 * min(step**-0.5, step * warmup**-1.5)``.

    Why it matters
    --------------
    The function of a ``LambdaLR`` returns a factor: 1 means the learning rate that the optimizer was made with. If it
    returns 0.001 for a learning rate of 0.001, steps are a thousand times too small.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.01 * 0.9**epoch)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        schedule.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        schedule.step()
    """

    code = "GV730"
    name = "rate_multiplied_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        log = case.dataflow.log
        for schedule in log.schedules:
            base, optimizer = schedule.base_rate, log.optimizers[schedule.optimizer]
            if base is None or not 0 < base < _HIGHEST or not optimizer.steps:
                continue
            if _rises_to_the_rate(schedule, base):
                yield self._of_two_factors(case, schedule, base)
            if schedule.class_name not in _OF_FACTORS:
                continue
            begins_so = _is_square(schedule.first_rate, base, _ROUNDING) and not _rises(
                schedule, optimizer.learning_rates
            )
            rate = schedule.first_rate if begins_so else _peak_that_is_square(schedule, base)
            if rate is not None:
                yield self._finding(case, schedule, base, rate, "begins with" if begins_so else "reaches at most")
            elif _stays_far_below(schedule, base, optimizer.learning_rates):
                yield self._of_a_formula(case, schedule, base)

    def _of_two_factors(self, case: Case, schedule: Schedule, base: float) -> Finding:
        optimizer = case.dataflow.log.optimizers[schedule.optimizer]
        return self.finding(
            f"the last factor of this {schedule.class_name} is {base:.3g}, the learning rate itself: "
            f"{optimizer_words(optimizer)} ends its warm-up with {base:.3g} times {base:.3g}, {base * base:.3g}",
            symptom="grad_wrong",
            why="start_factor and end_factor multiply the learning rate that the optimizer was made with",
            fix="give it factors: start_factor=first_rate / rate, end_factor=1.0",
            location=case.location_of_site(schedule.call_site),
            evidence={"rate": base, "ends_with": base * base},
        )

    def _of_a_formula(self, case: Case, schedule: Schedule, base: float) -> Finding:
        peak = schedule.peak_rate or 0.0
        return self.finding(
            f"the highest factor of this {schedule.class_name} is {peak / base:.2g}, and lower ones follow: "
            f"{optimizer_words(case.dataflow.log.optimizers[schedule.optimizer])} never takes more than {peak:.2g}, "
            f"where its learning rate is {base:.3g}",
            symptom="grad_wrong",
            why="the function of such a schedule returns a factor of the learning rate that the optimizer was made "
            "with; a formula for the learning rate itself is multiplied by it once more",
            fix="give the optimizer lr=1.0, or divide by the highest value, so that the function returns 1 there",
            location=case.location_of_site(schedule.call_site),
            evidence={"rate": base, "highest": peak},
        )

    def _finding(self, case: Case, schedule: Schedule, base: float, rate: float, verb: str) -> Finding:
        optimizer = case.dataflow.log.optimizers[schedule.optimizer]
        return self.finding(
            f"the factor that this {schedule.class_name} {verb} is {base:.3g}, the learning rate itself: "
            f"{optimizer_words(optimizer)} {verb} {base:.3g} times {base:.3g}, which is {rate:.3g}",
            symptom="grad_wrong",
            why="the function of such a schedule returns a factor of the learning rate that the optimizer was made "
            "with",
            fix=f"leave the learning rate out of the function: it should return 1 for {base:.3g}",
            location=case.location_of_site(schedule.call_site),
            evidence={"rate": base, verb: rate},
        )


def _peak_that_is_square(schedule: Schedule, base: float) -> float | None:
    """The highest learning rate of a run, if the factor at this point was the learning rate itself; None as long as it
    rises, as in a run that ends before its warm-up does."""
    is_found = schedule.class_name == "LambdaLR" and _is_square(schedule.peak_rate, base, _BESIDE_THE_PEAK)
    return schedule.peak_rate if is_found else None


def _rises(schedule: Schedule, rates: tuple[float | None, ...]) -> bool:
    """Whether it goes up from its first learning rate, as a warm-up of 1,000 steps to 0.001 does from 0.000001."""
    first, highest = schedule.first_rate, max(schedule.peak_rate or 0.0, next(iter(rates), None) or 0.0)
    return first is not None and highest > _RISEN * first


def _stays_far_below(schedule: Schedule, base: float, rates: tuple[float | None, ...]) -> bool:
    """Whether the factors of a run rose and fell again, and were all small."""
    peak, first, last = schedule.peak_rate, schedule.first_rate, next(iter(rates), None)
    if schedule.class_name != "LambdaLR" or base > _ORDINARY or peak is None or first is None or last is None:
        return False
    return first < peak and last < peak < _SMALL * base


def _rises_to_the_rate(schedule: Schedule, base: float) -> bool:
    """Whether a warm-up ends with the learning rate as its last factor: with 1 it would end at the learning rate."""
    first, last = schedule.first_factor, schedule.last_factor
    return first is not None and last is not None and first < last and abs(last - base) <= _ROUNDING * base


def _is_square(rate: float | None, base: float, rounding: float) -> bool:
    return rate is not None and abs(rate - base * base) <= rounding * base * base


_OF_FACTORS = frozenset({"LambdaLR", "MultiplicativeLR"})
_HIGHEST = 0.2
_RISEN = 1.5
"""A factor above it may be the beginning of a warm-up."""
_ROUNDING = 1e-6
_ORDINARY = 0.02
"""A larger learning rate may itself be a factor of such a formula."""
_SMALL = 0.05
_BESIDE_THE_PEAK = 0.01
"""A schedule may have its highest point between two steps."""
