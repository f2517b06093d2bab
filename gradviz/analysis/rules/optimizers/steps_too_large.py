"""GV733."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.creation_lines import line_that_made_optimizer
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.courses import LossCourse, loss_course


class StepsTooLarge(Rule):
    """The steps of an optimizer are as large as the weights themselves.

    What it finds
    -------------
    An optimizer that moves each value by about its learning rate, whatever the gradient is, with a rate of half of the
    largest first weight or more, for most of the matrices that it holds; and a loss that is no lower after ten steps or
    more than it was at the first. With a rate as large as these weights, also a loss that leaps to four times the first
    one, even if it comes down later. Of other optimizers, a first step that moves most matrices by half of their
    largest value or more, where the loss is no lower afterwards.

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
            if len(steps) < _MIN_STEPS:
                continue
            if optimizer.class_name not in _OWN_SCALE:
                yield from self._by_first_step(case, number, steps)
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

    def _by_first_step(self, case: Case, number: int, steps: list[int]) -> Iterator[Finding]:
        """Of an optimizer whose steps are as large as the gradients: by what its first step did."""
        histories, optimizer = case.histories, case.histories.log.optimizers[number]
        leaves = sorted({leaf for group in optimizer.groups for leaf in group})
        known = {leaf: move for leaf in leaves if (move := _first_move(histories, leaf, steps[0])) is not None}
        rate = max((rate for rate in optimizer.highest_rates if rate is not None), default=0.0)
        losses = loss_course(histories, known.keys()) if known and median(known.values()) >= _MIN_SHARE else None
        if losses is not None and losses.last >= _NO_LOWER * losses.first > 0:
            yield self.finding(
                f"the first step of {optimizer_words(optimizer)}, with a learning rate of {rate:.3g}, moves most "
                f"matrices by {median(known.values()):.2g} of their largest value, and the loss goes from "
                f"{losses.first:.3g} to {losses.last:.3g}",
                symptom="grad_wrong",
                why="a step that is larger than the weights replaces them: what they were initialized for is gone",
                fix="lower the learning rate: 0.01 is usual to begin with; average a loss that is a sum over samples",
                location=line_that_made_optimizer(case.dataflow, number),
                tensors=names_of(case.dataflow, list(known)),
                evidence={"rate": rate, "steps": optimizer.steps},
            )

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


def _first_move(histories: ParameterHistories, number: int, step: int) -> float | None:
    """How far the first step moved the ends of the values of a matrix, in units of their size; None for vectors."""
    size, before = _first_size(histories, number, step), histories.flow.values(number, step)
    after = next((use.values for use in histories.log.calls[step].outputs if use.tensor == number), None)
    if size is None or before is None or after is None:
        return None
    ends = ((before.minimum, after.minimum), (before.maximum, after.maximum))
    return max((abs(new - old) / size for old, new in ends if old is not None and new is not None), default=None)


def _first_size(histories: ParameterHistories, number: int, step: int) -> float | None:
    """The largest absolute value that a matrix had before the first step; None for vectors, and for zeros."""
    shape = shape_of(histories.flow, number)
    values = histories.flow.values(number, step)
    if len(shape) == 1 or values is None or values.minimum is None or values.maximum is None:
        return None
    size = max(abs(values.minimum), abs(values.maximum))
    return size if size > 0 and values.count >= _MIN_ELEMENTS else None
