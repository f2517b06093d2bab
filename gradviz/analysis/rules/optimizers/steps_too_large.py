"""GV733."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.courses import LossCourse, loss_course


class StepsTooLarge(Rule):
    """The learning rate of an optimizer of the Adam family is as large as the weights themselves.

    What it finds
    -------------
    An optimizer that moves each value by about its learning rate, whatever the gradient is, with a rate of half of the
    largest first weight or more, for most of the matrices that it holds; and a loss that is no lower after ten steps or
    more than it was at the first. With a rate as large as these weights, also a loss that leaps to four times the first
    one, even if it comes down later.

    Why it matters
    --------------
    Adam divides each gradient by its own size, so a step is about as large as the learning rate. Where that is the size
    of the weights, one step replaces what was learned, and the loss jumps about. Rates that are usual for SGD (0.1 or
    1) are often a hundred times too large here.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
    for step in range(20):
        x = torch.randn(32, 16)
        y = x[:, :5].argmax(1)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for step in range(20):
        x = torch.randn(32, 16)
        y = x[:, :5].argmax(1)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV733"
    name = "steps_too_large"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        for number, optimizer in enumerate(histories.log.optimizers):
            steps = histories.steps_by_optimizer.get(number, [])
            if optimizer.class_name not in _OWN_SCALE or len(steps) < _MIN_STEPS:
                continue
            for tensors, rate in zip(optimizer.groups, optimizer.highest_rates, strict=False):
                sizes = {each: size for each in tensors if (size := _first_size(histories, each, steps[0])) is not None}
                if rate is None or not sizes or rate < _MIN_SHARE * median(sizes.values()):
                    continue
                losses = loss_course(histories, sizes.keys())
                if losses is None:
                    continue
                # Where a step is as large as most weights, a leap of the loss says enough: it may come down again.
                leaps = rate >= median(sizes.values()) and losses.highest >= _LEAP * losses.first > 0
                if leaps or losses.last >= _NO_LOWER * losses.first:
                    yield self._finding(case, number, rate, sizes, losses)

    def _finding(self, case: Case, number: int, rate: float, sizes: dict[int, float], losses: LossCourse) -> Finding:
        histories = case.histories
        made = next((location_of_call(case.dataflow, row) for row in histories.given_at(number)), None)
        name = optimizer_words(histories.log.optimizers[number])
        is_lower = losses.last < _NO_LOWER * losses.first
        course = f"up to {losses.highest:.3g}" if is_lower else f"to {losses.last:.3g}"
        return self.finding(
            f"the learning rate of {name} is {rate:.3g}, and most of its weights began below "
            f"{median(sizes.values()):.2g}: one step replaces them, and the loss went from {losses.first:.3g} "
            f"{course}",
            symptom="grad_wrong",
            why="an optimizer of this kind moves each value by about its learning rate, however small the gradient is",
            fix="lower the learning rate: 0.001 is usual to begin with",
            location=made,
            tensors=names_of(case.dataflow, list(sizes)),
            evidence={"rate": rate, "steps": histories.log.optimizers[number].steps},
        )


_OWN_SCALE = frozenset({"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Lion", "SparseAdam"})
_MIN_STEPS = 10
_MIN_SHARE = 0.5
_NO_LOWER = 0.95
_LEAP = 4.0
_MIN_ELEMENTS = 32


def _first_size(histories: ParameterHistories, number: int, step: int) -> float | None:
    """The largest absolute value that a matrix had before the first step; None for vectors, and for zeros."""
    shape = shape_of(histories.flow, number)
    values = histories.flow.values(number, step)
    if len(shape) == 1 or values is None or values.minimum is None or values.maximum is None:
        return None
    size = max(abs(values.minimum), abs(values.maximum))
    return size if size > 0 and values.count >= _MIN_ELEMENTS else None
