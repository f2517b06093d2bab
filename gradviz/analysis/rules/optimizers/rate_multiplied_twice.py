"""GV730."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class RateMultipliedTwice(Rule):
    """A schedule of factors gets the learning rate itself, and multiplies the learning rate by it.

    What it finds
    -------------
    ``LambdaLR`` or ``MultiplicativeLR`` whose first factor is the learning rate of the optimizer, below 0.2, so that
    training begins with its square.

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
            base, first, optimizer = schedule.base_rate, schedule.first_rate, log.optimizers[schedule.optimizer]
            if schedule.class_name not in _OF_FACTORS or base is None or first is None or not optimizer.steps:
                continue
            if 0 < base < _HIGHEST and abs(first - base * base) <= _ROUNDING * base * base:
                yield self.finding(
                    f"the factor that this {schedule.class_name} begins with is {base:.3g}, the learning rate itself: "
                    f"{optimizer_words(optimizer)} begins with {base:.3g} times {base:.3g}, which is {first:.3g}",
                    symptom="grad_wrong",
                    why="the function of such a schedule returns a factor of the learning rate that the optimizer was "
                    "made with",
                    fix=f"leave the learning rate out of the function: it should return 1 for {base:.3g}",
                    location=case.location_of_site(schedule.call_site),
                    evidence={"rate": base, "begins with": first},
                )


_OF_FACTORS = frozenset({"LambdaLR", "MultiplicativeLR"})
_HIGHEST = 0.2
"""A factor above it may be the beginning of a warm-up."""
_ROUNDING = 1e-6
