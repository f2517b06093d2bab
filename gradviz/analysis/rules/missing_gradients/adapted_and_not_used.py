"""GV964."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, line_in_function_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.copied_parameters import original_of
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule


class AdaptedAndNotUsed(Rule):
    """A model is adapted to a task, and the loss after that is computed with the model from before.

    What it finds
    -------------
    Weights that gradient steps make of trained parameters, with what ``autograd.grad()`` returned, or copies of a
    trained model that an optimizer of their own steps, where nothing uses them after the last of these steps, while the
    parameters themselves are trained further; at every step of the training.

    Why it matters
    --------------
    Meta learning looks for a start from which a few steps go far. If its loss takes the weights from before these
    steps, they have no influence on anything: the model is trained on the average of all tasks.

    Example
    -------
    start = torch.nn.Parameter(torch.randn(4, 1))
    optimizer = torch.optim.SGD([start], lr=0.01)
    for step in range(4):
        task, near, far = torch.randn(4, 1), torch.randn(10, 4), torch.randn(10, 4)
        loss = (near @ start - near @ task).square().mean()
        (slope,) = torch.autograd.grad(loss, start, create_graph=True)
        adapted = start - 0.1 * slope
        outer = (far @ start - far @ task).square().mean()
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()

    Instead
    -------
    start = torch.nn.Parameter(torch.randn(4, 1))
    optimizer = torch.optim.SGD([start], lr=0.01)
    for step in range(4):
        task, near, far = torch.randn(4, 1), torch.randn(10, 4), torch.randn(10, 4)
        loss = (near @ start - near @ task).square().mean()
        (slope,) = torch.autograd.grad(loss, start, create_graph=True)
        adapted = start - 0.1 * slope
        outer = (far @ adapted - far @ task).square().mean()
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
    """

    code = "GV964"
    name = "adapted_and_not_used"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        made, trained = _made_in_vain(case), names_of(flow, sorted(case.histories.trained))
        if made:
            row, outer = made
            location = location_of_call(flow, row)
            yield self._finding(
                "weights that gradient steps make of the parameters are never used, and the loss after them is "
                "computed with the parameters themselves",
                "compute the loss after these steps with the new weights: torch.func.functional_call(model, adapted, "
                "(x,))",
                _where_computed(flow, row, outer) or location,
                location,
                trained,
            )
        copied = _stepped_in_vain(case.histories)
        if copied:
            step, outer = copied
            location = location_of_call(flow, step)
            yield self._finding(
                "copies of the model are trained, nothing uses them after that, and the loss that follows is computed "
                "with the model itself",
                "compute the loss after these steps with the copy, and give the gradients of the copy on to the model",
                _where_computed(flow, step, outer) or location,
                location,
                trained,
            )

    def _finding(
        self, message: str, fix: str, location: Location | None, made: Location | None, tensors: tuple[str, ...]
    ) -> Finding:
        return self.finding(
            message,
            symptom="grad_wrong",
            why="the steps on each task have no influence on what is learned: the model is trained as if they were not "
            "there",
            fix=fix,
            location=location,
            symptom_location=made if made != location else None,
            tensors=tensors,
        )


_MIN_STEPS = 3
_UPDATES = frozenset({"sub", "add"})
_SCALES = frozenset({"mul", "div", "neg", "clamp", "detach"})
_MAX_SCALES = 3


def _made_in_vain(case: Case) -> tuple[int, int] | None:
    """A call that makes weights which nothing uses, with the backward of the loss that should have used them; None if
    at some step weights of that line are used in the end, or the loss depends on gradients."""
    flow, histories = case.dataflow, case.histories
    new, windows = set[int](), dict[int, tuple[int, int]]()
    asked = [row for row in flow.rows_of_kind("backward") if flow.log.calls[row].outputs and flow.has_step_after(row)]
    by_step: dict[int, list[int]] = defaultdict(list)
    for row in asked:
        updates = [each for use in flow.log.calls[row].outputs for each in _updates(histories, use.tensor, row, new)]
        new.update(flow.log.calls[each].outputs[0].tensor for each in updates)
        if updates:
            by_step[flow.next_of_kind("step", row)].append(row)
            if not any(flow.users(flow.log.calls[each].outputs[0].tensor, each) for each in updates):
                windows[flow.next_of_kind("step", row)] = (updates[-1], row)
    if len(windows) < _MIN_STEPS or set(windows) != set(by_step):
        return None
    last: tuple[int, int] | None = None
    for step, (update, asking) in windows.items():
        outer, site = histories.backward_of_step(step), flow.log.calls[asking].call_site
        # An evaluation between two steps adapts by a call of its own.
        inner = [each for each in by_step[step] if flow.log.calls[each].call_site == site]
        if outer is None or outer < update or _depends_on(flow, outer, inner):
            return None
        last = (update, outer)
    return last


def _updates(histories: ParameterHistories, gradient: int, row: int, new: set[int]) -> Iterator[int]:
    """The calls that subtract a gradient, perhaps times a rate, from a trained parameter or from such a result."""
    flow, tensors = histories.flow, {gradient}
    for _ in range(_MAX_SCALES):
        further = set[int]()
        for tensor in tensors:
            for user in flow.users(tensor, row):
                call = flow.log.calls[user]
                name = plain_name(call.function)
                first = call.inputs[0].tensor if call.inputs else -1
                is_weight = first in histories.trained or first in new
                if name in _UPDATES and is_weight and call.outputs and not call.changed:
                    if shape_of(flow, first) == shape_of(flow, gradient):
                        yield user
                elif name in _SCALES and call.outputs:
                    further.add(call.outputs[0].tensor)
        tensors = further


def _depends_on(flow: Dataflow, outer: int, inner: list[int]) -> bool:
    """Whether a loss is computed from gradients that one of these calls returned."""
    returned = {use.tensor for row in inner for use in flow.log.calls[row].outputs}
    for root in flow.log.calls[outer].roots:
        above = flow.ancestors(root.tensor, outer, since=min(inner))
        if any(use.tensor in returned for row in above for use in flow.log.calls[row].inputs):
            return True
    return False


def _stepped_in_vain(histories: ParameterHistories) -> tuple[int, int] | None:
    """The last step of a copy that nothing uses after it, with the next backward of the original, if that is so for all
    optimizers that were made on one line."""
    flow = histories.flow
    lines: dict[int | None, list[tuple[int, int] | None]] = defaultdict(list)
    for optimizer, steps in histories.steps_by_optimizer.items():
        if optimizer is None or not steps or not histories.given_at(optimizer):
            continue
        site = flow.log.calls[histories.given_at(optimizer)[0]].call_site
        lines[site].append(_left_behind(histories, optimizer, steps[-1]))
    for found in lines.values():
        # The last one may belong to what was not recorded to its end.
        if len(found) >= _MIN_STEPS and all(each is not None for each in found[:-1]):
            return next(each for each in reversed(found) if each is not None)
    return None


def _left_behind(histories: ParameterHistories, optimizer: int, step: int) -> tuple[int, int] | None:
    flow, held = histories.flow, histories.held_by(optimizer)
    for number in held:
        shared = (number, *flow.sharing_memory(number))
        if any(flow.users(each, step) for each in shared):
            return None
    originals = {original_of(histories, number, histories.trained - held) for number in held}
    if not held or None in originals:
        return None
    backward, first = histories.backward_after(step), histories.steps_by_optimizer[optimizer][0]
    between = (leaves for row, leaves in histories.reached_by.items() if first < row < step)
    if any(not originals.isdisjoint(leaves) for leaves in between):
        return None  # Both are trained in turns: a model for each part of the data beside one for all.
    if backward is not None and not _is_below(flow, backward, step):
        return None  # The loss belongs to the next round: what the copy was trained for ends with its steps.
    is_trained = backward is not None and originals <= histories.reached_by.get(backward, frozenset())
    return (step, backward) if is_trained and backward is not None and flow.has_step_after(backward) else None


def _is_below(flow: Dataflow, call: int, other: int) -> bool:
    """Whether a call was made on a lower line than another one, in the innermost function that made both."""
    own, its = line_in_function_of(flow, call, other), line_in_function_of(flow, other, call)
    return own is not None and its is not None and own.line > its.line


def _where_computed(flow: Dataflow, made: int, outer: int) -> Location | None:
    """The line that computes a loss with the parameters: not one of a function that the steps before call as well."""
    within = _computed_with_leaves(flow, outer)
    inner = next((row for row in reversed(flow.rows_of_kind("backward")) if row < made), None)
    before = () if inner is None else _computed_with_leaves(flow, inner)
    if not within:
        return None
    also = {(line.file, line.line) for row in before for line in callers(flow, row)}
    apart = (line for line in callers(flow, within[-1]) if (line.file, line.line) not in also)
    return location_of_line(next(apart, flow.line_of(within[-1])))


def _computed_with_leaves(flow: Dataflow, backward: int) -> tuple[int, ...]:
    """The calls above a loss that take a leaf."""
    since = flow.step_before(backward)
    above = (row for root in flow.log.calls[backward].roots for row in flow.ancestors(root.tensor, backward, since))
    return tuple(row for row in above if any(use.is_live_leaf for use in flow.log.calls[row].inputs))
