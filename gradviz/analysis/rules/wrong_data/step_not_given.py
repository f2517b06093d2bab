"""GV680."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import has_normal_draw
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import product_of
from gradviz.graph.call_log import Call


class StepNotGiven(Rule):
    """A diffusion model is trained on noise of all steps, and is not told the step.

    What it finds
    -------------
    Steps that are drawn with ``randint()``, ``multinomial()`` or as ``(rand(n) * T).long()``, one for each sample, that
    only look up factors in tables, of which the noise is mixed with data, and that no other call uses; also a step that
    a data set draws for each of its samples and makes a Python number. Factors that are given to the model tell it as
    much.

    Why it matters
    --------------
    How much noise there is differs from step to step by far, and the model has to guess it from its input. Models of
    this kind take the step as an input (Ho et al. 2020, https://arxiv.org/abs/2006.11239, section 3.2); without it the
    loss stays high, and a sampler that asks for a step gets the same answer for all of them.

    Example
    -------
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    keep = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
    for step in range(3):
        x, noise, t = torch.randn(8, 2), torch.randn(8, 2), torch.randint(0, 100, (8,))
        noisy = keep[t].sqrt()[:, None] * x + (1 - keep[t]).sqrt()[:, None] * noise
        loss = (model(noisy) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    keep = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
    for step in range(3):
        x, noise, t = torch.randn(8, 2), torch.randn(8, 2), torch.randint(0, 100, (8,))
        noisy = keep[t].sqrt()[:, None] * x + (1 - keep[t]).sqrt()[:, None] * noise
        loss = (model(torch.cat([noisy, t[:, None] / 100], 1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV680"
    name = "step_not_given"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, int | None]]] = defaultdict(list)
        told = _tensors_of_numbers(flow)
        for row, call in calls_named(flow, _DRAWS):
            if call.outputs and flow.has_step_after(row):
                lines[call.call_site].append((row, _only_mixes(flow, row, call.outputs[0].tensor, told)))
        for drawn in lines.values():
            mixing = drawn[-1][1]
            if mixing is not None and len(drawn) >= _MIN_STEPS and all(each is not None for _, each in drawn):
                yield self._finding(flow, drawn[-1][0], mixing)

    def _finding(self, flow: Dataflow, row: int, mixing: int) -> Finding:
        location, mixed = location_of_call(flow, row), _line_of_model(flow, mixing)
        name = tensor_words(flow, flow.log.calls[row].outputs[0].tensor)
        return self.finding(
            f"{name}, the steps of a diffusion, only says how much noise is mixed in: the model is not told",
            symptom="grad_wrong",
            why="the amount of noise differs from sample to sample, and the model has to guess it",
            fix="give the step to the model as well: as an embedding, or as a further input",
            location=mixed,
            symptom_location=location if location != mixed else None,
        )


_DRAWS = frozenset({"randint", "multinomial", "rand"})
_MIN_STEPS = 3
_TABLES = frozenset({"getitem", "gather", "index_select", "take", "embedding"})
_FORMS = frozenset({
    "view", "reshape", "unsqueeze", "squeeze", "expand", "to", "long", "clone", "contiguous", "flatten", "int", "floor",
})  # fmt: skip
_NUMBERS = frozenset({"int", "item", "index"})
_OF_LISTS = frozenset({"tensor", "as_tensor", "full", "asarray"})
_OF_NUMBERS = frozenset({"getitem", "mul", "clamp"})
_GIVEN = frozenset({"cat", "concat", "hstack", "stack", "linear", "addmm", "embedding"})
"""They make an input of a model out of the factors."""
_FACTORS = _FORMS | {"sqrt", "sub", "rsub", "pow", "neg", "getitem", "float", "cos", "sin", "rsqrt", "log"}
_MAX_FOLLOWED = 40


def _only_mixes(flow: Dataflow, row: int, tensor: int, told: list[int]) -> int | None:
    """The call that adds noise to data with factors that were looked up with some drawn numbers, if they do nothing
    else.

    Args:
        told: calls that make tensors of numbers, which may tell a model.
    """
    if len(shape_of(flow, tensor)) > 2:
        return None
    factors, waiting, seen = list[int](), [tensor], {tensor}
    while waiting and len(seen) < _MAX_FOLLOWED:
        given = waiting.pop()
        for user in flow.users(given, row):
            call = flow.log.calls[user]
            name, outputs = plain_name(call.function), [use.tensor for use in call.outputs]
            is_index = name in _TABLES and len(call.inputs) > 1 and call.inputs[0].tensor != given
            if is_index and not call.inputs[0].requires_grad:
                table = shape_of(flow, call.inputs[0].tensor)
                if max(table, default=0) != prod(table):
                    return None  # It has several values for each number: samples.
                factors += outputs
            elif name in _NUMBERS and type(call.result) is int:
                factors += _looked_up_with(flow, row, user, told)
            elif name in _FORMS or (name in _OF_NUMBERS and len(call.inputs) == 1):
                waiting += [each for each in outputs if each not in seen]
                seen.update(outputs)
            else:
                return None
    return _mixing(flow, row, factors)


def _tensors_of_numbers(flow: Dataflow) -> list[int]:
    """The calls that make tensors of Python numbers, which may be steps that a model is told."""
    return [
        row
        for row, call in enumerate(flow.log.calls)
        if plain_name(call.function) in _OF_LISTS and not call.inputs and call.scalars
    ]


def _looked_up_with(flow: Dataflow, row: int, left: int, told: list[int]) -> Iterator[int]:
    """The factors that a program takes from tables at a step that was made a Python number; none if it makes tensors of
    such numbers before its next step, which may tell a model of them.

    Args:
        left: the call that made it a number.
        told: calls that make tensors of numbers.
    """
    calls, number = flow.log.calls, flow.log.calls[left].result
    steps = flow.rows_of_kind("step")
    until = next(iter(steps[bisect_left(steps, left) :][:1]), None)
    index = bisect_left(told, left)
    if until is None or (index < len(told) and told[index] < until):
        return
    found = list[int]()
    for call in calls[left + 1 : left + _MAX_FOLLOWED]:
        if call.call_site == calls[row].call_site:
            break  # the next sample
        if plain_name(call.function) == "getitem" and len(call.inputs) == 1 and call.scalars == {"1": number}:
            table = call.inputs[0]
            facts = flow.log.tensors[table.tensor].facts
            if len(facts.shape) == 1 and "float" in facts.dtype and not table.requires_grad:
                found += [use.tensor for use in call.outputs]
    if len(found) >= _BOTH:  # of data and of noise: a model that removes noise of any size is given data as they are
        yield from found


def _mixing(flow: Dataflow, row: int, factors: list[int]) -> int | None:
    """The call that adds drawn noise times one of some factors to something else times another, if the model gets none
    of the factors."""
    waiting, seen, found = list(factors), set(factors), None
    while waiting and len(seen) < _MAX_FOLLOWED:
        given = waiting.pop()
        for user in flow.users(given, row):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if name in _GIVEN:
                return None
            if name in _FACTORS and len(call.inputs) == 1:
                new = [use.tensor for use in call.outputs if use.tensor not in seen]
                waiting += new
                seen.update(new)
            elif found is None:
                found = _adds_noise(flow, user, call, given)
    return found


def _adds_noise(flow: Dataflow, row: int, call: Call, factor: int) -> int | None:
    """The call that adds the product of a factor and drawn noise, which may compute the product itself."""
    if plain_name(call.function) == "addcmul":
        is_product = any(use.tensor == factor for use in call.inputs[1:])
        return row if is_product and has_normal_draw(flow, call.inputs[1:], row) else None
    if product_of(call) is None or not has_normal_draw(flow, call.inputs, row):
        return None
    added = (each for use in call.outputs for each in flow.users(use.tensor, row))
    return next((each for each in added if plain_name(flow.log.calls[each].function) in _ADD), None)


_ADD = frozenset({"add", "addcmul"})


def _line_of_model(flow: Dataflow, mixing: int) -> Location | None:
    """The line that gives the noisy data to the model, if another function mixed them; else the one that mixed them."""
    for use in flow.log.calls[mixing].outputs:
        user = _first_user(flow, use.tensor, mixing)
        is_of_model = user is not None and flow.log.calls[user].scope is not None
        lines = callers(flow, user) if user is not None and is_of_model else ()
        line = next((each for each in lines if not each.function.endswith((".forward", ".__call__"))), None)
        mixed = flow.line_of(mixing)
        if line is not None and mixed is not None and (line.file, line.function) != (mixed.file, mixed.function):
            return location_of_line(line)
    return location_of_call(flow, mixing)


_COLLATES = frozenset({"stack", "cat", "to", "float"})


def _first_user(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The first call that uses a tensor, or the batch that a loader makes of it."""
    user = next(iter(flow.users(tensor, row)), None)
    for _ in range(_BOTH):
        call = None if user is None else flow.log.calls[user]
        if user is None or call is None or call.scope is not None or plain_name(call.function) not in _COLLATES:
            break
        user = next(iter(flow.users(call.outputs[0].tensor, user)), None)
    return user


_BOTH = 2
