"""GV801."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.cuts import REENTRANT_CHECKPOINT
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.gradients.received_gradients import ReceivedGradients
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call

_WITH_GRAD = "use_reentrant=True, torch.utils.checkpoint is incompatible"


class ReentrantCheckpoint(Rule):
    """A reentrant checkpoint got no input that requires grad, so nothing inside it trains.

    What it finds
    -------------
    ``checkpoint(..., use_reentrant=True)``, or without that argument, around a part with parameters, where no tensor
    passed to it requires grad: the data itself, detached features, or tensors inside a list or dict, which it ignores.
    Also ``autograd.grad`` through such a checkpoint.

    Why it matters
    --------------
    The reentrant kind is a custom function of its inputs: torch does not see the parameters that it uses. If no input
    requires grad, its output does not either, and the parameters inside get no gradient.

    Example
    -------
    from torch.utils.checkpoint import checkpoint

    first, last = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
    h = checkpoint(first, torch.randn(4, 3), use_reentrant=True)
    last(h).sum().backward()

    Instead
    -------
    from torch.utils.checkpoint import checkpoint

    first, last = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
    h = checkpoint(first, torch.randn(4, 3), use_reentrant=False)
    last(h).sum().backward()
    """

    code = "GV801"
    name = "reentrant_checkpoint"
    severity = "error"
    needs = ("custom functions",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        yield from self._with_grad(case, flow)
        blamed: dict[Location | None, tuple[int, set[int]]] = {}
        for row, starved in _starving_checkpoints(flow, case.received):
            blamed.setdefault(case.location_of_call(row), (row, set()))[1].update(starved)
        for location, (row, tensors) in blamed.items():
            yield self._finding(flow, flow.log.calls[row], location, sorted(tensors))

    def _finding(self, flow: Dataflow, call: Call, location: Location | None, tensors: list[int]) -> Finding:
        names = names_of(flow, tensors)
        inside = together(names) or "what it holds"
        given = [use for use in call.inputs if use.requires_grad]
        what = "ignores inputs inside of lists and dicts" if given else "got no input that requires grad"
        return self.finding(
            f"a reentrant checkpoint {what}: {inside} inside it get no gradient",
            symptom="grad_none",
            why="it is differentiated with respect to its inputs only, so one of them must require grad",
            fix="pass use_reentrant=False, which also finds the parameters",
            location=location,
            tensors=names,
            evidence={"inputs": len(call.inputs), "inputs_that_require_grad": len(given)},
        )

    def _with_grad(self, case: Case, flow: Dataflow) -> Iterator[Finding]:
        for failed in case.backward_calls.raised:
            if _WITH_GRAD in failed.message:
                rows = [row for row, call in enumerate(flow.log.calls) if call.function == REENTRANT_CHECKPOINT]
                yield self.finding(
                    "autograd.grad(), or backward(inputs=...), goes through a reentrant checkpoint, which forbids it",
                    symptom="raises",
                    why="the reentrant kind calls backward itself, which gives gradients to all parameters",
                    fix="pass use_reentrant=False",
                    location=case.location_of_call(rows[-1]) if rows else case.location_of_backward(failed.graph),
                    symptom_location=case.location_of_backward(failed.graph),
                    tensors=failed.starved,
                    evidence={"raised": failed.message},
                )


def _starving_checkpoints(flow: Dataflow, received: ReceivedGradients) -> Iterator[tuple[int, set[int]]]:
    """Checkpoints whose results have no gradient, with the leaves inside that get none from anywhere else."""
    calls = flow.log.calls
    for row, call in enumerate(calls):
        if call.function != REENTRANT_CHECKPOINT or call.grad_mode != "enabled":
            continue
        if not call.outputs or any(use.requires_grad for use in call.outputs):
            continue
        starved = {tensor for tensor in _leaves_of_checkpoint(flow, row) if tensor not in received}
        if starved:
            yield row, starved


def _leaves_of_checkpoint(flow: Dataflow, row: int) -> Iterator[int]:
    """Leaves that the checkpoint uses, and those above its inputs."""
    calls = flow.log.calls
    for inner in flow.inside(row):
        yield from (use.tensor for use in calls[inner].inputs if use.is_live_leaf)
    for use in calls[row].inputs:
        for above in flow.ancestors(use.tensor, row, flow.step_before(row)) if use.requires_grad else ():
            yield from (each.tensor for each in calls[above].inputs if each.is_live_leaf)
