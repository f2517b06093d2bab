"""GV761."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.gradients.accumulation import accumulating_lines, divided_mean, divisor_of
from gradviz.analysis.rule import Rule


class AccumulationDividedTwice(Rule):
    """The loss of each of several batches is divided twice by their number, where their gradients are added up.

    What it finds
    -------------
    A loop that calls ``backward()`` several times for each step, where the mean loss of a batch is divided by the
    number of these calls, and then once more by the same number: by the program and by a library that does it as well,
    such as ``accelerator.backward(loss)``, or the loss first, and its gradients after.

    Why it matters
    --------------
    The gradient of a step should be the mean over its batches. Divided twice, it is as many times too small as there
    are batches, as if the learning rate were as much smaller.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def backward(loss):
        (loss / 4).backward()
    for i in range(8):
        loss = (model(torch.randn(5, 4)) - 1).square().mean() / 4
        backward(loss)
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def backward(loss):
        (loss / 4).backward()
    for i in range(8):
        loss = (model(torch.randn(5, 4)) - 1).square().mean()
        backward(loss)
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    """

    code = "GV761"
    name = "accumulation_divided_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for line in accumulating_lines(case):
            mean = divided_mean(case.dataflow, line.backward, line.times)
            later = _division_of_gradients(case, line.first, line.step, line.times)
            found = [*(() if mean is None else mean.divisions), *(() if later is None else (later,))]
            if mean is not None and len(found) == _TWICE:
                yield self._finding(case, line.backward, line.times, found)

    def _finding(self, case: Case, backward: int, times: int, divisions: list[int]) -> Finding:
        flow = case.dataflow
        # The program's own: a library that divides, too, would do so at the line that calls it.
        first, second = (location_of_call(flow, row) for row in divisions)
        leaves = sorted(case.histories.reached_by[backward] & case.histories.trained)
        return self.finding(
            f"the loss of each batch is divided by {times} twice, and {times} backward calls add up the gradients for "
            "one step",
            symptom="grad_wrong",
            why=f"the step takes the mean gradient divided by {times}, as if the learning rate were as much smaller",
            fix="divide once: leave out this division, or the other one",
            location=first,
            symptom_location=second if second != first else None,
            tensors=names_of(flow, leaves),
            evidence={"backward_calls": times},
        )


_TWICE = 2


def _division_of_gradients(case: Case, first: int, step: int, times: int) -> int | None:
    """A call before the step that divides a gradient by that number."""
    for row in range(first + 1, step):
        divisor = divisor_of(case.dataflow.log.calls[row])
        if divisor is not None and isclose(divisor, times) and case.histories.changes_gradients(row):
            return row
    return None
