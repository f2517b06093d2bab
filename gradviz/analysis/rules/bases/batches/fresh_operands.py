"""Where random numbers, drawn at each step or once for all, meet data that are new at each step."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.seeded_again import MIN_NUMBERS
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE
from gradviz.graph.call_log import Call, TensorUse, ValueFacts

DRAWS = frozenset({"randn", "rand", "randn_like", "rand_like", "normal", "uniform", "bernoulli", "exponential"})
ARITHMETIC = frozenset({"add", "sub", "mul", "div", "lerp", "where", "addcmul"})
KEEPS_ONE = frozenset({"to", "float", "view", "reshape", "unsqueeze", "squeeze", "clone", "detach", "neg", "expand"})
_PASSED = ARITHMETIC | KEEPS_ONE
_COMPARES = frozenset({"lt", "le", "gt", "ge"})
_MAX_ARITHMETIC = 6
_MEAN_AND_NOISE = 2
_BOTH = 2


def is_fresh(case: Case, call: Call, use: TensorUse, row: int) -> bool:
    """Whether an operand is data that differ from step to step, or a factor of the noise that the model computes."""
    flow = case.dataflow
    if use.requires_grad:
        name = plain_name(call.function)
        return use.has_grad_fn and (name == "mul" or (name == "addcmul" and use is not call.inputs[0]))
    made = flow.producers(use.tensor, row)
    if not made or _is_drawn(case, use.tensor, row) or prod(shape_of(flow, use.tensor)) < MIN_NUMBERS:
        return False
    if _is_of_parameters_alone(case, use.tensor, row):
        return False
    maker = flow.log.calls[made[-1]]
    if len(maker.outputs) > 1:
        return _takes_one_each_time(flow, made[-1], call)
    same_line = [
        each
        for each in flow.rows_of_kind("operation")
        if flow.log.calls[each].call_site == maker.call_site
        and flow.log.calls[each].function == maker.function
        and flow.log.calls[each].outputs
    ]
    values = [flow.log.calls[each].outputs[0].values for each in same_line]
    return values_change(values) or values_change(_first_of_each_step(flow, same_line))


def _first_of_each_step(flow: Dataflow, rows: list[int]) -> list[ValueFacts | None]:
    """What the first call of each step returns: two views of a batch may both be made of its samples."""
    first = dict[int, int]()
    for row in rows:
        first.setdefault(flow.step_before(row), row)
    return [flow.log.calls[row].outputs[0].values for row in first.values()]


def _takes_one_each_time(flow: Dataflow, made: int, call: Call) -> bool:
    """Whether the calls of a line take one of several results after the other, as of ``x.split(16)``, with a step
    between."""
    steps = dict[int, int]()
    for use in flow.log.calls[made].outputs:
        users = (row for row in flow.users(use.tensor, made) if flow.log.calls[row].call_site == call.call_site)
        first = next(users, None)
        if first is not None:
            steps.setdefault(flow.step_before(first), use.tensor)
    return len(steps) >= _MIN_DIFFERENT


def values_change(values: list[ValueFacts | None]) -> bool:
    """Whether most of them differ, or at least from those before: a program that goes through few batches in order,
    again and again, has few different ones."""
    different = len({each for each in values if each is not None})
    turns = sum(one != other for one, other in pairwise(values) if one is not None and other is not None)
    return different * 2 > len(values) or (different >= _MIN_DIFFERENT and turns * 2 > len(values) - 1)


_MIN_DIFFERENT = 3


def _is_of_parameters_alone(case: Case, tensor: int, row: int) -> bool:
    """Whether it is computed from nothing that was made after the training began: it only changes with parameters, as
    the values of all states do to which a table of rewards is added."""
    flow = case.dataflow
    first = min(case.histories.reached_by, default=0)
    above = flow.ancestors(tensor, row, flow.step_before(row))
    calls = [flow.log.calls[each] for each in above]
    if any(not call.inputs or plain_name(call.function) in _CHOOSE for call in calls):
        return False
    made = {use.tensor for call in calls for use in call.outputs}
    taken = [flow.log.tensors[each] for each in {use.tensor for call in calls for use in call.inputs} - made]
    has_parameters = any(each.role == "parameter" for each in taken)
    return has_parameters and all(each.role == "parameter" or (each.first_seen or 0) < first for each in taken)


_CHOOSE = frozenset({"getitem", "narrow", "select", "index_select", "split", "chunk", "unbind"})
"""Parts of data that were there before, which may be other ones at each step."""


def _is_drawn(case: Case, tensor: int, row: int) -> bool:
    """Whether a tensor has drawn numbers, perhaps times a factor (a number, or one for each sample), or is a mask of
    those below a bound."""
    flow, after = case.dataflow, row
    for _ in range(_MAX_ARITHMETIC):
        made = flow.producers(tensor, after)
        if not made:
            return False
        after = made[-1]
        call = flow.log.calls[after]
        name = plain_name(call.function)
        if name in DRAWS:
            return True
        size = prod(shape_of(flow, tensor))
        whole = [use.tensor for use in call.inputs if prod(shape_of(flow, use.tensor)) == size]
        if name not in _PASSED | _COMPARES or len(whole) != 1 or (len(call.inputs) > 1 and name not in ("mul", "div")):
            return False
        tensor = whole[0]
    return False


_MIN_STEPS = 4
_MIN_AXES = 2
_MAX_LOOKS = 40
"""Uses that are looked at: whether an operand is new at each step takes a look at all calls of its line."""


def uses_as_noise(case: Case, draw: int) -> list[int]:
    """The first calls of a training that combine drawn numbers, element by element, with what is new at each step; none
    if only few steps do so."""
    flow = case.dataflow
    tensor = flow.log.calls[draw].outputs[0].tensor
    shape = shape_of(flow, tensor)
    if len(shape) < _MIN_AXES or prod(shape) < MIN_NUMBERS or flow.changes(tensor, draw + 1, len(flow.log.calls)):
        return []
    found, waiting, seen, looks = list[int](), [(tensor, draw)], {tensor}, 0
    sliced = set[int]()
    while waiting:
        given, after = waiting.pop()
        for row in flow.users(given, after):
            call = flow.log.calls[row]
            name, is_slice = plain_name(call.function), _takes_the_beginning(case, call)
            name = "detach" if is_slice else name
            if name not in _PASSED or call.kind != "operation" or not call.outputs:
                continue
            looks += 1
            if looks > _MAX_LOOKS:
                break
            if case.histories.backward_through(row) is None:
                continue
            if call.grad_mode != "enabled" and call.scope is not None:
                continue  # A network that is scored with it is not trained on it.
            others = [use for use in call.inputs if use.tensor != given]
            out = call.outputs[0]
            shape = shape_of(flow, given) if name in ARITHMETIC else shape
            is_each = shape_of(flow, out.tensor) == shape and any(shape_of(flow, use.tensor) == shape for use in others)
            is_new = any(is_fresh(case, call, use, row) and is_of_this_step(case, use, row) for use in others)
            if name in ARITHMETIC and is_each and is_new:
                # The beginning of a table may be added to data: positions of a sequence. No network predicts those.
                is_noise = (
                    _is_shifted(case, row)
                    if out.requires_grad
                    else given not in sliced or _is_predicted(flow, draw, row)
                )
                found += [row] if is_noise else []
            # What another tensor is overwritten with, by ``out=`` or in place, is another thing at the next step.
            elif not out.requires_grad and out.tensor not in seen | {use.tensor for use in call.inputs}:
                seen.add(out.tensor)
                sliced |= {out.tensor} if is_slice or given in sliced else set()
                waiting.append((out.tensor, row))
    is_often = len({flow.step_before(row) for row in found}) >= _MIN_STEPS
    return sorted(found) if is_often and any(_is_learned_from(flow, row) for row in found) else []


def _is_learned_from(flow: Dataflow, row: int) -> bool:
    """Whether a layer takes what comes of a call, and no table keeps it, of which each batch draws other rows."""
    waiting, seen = [row], {row}
    while waiting and len(seen) < _MAX_LOOKS:
        each = waiting.pop()
        call = flow.log.calls[each]
        if call.live_inputs:
            return True
        own = {use.tensor for use in call.changed}
        for use in call.outputs:
            if use.tensor not in own:
                new = [user for user in flow.users(use.tensor, each) if user not in seen]
                seen.update(new)
                waiting += new
    return bool(waiting)


def _is_predicted(flow: Dataflow, draw: int, row: int) -> bool:
    """Whether a loss compares what a model computes with drawn numbers or the first of them, after a call and before
    the next step."""
    drawn = flow.log.calls[draw].outputs[0].tensor
    until = next((step for step in flow.rows_of_kind("step") if step > row), row)
    begin = (flow.log.calls[each] for each in flow.users(drawn, draw) if flow.step_before(row) < each < until)
    parts = {use.tensor for call in begin if plain_name(call.function) == "getitem" for use in call.outputs} | {drawn}
    users = (flow.log.calls[each] for part in parts for each in flow.users(part, draw) if row < each < until)
    return any(
        plain_name(call.function) in LOSSES_BY_SAMPLE | {"sub"}
        and len(call.inputs) == _BOTH
        and len(call.live_inputs) == 1
        for call in users
    )


def is_of_this_step(case: Case, use: TensorUse, row: int) -> bool:
    """Whether the model computes it, or it was made since the last step."""
    made = case.dataflow.producers(use.tensor, row)
    return use.requires_grad or (bool(made) and made[-1] >= case.dataflow.step_before(row))


def _takes_the_beginning(case: Case, call: Call) -> bool:
    """``noise[: len(x)]``: as many rows as a batch has, always from the first one on."""
    if plain_name(call.function) != "getitem" or len(call.inputs) != 1 or not call.outputs or not call.scalars:
        return False
    whole, part = (shape_of(case.dataflow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    return whole[1:] == part[1:] and all(place.endswith(".stop") for place in call.scalars)


def _is_shifted(case: Case, row: int) -> bool:
    """Whether the product of noise and scale is added to something that the model computes as well: a mean."""
    flow = case.dataflow
    if plain_name(flow.log.calls[row].function) == "addcmul" and flow.log.calls[row].inputs[0].requires_grad:
        return True
    made = flow.log.calls[row].outputs[0].tensor
    return any(
        plain_name(call.function) in ("add", "sub") and len(call.live_inputs) == _MEAN_AND_NOISE
        for call in (flow.log.calls[user] for user in flow.users(made, row))
    )
