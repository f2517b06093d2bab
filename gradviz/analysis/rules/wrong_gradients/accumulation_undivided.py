"""GV613."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.gradients.accumulation import Accumulating, undivided_accumulation
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.sums_of_gradients import undivided_sums


class AccumulationUndivided(Rule):
    """Gradients of several batches are added up for one step, and nothing divides them by the number of batches.

    What it finds
    -------------
    A loop that calls ``backward()`` each time and steps only sometimes, or calls it for each piece of one batch, where
    the loss is a mean over its rows, and neither the loss nor the gradients are divided; also where the program adds up
    what ``grad()`` returns for the pieces, and assigns the sum to ``.grad``. Losses that are sums over the batch are
    left alone, and so are loops over tasks inside of a step. A loop inside of a step is known to accumulate by its
    names: ``for micro_step in range(accumulation_steps)``.

    Why it matters
    --------------
    Accumulation is meant to act like one large batch, whose gradient is the mean. The sum is as many times larger as
    there are batches: the learning rate, weight decay and clipping no longer mean what they mean without accumulation.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(8):
        loss = (model(torch.randn(5, 4)) - 1).square().mean()
        loss.backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(8):
        loss = (model(torch.randn(5, 4)) - 1).square().mean() / 4
        loss.backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    """

    code = "GV613"
    name = "accumulation_undivided"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for each in (*undivided_accumulation(case), *undivided_sums(case)):
            yield self._finding(case, each)

    def _finding(self, case: Case, found: Accumulating) -> Finding:
        flow = case.dataflow
        step = location_of_call(flow, found.step)
        leaves = sorted(case.histories.reached_by[found.backward] & case.histories.trained)
        name = case.tensor_name(flow.log.calls[found.backward].roots[0].tensor)
        return self.finding(
            f"{found.times} backward calls for each step{at_line(step)} add up the gradients of {name}, a mean over "
            "its batch, and nothing divides them",
            symptom="grad_wrong",
            why=f"each step takes {found.times} times the mean gradient, as if the learning rate were as much larger",
            fix=f"divide the loss by the number of batches: ({name} / {found.times}).backward(); a loop that has fewer "
            "batches for its last step divides by that number there",
            location=location_of_call(flow, found.backward),
            symptom_location=step,
            tensors=names_of(flow, leaves),
            evidence={"backward_calls": found.times},
        )
