"""GV729."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, single_name
from gradviz.analysis.dataflow.dataflow import Dataflow, passes_on
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.names.loop_variables import LostNames
from gradviz.graph.call_log import Call


class UpdateDiscarded(Rule):
    """New values of parameters are computed from their gradients, and never written back.

    What it finds
    -------------
    ``p = p - rate * p.grad`` for a parameter that nothing changes, in several steps, where nothing uses the result,
    also for lists of them (``torch._foreach_add(parameters, gradients)``); and other new values that a line gives the
    name of a parameter, where nothing uses them: a moving average (``t = m * t + (1 - m) * p``), a bound
    (``p = p.clamp(-1, 1)``), a perturbation that is taken back, a mean over several models (``p = mean.clone()``); and
    new gradients (``g = g - g.mean()`` behind ``g = p.grad``). Programs that write them back (``copy_()``, ``.data``)
    or that compute with them, as meta learning does, are left alone.

    Why it matters
    --------------
    The assignment gives the name of a loop's variable to a new tensor. The parameter of the model stays as it is, and
    every step computes the gradient of the same values.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    for step in range(4):
        model.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p = p - 0.1 * p.grad

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    for step in range(4):
        model.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
    """

    code = "GV729"
    name = "update_discarded"
    severity = "error"
    yields_to = ("adapted_and_not_used",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, histories = case.dataflow, case.histories
        if not histories.reached_by:
            return
        first = min(histories.reached_by)
        leaves = histories.reached - histories.trained
        still = {number for number in leaves if _never_changes(flow, number, first)}
        found: dict[tuple[Location, bool], dict[int, int]] = defaultdict(lambda: defaultdict(int))
        lost = LostNames(case)
        for row, call in enumerate(flow.log.calls):
            is_lost = row >= first and call.kind == "operation" and _is_unused(flow, row, call)
            here = location_of_call(flow, row) if is_lost else None
            if here is None:
                continue
            is_update, is_gradient_lost = single_name(call) in _UPDATES, False
            updated = _updated_by(flow, row, call, still) if is_update else []
            is_plain = not updated and not call.changed and not _is_of_list(call)
            if is_plain and is_update and _gives_its_name_away(case, here):
                updated = _first_parameter(flow, row, call, histories.trained)
                if not updated and lost.is_at(here, or_assigned=True):
                    updated, is_gradient_lost = _leaf_of_gradient(case, row, call), True
            if is_plain and not updated and not call.node_count and lost.is_at(here):
                updated = _same_parameters(flow, row, call)
            for number in updated:
                found[here, is_gradient_lost][number] += 1
        for (here, is_of_gradients), counts in found.items():
            repeated = [number for number, count in counts.items() if count >= _MIN_STEPS]
            if repeated:
                yield self._finding(case, here, repeated, max(counts.values()), is_of_gradients=is_of_gradients)

    def _finding(
        self, case: Case, here: Location, parameters: list[int], steps: int, *, is_of_gradients: bool
    ) -> Finding:
        stays = "it stays as it is" if len(parameters) == 1 else "they stay as they are"
        what = "gradients" if is_of_gradients else "values"
        return self.finding(
            f"new {what} of {case.histories.together(parameters)} are computed {steps:,} times and never written back: "
            + (stays if not is_of_gradients else ".grad stays as it is"),
            symptom="grad_wrong",
            why="the assignment binds a variable to a new tensor, and leaves "
            + (".grad as it is" if is_of_gradients else "the parameter as it is"),
            fix="change the gradient in place, g.sub_(...), or assign it: p.grad = g"
            if is_of_gradients
            else "change the parameter in place, under torch.no_grad(): p.copy_(new), or p -= rate * p.grad, or use an "
            "optimizer",
            location=here,
            tensors=names_of(case.dataflow, parameters),
            evidence={"steps": steps, "parameters": len(parameters)},
        )


_MIN_STEPS = 2
_MAX_MAKERS = 60
_COPIES = frozenset({"detach", "data", "clone", "deepcopy", "view", "reshape", "flatten", "cat"})
"""What gives the values of a parameter; also those of all parameters one behind the other."""
_MAX_COPIES = 4
_SCALES = _COPIES | {"mul", "neg", "div"}
_SUMS = frozenset({"sub", "add", "addcmul", "addcdiv"})
_UPDATES = _SUMS | {"mul", "div", "lerp", "clamp", "clip", "clamp_min", "clamp_max"}


def _is_unused(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether it computes something, or changes a copy, and nothing uses the result."""
    return bool(call.inputs) and bool(call.outputs) and not any(flow.users(use.tensor, row) for use in call.outputs)


def _leaf_of_gradient(case: Case, row: int, call: Call) -> list[int]:
    """The parameter of whose ``.grad`` a call makes a new one of its shape, before a step."""
    histories, shape = case.histories, shape_of(case.dataflow, call.outputs[0].tensor)
    leaves = (histories.leaves_of_gradients.get(use.tensor) for use in call.inputs)
    own = [each for each in leaves if each is not None and each in histories.trained]
    is_followed = case.dataflow.has_step_after(row) and len(set(own)) == 1
    return own[:1] if is_followed and shape_of(case.dataflow, own[0]) == shape else []


def _same_parameters(flow: Dataflow, row: int, call: Call) -> list[int]:
    """The parameters of the same shape of which a call makes something, since the last step."""
    shape, tensors = shape_of(flow, call.outputs[0].tensor), flow.log.tensors
    above = flow.ancestors(call.outputs[0].tensor, row + 1, since=flow.step_before(row))
    taken = {use.tensor for each in above for use in flow.log.calls[each].inputs}
    return sorted(each for each in taken if tensors[each].role == "parameter" and shape_of(flow, each) == shape)


def _is_of_list(call: Call) -> bool:
    return "._foreach_" in call.function


def _gives_its_name_away(case: Case, here: Location | None) -> bool:
    """Whether a line is like ``p = p - step``: what the name stood for before can not be meant later."""
    return _assigns_what_it_reads((case.source_line(here) or "").strip())


@lru_cache
def _assigns_what_it_reads(text: str) -> bool:
    try:
        body = ast.parse(text).body
    except SyntaxError:  # a line of a statement that is longer
        return False
    if len(body) != 1 or not isinstance(body[0], ast.Assign) or len(body[0].targets) != 1:
        return False
    target, value = body[0].targets[0], body[0].value
    read = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return isinstance(target, ast.Name) and target.id in read


def _first_parameter(flow: Dataflow, row: int, call: Call, trained: frozenset[int]) -> list[int]:
    """The parameter of which new values of its own shape are computed; that of a copy before a trained one."""
    shape = shape_of(flow, call.outputs[0].tensor) if call.outputs else ()
    found = [
        number
        for use in call.inputs
        if (number := _scaled_parameter(flow, use.tensor, row)) is not None and shape_of(flow, number) == shape
    ]
    return sorted(found, key=lambda number: number in trained)[:1]


def _scaled_parameter(flow: Dataflow, tensor: int, before: int) -> int | None:
    if flow.log.tensors[tensor].role == "parameter":
        return tensor
    for _, call in flow.makers(tensor, before, 2):
        if plain_name(call.function) not in _SCALES or not call.inputs:
            return None
        if flow.log.tensors[call.inputs[0].tensor].role == "parameter":
            return call.inputs[0].tensor
    return None


def _never_changes(flow: Dataflow, number: int, first: int) -> bool:
    """Whether nothing changes its values after the first backward call."""
    end = flow.log.tensors[number].end
    is_written = bool(flow.data_assignments.get(number))
    is_changed = end is not None and end.has_changed
    return not (is_written or is_changed or flow.changes(number, first, len(flow.log.calls)))


def _updated_by(flow: Dataflow, row: int, call: Call, still: set[int]) -> list[int]:
    """The parameters that are added to something made of their gradients: one, or each of a list."""
    if not still or single_name(call) not in _SUMS:
        return []
    found = []
    for uses in (each.inputs for each in flow.lists.singles(row)):
        for use in uses if len(uses) > 1 else ():
            parameter = _parameter_of(flow, use.tensor, row, still)
            others = (other for other in uses if other is not use)
            if parameter is not None and any(_is_made_of_gradient(flow, o.tensor, row, parameter) for o in others):
                found.append(parameter)
                break
    return found


def _parameter_of(flow: Dataflow, tensor: int, before: int, still: set[int]) -> int | None:
    if tensor in still:
        return tensor
    for _, call in flow.makers(tensor, before, _MAX_COPIES):
        if plain_name(call.function) not in _COPIES or not call.inputs:
            return None
        if call.inputs[0].tensor in still:
            return call.inputs[0].tensor
    return None


def _is_made_of_gradient(flow: Dataflow, tensor: int, before: int, parameter: int) -> bool:
    waiting, seen = [(tensor, before)], set[int]()
    while waiting and len(seen) < _MAX_MAKERS:
        tensor, before = waiting.pop(0)
        if flow.log.tensors[tensor].gradient_of == parameter:
            return True
        made = flow.producers(tensor, before)[-1:]
        call = flow.log.calls[made[0]] if made else None
        if call is not None and is_gradient(call) and any(use.tensor == parameter for use in call.inputs):
            return True
        if call is not None and made[0] not in seen and passes_on(call) and call.kind == "operation":
            seen.add(made[0])
            waiting += [(use.tensor, made[0]) for use in call.inputs]
    return False
