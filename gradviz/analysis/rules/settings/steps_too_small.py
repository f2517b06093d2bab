"""GV896."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.creation_lines import call_that_made_optimizer
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.courses import largest_move_per_step, loss_course
from gradviz.graph.call_log import LoggedOptimizer


class StepsTooSmall(Rule):
    """The learning rate is so small that all the steps together move nothing.

    What it finds
    -------------
    An optimizer with a constant learning rate of 0.00001 or less in all of its groups, twenty steps of which or more
    move no weight matrix by more than a millionth of its largest value each, while the loss does not fall. Not
    where a schedule may raise the rate later, nor where the same line makes several optimizers, as a search for a
    learning rate does.

    Why it matters
    --------------
    Nothing raises, and the loss hardly changes from epoch to epoch, as with a model that cannot learn. A rate that is
    right for fine-tuning with one optimizer is often a thousand times too small for training from the start with
    another one.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-8)
    for step in range(20):
        x = torch.linspace(0, 1, 64).reshape(16, 4)
        loss = torch.nn.functional.mse_loss(model(x), 3 + x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        x = torch.linspace(0, 1, 64).reshape(16, 4)
        loss = torch.nn.functional.mse_loss(model(x), 3 + x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV896"
    name = "steps_too_small"
    severity = "warning"
    yields_to = ("clipped_to_nothing", "step_without_effect")

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        optimizers = histories.log.optimizers
        makers = [call_that_made_optimizer(case.dataflow, number) for number in range(len(optimizers))]
        at_line = Counter(None if row is None else case.dataflow.log.calls[row].call_site for row in makers)
        scheduled = {schedule.optimizer for schedule in histories.log.schedules}
        for number, (optimizer, made) in enumerate(zip(optimizers, makers, strict=True)):
            steps = histories.steps_by_optimizer.get(number, [])
            if made is None or len(steps) < _MIN_STEPS or number in scheduled or not _is_small(optimizer):
                continue
            leaves = sorted({leaf for group in optimizer.groups for leaf in group})
            move = largest_move_per_step(histories, leaves, steps)
            course = loss_course(histories, set(leaves))
            is_only = at_line[case.dataflow.log.calls[made].call_site] == 1
            if move is None or not 0 < move < _MOST_PER_STEP or course is None or not is_only:
                continue
            if course.last < _FALLS * course.begin:
                continue
            rate = max(rate for rate in optimizer.highest_rates if rate is not None)
            yield self.finding(
                f"the learning rate of {optimizer_words(optimizer)} is {rate:.3g}: each of {len(steps):,} steps moves "
                f"weights by at most {move:.1g} of the largest one, and the loss goes from {course.begin:.3g} to "
                f"{course.last:.3g}",
                symptom="grad_wrong",
                why="a step is the learning rate times the gradient (about the learning rate itself, in the Adam "
                "family), and the weights are far larger",
                fix=f"raise it: lr={_USUAL.get(optimizer.class_name, 0.001):g} is usual to begin with",
                location=location_of_call(case.dataflow, made),
                tensors=names_of(case.dataflow, leaves),
                evidence={"rate": rate, "steps": len(steps)},
            )


_MIN_STEPS = 20
_MOST_RATE = 1e-5
_MOST_PER_STEP = 1e-6
_FALLS = 0.9
_USUAL = {"SGD": 0.01}


def _is_small(optimizer: LoggedOptimizer) -> bool:
    rates = [*optimizer.highest_rates, *optimizer.learning_rates]
    is_constant = optimizer.rate_changes == 0 and optimizer.steps_from_zero == 0
    return bool(rates) and is_constant and all(rate is not None and 0 < rate <= _MOST_RATE for rate in rates)
