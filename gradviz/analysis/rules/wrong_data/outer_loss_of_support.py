"""GV789."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class OuterLossOfSupport(Rule):
    """Meta learning measures what was adapted on the samples that it was adapted to.

    What it finds
    -------------
    A loss that is differentiated through gradient steps (``autograd.grad(create_graph=True)``), where both the loss of
    these steps and the loss after them compare with the same targets, though others were made for each task in the same
    way, which nothing uses: the query samples.

    Why it matters
    --------------
    The outer loss is to tell how well the adapted model does on new samples of its task. On the samples that it was
    adapted to, a start that memorizes fastest is best, and nothing is learned about generalizing from few samples.

    Example
    -------
    start = torch.nn.Parameter(torch.randn(4, 1))
    optimizer = torch.optim.SGD([start], lr=0.01)
    for step in range(3):
        task = torch.randn(4, 1)
        inputs = torch.randn(20, 4)
        targets = inputs @ task
        near, far = targets[:10], targets[10:]
        loss = (inputs[:10] @ start - near).square().mean()
        (slope,) = torch.autograd.grad(loss, start, create_graph=True)
        outer = (inputs[:10] @ (start - 0.1 * slope) - near).square().mean()
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()

    Instead
    -------
    start = torch.nn.Parameter(torch.randn(4, 1))
    optimizer = torch.optim.SGD([start], lr=0.01)
    for step in range(3):
        task = torch.randn(4, 1)
        inputs = torch.randn(20, 4)
        targets = inputs @ task
        near, far = targets[:10], targets[10:]
        loss = (inputs[:10] @ start - near).square().mean()
        (slope,) = torch.autograd.grad(loss, start, create_graph=True)
        outer = (inputs[10:] @ (start - 0.1 * slope) - far).square().mean()
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
    """

    code = "GV789"
    name = "outer_loss_of_support"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for backward in case.histories.last_trained_backward_of_each_line:
            since = flow.step_before(backward)
            for root in flow.log.calls[backward].roots:
                above = set(flow.ancestors(root.tensor, backward, since=since))
                inner = _inner_calls(flow, above, since)
                outer = [row for row in sorted(above - inner) if _target(flow.log.calls[row]) is not None]
                known = {_target(flow.log.calls[row]) for row in inner} - {None}
                targets = {row: _target(flow.log.calls[row]) for row in outer}
                if not targets or not known or not known.issuperset(targets.values()):
                    continue
                unused = [_unused_beside(flow, target, row, since) for row, target in targets.items() if target]
                if unused and unused[-1] is not None and all(each is not None for each in unused):
                    yield self._finding(flow, outer[-1], unused[-1])

    def _finding(self, flow: Dataflow, row: int, unused: int) -> Finding:
        location, made = two_lines(flow, row, unused)
        return self.finding(
            "the loss after the gradient steps compares with the same targets as the loss of these steps; others were "
            "made for each task, and nothing uses them",
            symptom="grad_wrong",
            why="how well a model is adapted shows on samples that it was not adapted to",
            fix="compute the outer loss with the other samples of the task, its query set",
            location=location,
            symptom_location=made or location_of_call(flow, unused),
        )


_ERRORS = frozenset({
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "sub", "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
})  # fmt: skip
_BOTH = 2
_MOST_NEAR = 12


def _inner_calls(flow: Dataflow, above: set[int], since: int) -> set[int]:
    """What the gradients in a loss were computed from, and the calls that differentiated."""
    found = set[int]()
    for row in flow.rows_of_kind("backward"):
        call = flow.log.calls[row]
        if row >= since and call.scalars.get("create_graph") and not above.isdisjoint(_around(flow, row)):
            found |= {row, *(each for use in call.roots for each in flow.ancestors(use.tensor, row, since=since))}
    return found


def _around(flow: Dataflow, row: int) -> set[int]:
    """The calls that returned what a backward call returned."""
    made = (flow.newest_producer(use.tensor, row + _BOTH) for use in flow.log.calls[row].outputs)
    return {row, *(each for each in made if each is not None)}


def _target(call: Call) -> int | None:
    """What has no gradient, of the two operands of an error."""
    is_error = plain_name(call.function) in _ERRORS and len(call.inputs) >= _BOTH and len(call.live_inputs) == 1
    return next((use.tensor for use in call.inputs if not use.requires_grad), None) if is_error else None


def _unused_beside(flow: Dataflow, target: int, row: int, since: int) -> int | None:
    """A call that made something like a target in the same way, which nothing uses."""
    made = flow.newest_producer(target, row)
    if made is None or made < since:
        return None
    call, line = flow.log.calls[made], location_of_call(flow, made)
    beside = [each for use in call.inputs[:1] for each in flow.users(use.tensor, since)[:_MOST_NEAR]]
    # Two lines may have called the function that made both.
    alike = [each for each in flow.rows_of_function(call.function) if since <= each < row]
    alike.sort(key=lambda each: abs(each - made))
    near = [each for each in alike[:_MOST_NEAR] if location_of_call(flow, each) == line]
    for each in (made, *beside, *near):
        other = flow.log.calls[each]
        for use in other.outputs if other.function == call.function and each >= since else ():
            is_alike = flow.log.tensors[use.tensor].facts.dtype == flow.log.tensors[target].facts.dtype
            if use.tensor != target and is_alike and not use.requires_grad and not flow.users(use.tensor):
                return each
    return None
