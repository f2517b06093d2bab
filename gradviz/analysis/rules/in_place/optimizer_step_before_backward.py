"""GV402."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, operation
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.failed_backward import FailedBackwards, Overwritten
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.overwritten_saved_tensors import overwritten_facts


class OptimizerStepBeforeBackward(Rule):
    """An optimizer stepped before a backward that needs the old weights.

    What it finds
    -------------
    A backward that raised because ``step()`` had changed weights that its graph was computed with, for instance where
    two optimizers take turns (the two halves of a GAN, actor and critic).

    Why it matters
    --------------
    The derivative of a layer with respect to its input is its weight, as it was in the forward pass. ``step()`` changes
    weights in place, so after it the graph no longer has the weights that its values were computed with.

    Example
    -------
    first = torch.nn.Linear(2, 2)
    second = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(second.parameters(), lr=0.1)
    loss = second(first(torch.randn(4, 2))).mean()
    loss.backward(inputs=list(second.parameters()), retain_graph=True)
    optimizer.step()
    loss.backward(inputs=list(first.parameters()))

    Instead
    -------
    first = torch.nn.Linear(2, 2)
    second = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(second.parameters(), lr=0.1)
    loss = second(first(torch.randn(4, 2))).mean()
    loss.backward(inputs=list(second.parameters()), retain_graph=True)
    loss.backward(inputs=list(first.parameters()))
    optimizer.step()
    """

    code = "GV402"
    name = "optimizer_step_before_backward"
    severity = "error"
    yields_to = ("wrong_optimizer",)
    needs = ("versions of tensors",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, failed = case.dataflow, case.failed_backwards
        for found in failed.overwritten:
            if found.step is not None and not found.is_carried_over:
                yield self._explain(case, flow, failed, found, found.step)

    def _explain(self, case: Case, flow: Dataflow, failed: FailedBackwards, found: Overwritten, step: int) -> Finding:
        calls = flow.log.calls
        backward = at_line(flow.line_of(found.backward))
        return self.finding(
            f"{operation(calls[step])}(){at_line(flow.line_of(step))} changed {tensor_words(flow, found.tensor)}, "
            f"which the backward{backward} still needs as it was in the forward{at_line(flow.line_of(found.saver))}",
            why="a layer's derivative is its weight as it was in the forward pass; step() overwrites weights in place",
            fix=f"step only after the backward{backward}, or compute that loss again after the step",
            **overwritten_facts(case, flow, failed.reached(found.backward), found),
        )
