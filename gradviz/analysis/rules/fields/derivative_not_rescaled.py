"""GV848."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isclose

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    DIFFERENCES,
    at_line,
    at_line_beside,
    location_of_call,
    plain_name,
    two_lines,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call, TensorUse


class DerivativeNotRescaled(Rule):
    """Values are divided by their deviation, and the derivatives that belong to them are not.

    What it finds
    -------------
    A loss that compares results of a model with targets that were divided by a standard deviation, and the derivatives
    of the same results with targets that nothing divides, as energies and forces. Also results that are multiplied by
    a deviation before they are compared, where the derivatives are those of the results from before; and results that
    the model divided by what their targets are divided by for the loss, such as the number of atoms.

    Why it matters
    --------------
    The derivative of a value that was divided by a number is divided by it, too. The model is asked for forces that
    are too large, or too small, for its energies, and cannot fit both.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    positions = torch.randn(32, 3)
    energies, forces = 9 * torch.rand(32), torch.randn(32, 3)
    normalized = (energies - energies.mean()) / energies.std()
    for step in range(3):
        x = positions.clone().requires_grad_()
        energy = model(x).squeeze(1)
        (slope,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        loss = (energy - normalized).square().mean() + (-slope - forces).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    positions = torch.randn(32, 3)
    energies, forces = 9 * torch.rand(32), torch.randn(32, 3)
    normalized = (energies - energies.mean()) / energies.std()
    for step in range(3):
        x = positions.clone().requires_grad_()
        energy = model(x).squeeze(1)
        (slope,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        loss = (energy - normalized).square().mean() + (-slope - forces / energies.std()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV848"
    name = "derivative_not_rescaled"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row in flow.rows_of_kind("backward"):
            call = flow.log.calls[row]
            is_trained = call.scalars.get("create_graph") is True and flow.has_step_after(row)
            if not is_trained or call.call_site in told or not (call.roots and call.asked and call.outputs):
                continue
            divided = _divided_alike(flow, row)
            if divided is not None and _unscaled_comparison(flow, call.outputs[0].tensor, row, _may_be_scaled):
                told.add(call.call_site)
                yield self._of_divided(flow, row, *divided)
                continue
            met = _unscaled_comparison(flow, call.outputs[0].tensor, row, _is_scaled)
            scaled = None if met is None else _scaling_of_values(flow, row)
            if met is not None and scaled is not None:
                told.add(call.call_site)
                yield self._finding(flow, met, *scaled)

    def _finding(self, flow: Dataflow, met: int, scaling: int, is_of_target: bool) -> Finding:
        location, made = two_lines(flow, met, scaling)
        at = at_line(location_of_call(flow, scaling))
        if is_of_target:
            what = f"the targets of the results are divided by a standard deviation{at}, and those of their derivatives"
            fix = "divide these by the same number: forces / std"
        else:
            what = (
                f"results are multiplied by a standard deviation{at}, and their derivatives, which are compared here,"
            )
            fix = "multiply the derivatives by the same number: forces = -gradient * std"
        return self.finding(
            f"{what} are not",
            symptom="grad_wrong",
            why="dividing values by a number divides their derivatives by it: no model fits both",
            fix=fix,
            location=location,
            symptom_location=made,
        )

    def _of_divided(self, flow: Dataflow, row: int, division: int, of_target: int) -> Finding:
        location, divided = two_lines(flow, row, division)
        return self.finding(
            f"what is differentiated here was divided{at_line_beside(divided, location)} by a number of each sample, "
            f"and so is its target{at_line_beside(location_of_call(flow, of_target), location)}; the derivatives are "
            "compared with targets that nothing divides",
            symptom="grad_wrong",
            why="the derivatives are divided by these numbers, too: an energy for each atom gives forces that are too "
            "small by the number of atoms, and no model fits both",
            fix="differentiate what was not divided yet: the total, as (energy * n_atoms).sum(); divide for the loss "
            "of the values only",
            location=location,
            symptom_location=divided,
        )


_KEEPS = SHAPE_ONLY | {"neg", "stack", "detach", "index_select", "requires_grad"}
_JOINS = frozenset({"cat", "stack", "unbind", "split", "chunk"})
_DEVIATIONS = frozenset({"std", "std_mean", "var", "var_mean"})
_OF_DEVIATIONS = SHAPE_ONLY | {"sqrt", "clamp", "add", "reciprocal", "pow", "max", "maximum", "where"}
_BOTH = 2
_MAX_STEPS = 10


def _unscaled_comparison(
    flow: Dataflow, tensor: int, row: int, is_scaled: Callable[[Dataflow, TensorUse, int], bool]
) -> int | None:
    """The call that compares a derivative with data, if nothing scales either; None if it is used otherwise."""
    for _ in range(_MAX_STEPS):
        users = [each for each in flow.users(tensor, row) if flow.log.calls[each].kind == "operation"]
        users = [each for each in users if flow.log.calls[each].live_inputs and flow.log.calls[each].outputs]
        users = [each for each in users if plain_name(flow.log.calls[each].function) != "grad"]
        if len(users) != 1:
            return None
        row = users[0]
        call = flow.log.calls[row]
        if plain_name(call.function) in DIFFERENCES and len(call.inputs) == _BOTH:
            target = next((use for use in call.inputs if not use.requires_grad), None)
            return row if target is not None and not is_scaled(flow, target, row) else None
        if plain_name(call.function) not in _KEEPS:
            return None
        tensor = call.outputs[0].tensor
    return None


def _is_scaled(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether data were multiplied or divided by something other than 1 or -1 last."""
    for _, call in flow.makers(use.tensor, row, _MAX_STEPS):
        name = plain_name(call.function)
        if name not in _KEEPS | {"div", "mul"}:
            return bool(call.inputs)  # that call may have scaled them
        if name not in _KEEPS:
            number = call.scalars.get("1", call.scalars.get("other"))
            if len(call.inputs) == _BOTH or (isinstance(number, (int, float)) and abs(number) != 1):
                return True
    return False


def _may_be_scaled(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """The same, and whether a call that does more than to put data together made them: not where they are a derivative,
    or data of which no call is known."""
    for _, call in flow.makers(use.tensor, row, _MAX_STEPS):
        if plain_name(call.function) == "grad" or call.kind == "backward":
            return False
        if plain_name(call.function) not in _KEEPS | _JOINS:
            return bool(call.inputs)
    return False


def _divided_alike(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The call that divided each result before it was differentiated by a number of its own, and the one that divided
    its target by the same number."""
    since, until = flow.step_before(row), flow.next_of_kind("step", row)
    tensor = _differentiated(flow, row)
    division = _own_division(flow, tensor, row)
    if division is None or division < since:
        return None
    for user in flow.users(tensor, since):
        call = flow.log.calls[user]
        if user >= until or plain_name(call.function) not in DIFFERENCES or len(call.inputs) != _BOTH:
            continue
        target = next((use for use in call.inputs if not use.requires_grad), None)
        made = None if target is None else _own_division(flow, target.tensor, user)
        if made is not None and _divisor(flow, made) == _divisor(flow, division):
            return division, made
    return None


def _own_division(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The call that divided each value by a number that is data, last; these numbers differ from 1."""
    for made, call in flow.makers(tensor, before, _MAX_STEPS):
        if plain_name(call.function) == "div" and len(call.inputs) == _BOTH:
            values = flow.values_of(call.inputs[1], made)
            is_size = values is not None and values.count > 1 and not values.minimum == values.maximum == 1
            return made if is_size and not call.inputs[1].requires_grad else None
        if plain_name(call.function) not in SHAPE_ONLY:
            return None
    return None


def _divisor(flow: Dataflow, division: int) -> int:
    """What a call divides by, before it only got another shape or type."""
    tensor = flow.log.calls[division].inputs[1].tensor
    for _, call in flow.makers(tensor, division, _MAX_STEPS):
        if plain_name(call.function) not in SHAPE_ONLY or len(call.inputs) != 1:
            break
        tensor = call.inputs[0].tensor
    return tensor


def _scaling_of_values(flow: Dataflow, row: int) -> tuple[int, bool] | None:
    """The call that divides the target of what was differentiated by a deviation, and True; or that multiplies this by
    one before it meets its target, and False."""
    since = flow.step_before(row)
    until = flow.next_of_kind("step", row)
    waiting, seen = [_differentiated(flow, row)], set[int]()
    while waiting and len(seen) < _MAX_STEPS:
        tensor = waiting.pop()
        for user in flow.users(tensor, since):
            call = flow.log.calls[user]
            if user in seen or user >= until or call.kind != "operation" or not call.outputs:
                continue
            seen.add(user)
            name = plain_name(call.function)
            if name == "mul" and _is_by_deviation(flow, call, user):
                return user, False
            if name in DIFFERENCES and len(call.inputs) == _BOTH:
                target = next((use for use in call.inputs if not use.requires_grad), None)
                made = None if target is None else _division(flow, target, user)
                if made is not None:
                    return made, True
            elif name in SHAPE_ONLY:
                waiting.append(call.outputs[0].tensor)
    return None


def _differentiated(flow: Dataflow, row: int) -> int:
    """The values of which a derivative was taken, before they were summed."""
    tensor = flow.log.calls[row].roots[0].tensor
    made = flow.newest_producer(tensor, row)
    is_sum = made is not None and plain_name(flow.log.calls[made].function) == "sum"
    is_whole = made is not None and is_sum and not shape_of(flow, tensor)
    return flow.log.calls[made].inputs[0].tensor if made is not None and is_whole else tensor


def _division(flow: Dataflow, target: TensorUse, row: int) -> int | None:
    """The call that divided data by a deviation."""
    for made, call in flow.makers(target.tensor, row, _MAX_STEPS):
        name = plain_name(call.function)
        if name in ("div", "mul"):
            return made if _is_by_deviation(flow, call, made) else None
        if name not in _KEEPS:
            return None
    return None


def _is_by_deviation(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether one factor is a standard deviation, as a tensor or as a number that was read from one."""
    if len(call.inputs) == _BOTH:
        return any(_is_deviation(flow, use.tensor, row) for use in call.inputs if not use.requires_grad)
    number = call.scalars.get("1", call.scalars.get("other"))
    if not isinstance(number, float):
        return False
    reads = [each for name in ("item", "float") for each in _reads(flow, name, row)]
    return any(
        isinstance(result := flow.log.calls[each].result, float)
        and isclose(result, number, rel_tol=1e-6)
        and _is_deviation(flow, flow.log.calls[each].inputs[0].tensor, each)
        for each in reads
    )


def _reads(flow: Dataflow, name: str, row: int) -> Iterator[int]:
    for function in flow.functions:
        if plain_name(function) == name:
            yield from (each for each in flow.rows_of_function(function)[:_MAX_READS] if each < row)


_MAX_READS = 50


def _is_deviation(flow: Dataflow, tensor: int, row: int) -> bool:
    for _, call in flow.makers(tensor, row, _MAX_STEPS):
        name = plain_name(call.function)
        if name in _DEVIATIONS:
            return True
        if name not in _OF_DEVIATIONS:
            return False
    return False
