"""GV613."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.gradients.accumulation import ACCUMULATES, Accumulating, undivided_accumulation
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.sums_of_gradients import undivided_sums
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import called_name, last_name


class AccumulationUndivided(Rule):
    """Gradients of several batches are added up for one step, and nothing divides them by the number of batches.

    What it finds
    -------------
    A loop that calls ``backward()`` each time and steps only sometimes, or calls it for each piece of one batch, where
    the loss is a mean over its rows, and neither the loss nor the gradients are divided; also where the program adds up
    what ``grad()`` returns for the pieces, and assigns the sum to ``.grad``. Losses that are sums over the batch are
    left alone, and so are loops over tasks inside of a step, backward calls that reach different heads, and programs
    that divide the learning rate instead. A loop inside of a step is known to accumulate by its names: ``for
    micro_step in range(accumulation_steps)``.

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
        found = (*undivided_accumulation(case), *undivided_sums(case))
        if found and not _has_divided_rate(case):
            yield from (self._finding(case, each) for each in found)

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


def _has_divided_rate(case: Case) -> bool:
    """Whether the program divides the learning rate by the number of batches instead: ``lr=rate / accumulate``."""
    classes = {each.class_name for each in case.dataflow.log.optimizers}
    calls = [node for _, tree in own_files(case) for node in tree.nodes if isinstance(node, ast.Call)]
    rates = [each.value for call in calls for each in call.keywords if each.arg == "lr"]
    rates += [each for call in calls if called_name(call) in classes for each in call.args[1:2]]
    return any(
        isinstance(rate, ast.BinOp)
        and isinstance(rate.op, ast.Div)
        and ACCUMULATES.search(last_name(rate.right).lower()) is not None
        for rate in rates
    )
