"""GV107."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.backward_calls import RaisedBackward
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, short_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rules.bases.cut_lines import BetterLine, line_that_takes_chosen
from gradviz.analysis.rules.bases.cut_rule import CutRule
from gradviz.graph.call_log import Call


class NonDifferentiableOp(CutRule):
    """The loss depends on trained tensors only through an operation that has no derivative.

    What it finds
    -------------
    ``argmax``, ``argsort``, comparisons, ``sample()`` and others whose results have no ``grad_fn``, where the result is
    used in the loss and some trained tensors have no other path to it. It does not report predictions for a metric:
    there no tensor loses its gradient. Also ``heaviside``, ``//`` and others that only raise in ``backward()``, and
    operators of the program without ``register_autograd()``.

    Why it matters
    --------------
    A small change of the input does not change which entry is the largest, or on which side of a threshold it is, so
    there is no gradient to follow. torch returns such results without a history.

    Example
    -------
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    target = torch.ones(16)
    prediction = model(torch.randn(16, 8)).argmax(dim=1).float()
    loss = (prediction - target).square().mean().requires_grad_()
    loss.backward()
    optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    target = torch.ones(16)
    prediction = model(torch.randn(16, 8)).softmax(dim=1)[:, 1]
    loss = (prediction - target).square().mean()
    loss.backward()
    optimizer.step()
    """

    code = "GV107"
    name = "non_differentiable_op"
    yields_to = (
        "stale_optimizer_params", "function_hides_parameter", "routed_without_weight", "straight_through_reversed",
    )  # fmt: skip

    def check(self, case: Case) -> Iterator[Finding]:
        yield from super().check(case)
        for failed in case.backward_calls.raised:
            if _is_tried(case, failed):
                continue
            name, operator = failed.without_derivative, failed.without_formula
            if operator is not None:
                yield self._refused(case, failed, operator, _REGISTER)
            elif name is not None and "backward" not in name:
                yield self._refused(case, failed, name, _SMOOTH)

    def _refused(self, case: Case, failed: RaisedBackward, name: str, fix: str) -> Finding:
        """An operation such as ``heaviside``, whose node in the graph only raises."""
        rows = [row for row, call in calls_named(case.dataflow, (name,)) if call.live_inputs]
        raised_at = case.location_of_backward(failed.graph)
        made = None if failed.node is None else case.location_of(failed.graph, failed.node.id)
        return self.finding(
            f"{name} has no derivative in torch, so backward() raises where it comes to it",
            symptom="raises",
            why="its result requires grad, as that of any operation, but torch knows no formula for its gradient",
            fix=fix,
            location=location_of_call(case.dataflow, rows[-1]) if rows else made or raised_at,
            symptom_location=raised_at,
            tensors=failed.waiting,
            evidence={"raised": failed.message},
        )

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        call = flow.log.calls[found.cut.call]
        what = "the index that {} returns" if _has_values_beside(flow, call) else "{}"
        return f"{what.format(short_name(call.function))} has no derivative and"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        if found.is_draw:
            return "sample() draws a random number, which has no history; rsample() draws one that has a history"
        return "a small change of its input does not change its result, so torch returns it without a history"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        call = flow.log.calls[found.cut.call]
        if _has_values_beside(flow, call):
            name = short_name(call.function)
            return (
                f"compute with the values that {name} returns beside the index, or gather them with it: they have a "
                "derivative; or use a smooth function (softmax, gumbel_softmax)"
            )
        return _SMOOTH

    def better_line(self, case: Case, found: CutOff) -> BetterLine | None:
        return line_that_takes_chosen(case, found)


_SMOOTH = (
    "use a smooth function in the loss (softmax or gumbel_softmax for argmax, sigmoid for a threshold, rsample() for "
    "sample()), or a straight-through estimate"
)
_REGISTER = "give the operator a backward with register_autograd(), or compute it with functions of torch"


def _is_tried(case: Case, failed: RaisedBackward) -> bool:
    """Whether a program that trains on only asks whether there is a derivative: nothing that it trains waits for it."""
    row = case.backward_calls.row_of(failed.graph)
    if row is None or not case.dataflow.has_step_after(row):
        return False
    leaves, _ = case.histories.live_leaves((use.tensor for use in failed.call.roots), row)
    return case.histories.trained.isdisjoint(leaves)


def _has_values_beside(flow: Dataflow, call: Call) -> bool:
    """Whether it is the index that has no derivative: ``topk``, ``sort``, ``max(dim)`` also return values."""
    return any(flow.log.tensors[use.tensor].requires_grad for use in call.outputs)
