"""GV873."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.creation_lines import line_that_made_optimizer
from gradviz.analysis.rule import Rule


class BetasSwapped(Rule):
    """Adam averages gradients for longer than their squares: the two numbers of ``betas`` are swapped.

    What it finds
    -------------
    An optimizer that keeps an average of squares and steps with ``betas`` of which the first is larger than the
    second, so much that its square is at least the square root of the second. The proof that Adam converges asks
    for the opposite (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, theorem 4.1).

    Why it matters
    --------------
    A step is the average gradient divided by the root of the average square. If the squares forget sooner, a large
    gradient goes on to move the weights when the squares that should shrink it are forgotten: steps are no longer
    bounded by the learning rate, and their direction is that of a thousand steps before.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.999, 0.9))
    for step in range(3):
        loss = (model(torch.randn(8, 4)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.999))
    for step in range(3):
        loss = (model(torch.randn(8, 4)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV873"
    name = "betas_swapped"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        log = case.dataflow.log
        for number, optimizer in enumerate(log.optimizers):
            swapped = next((each for each in optimizer.betas if each is not None and _are_swapped(*each)), None)
            if swapped is None or not optimizer.steps or not optimizer.keeps_squares:
                continue
            first, second = swapped
            yield self.finding(
                f"betas=({first:g}, {second:g}) of {optimizer.names[0] if optimizer.names else optimizer.class_name}: "
                f"the average of gradients keeps {first:g} at each step, that of their squares only {second:g}",
                symptom="grad_wrong",
                why="the squares that should bound a step are forgotten sooner than the gradients that make it",
                fix=f"swap the two: betas=({second:g}, {first:g})",
                location=line_that_made_optimizer(case.dataflow, number),
            )


def _are_swapped(first: float, second: float) -> bool:
    return 1 > first > second > 0 and first**2 >= second**0.5
