"""Random numbers that are drawn once for a whole training: what a generator makes its samples of, how noisy the samples
of each batch are, and which of their elements are hidden."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.fresh_operands import (
    ARITHMETIC,
    DRAWS,
    KEEPS_ONE,
    is_fresh,
    is_of_this_step,
    values_change,
)
from gradviz.analysis.rules.bases.batches.seeded_again import MIN_NUMBERS
from gradviz.graph.call_log import Call, TensorUse

_MIN_STEPS = 4
_BOTH = 2
_MOST_USES = 400
_MOST_LOOKED_AT = 12
_JOINS = frozenset({"cat", "concat", "concatenate", "hstack"})
_COMPARES = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "logical_not", "invert", "bool"})
_HIDES = frozenset({"masked_fill", "where", "mul", "setitem"})
_LOOKS_UP = frozenset({"getitem", "gather", "index_select", "take"})
_SCALES = frozenset({
    "sqrt", "rsub", "sub", "add", "mul", "div", "pow", "square", "cos", "sin", "exp", "neg", "clamp", "long",
})  # fmt: skip


def uses_as_latent(case: Case, draw: int) -> list[int]:
    """The calls in which a network takes drawn numbers, if all that it makes in a training is made of these, and
    another network judges it together with data that are new at each step; none if only few steps do so."""
    flow = case.dataflow
    shape = shape_of(flow, flow.log.calls[draw].outputs[0].tensor)
    if len(shape) < _BOTH or shape[0] < _BOTH:
        return []
    found: dict[int, list[int]] = {}
    for row, given in _followed(case, draw, KEEPS_ONE | _JOINS):
        call = flow.log.calls[row]
        if plain_name(call.function) in _JOINS and _has_other_numbers(case, call, given, row):
            return []
        for tensor in _parameters(case, call):
            found.setdefault(tensor, []).append(row)
    for tensor, rows in found.items():
        trained = [
            row for row in case.histories.forward_uses(tensor) if case.histories.backward_through(row) is not None
        ]
        is_often = len({flow.step_before(row) for row in trained}) >= _MIN_STEPS
        if is_often and set(trained) <= set(rows) and _are_judged(case, tensor, trained):
            return trained
    return []


def _has_other_numbers(case: Case, call: Call, given: int, row: int) -> bool:
    """Whether drawn numbers are joined with some that differ from step to step, and that stand for no classes; or with
    what a network makes of the drawn ones, as the states of an actor are with its actions."""
    flow = case.dataflow
    for use in call.inputs:
        above = [flow.log.calls[each] for each in flow.ancestors(use.tensor, row, flow.step_before(row))]
        names = {plain_name(each.function) for each in above}
        is_of_these = any(each.tensor == given for maker in above for each in maker.inputs)
        if use.tensor != given and (is_of_these or names.isdisjoint(("embedding", "one_hot"))):
            return is_of_these or bool(names & DRAWS) or is_fresh(case, call, use, row)
    return False


def _are_judged(case: Case, parameter: int, rows: list[int]) -> bool:
    """Whether a network of another optimizer gets what comes of these calls, and data that are new at each step."""
    flow, own = case.dataflow, set(case.histories.optimizers_of(parameter))
    for row in rows[-_MOST_LOOKED_AT:]:
        until = flow.next_of_kind("step", flow.next_of_kind("step", row))  # the judge may be the first to step
        below = {row, *flow.descendants(flow.log.calls[row].outputs[0].tensor, row, until, live=True)}
        for each in sorted(below):
            judges = [
                tensor
                for tensor in _parameters(case, flow.log.calls[each])
                if own.isdisjoint(case.histories.optimizers_of(tensor))
            ]
            if judges:
                return _gets_new_data(case, judges[0], below)
    return False


def _gets_new_data(case: Case, judge: int, below: set[int]) -> bool:
    """Whether the layer with this parameter also takes data without a gradient whose values change from step to step,
    which were not made of what others are made of."""
    flow = case.dataflow
    values = []
    for row in case.histories.forward_uses(judge):
        call = flow.log.calls[row]
        data = [use for use in call.inputs if flow.log.tensors[use.tensor].role == "tensor"]
        if row in below or len(data) != 1 or data[0].requires_grad or _is_cut_off(case, data[0], row):
            continue
        values.append(flow.values_of(data[0], row))
    return len(values) >= _MIN_STEPS and values_change(values)


def _is_cut_off(case: Case, use: TensorUse, row: int) -> bool:
    """Whether a network computed it: ``fake.detach()``."""
    flow = case.dataflow
    above = flow.ancestors(use.tensor, row, flow.step_before(row))
    return any(_parameters(case, flow.log.calls[each]) for each in above)


def _parameters(case: Case, call: Call) -> list[int]:
    return [use.tensor for use in call.inputs if case.dataflow.log.tensors[use.tensor].role == "parameter"]


def uses_as_time(case: Case, draw: int) -> list[int]:
    """The calls that scale new data with a factor for each sample that depends on drawn numbers, if a network is told
    these numbers, too: how noisy each sample of a batch is."""
    flow = case.dataflow
    shape = shape_of(flow, flow.log.calls[draw].outputs[0].tensor)
    if not shape or shape[0] < MIN_NUMBERS or any(size != 1 for size in shape[1:]):
        return []
    found, scaled, is_told = list[int](), set[int](), False
    for row, given in _followed(case, draw, KEEPS_ONE | _SCALES | _LOOKS_UP | _JOINS):
        call = flow.log.calls[row]
        is_told |= bool(_parameters(case, call)) or (plain_name(call.function) in _JOINS and _is_live_below(case, row))
        others = [use for use in call.inputs if use.tensor != given]
        if plain_name(call.function) != "mul" or len(others) != 1 or others[0].requires_grad:
            continue
        data = others[0]
        is_new = not is_of_this_step(case, data, row) or is_fresh(case, call, data, row)
        if is_new and _is_one_for_each(shape_of(flow, given), shape_of(flow, data.tensor)):
            scaled.add(data.tensor)
            found.append(row)
    # Batches that were cut before the training are other tensors at each step.
    is_often = min(len(scaled), len({flow.step_before(row) for row in found})) >= _MIN_STEPS
    return found if is_told and is_often else []


def _is_one_for_each(factor: Shape, data: Shape) -> bool:
    is_along = len(factor) == len(data) > 1 and factor[0] == data[0] > 1
    return is_along and all(size == 1 for size in factor[1:]) and max(data[1:]) > 1


def _is_live_below(case: Case, row: int) -> bool:
    """Whether a network takes what a call returns."""
    flow = case.dataflow
    result = flow.log.calls[row].outputs[0].tensor
    return any(_parameters(case, flow.log.calls[user]) for user in flow.users(result, row)[:_MOST_LOOKED_AT])


def uses_as_mask(case: Case, draw: int) -> list[int]:
    """The calls that hide elements of new data, each sample its own, by a mask of drawn numbers, where the loss is
    taken of the same elements: those of padding are hidden from both."""
    flow = case.dataflow
    shape = shape_of(flow, flow.log.calls[draw].outputs[0].tensor)
    if len(shape) < _BOTH or min(shape[:_BOTH]) < _BOTH:
        return []
    found, data, checksums = list[int](), list[TensorUse](), list[int]()
    hidden, asked = set[bool](), set[bool]()
    for row, given in _followed(case, draw, KEEPS_ONE | _COMPARES | {"sub", "rsub"}):
        call = flow.log.calls[row]
        name = plain_name(call.function)
        others = [use for use in call.inputs if use.tensor != given and shape_of(flow, use.tensor)]
        is_turned = _is_turned(flow, given, row)
        if name in ("getitem", "mul", "where") and (live := next((use for use in others if use.requires_grad), None)):
            asked.add((name != "where" or live.place == "1") ^ is_turned)
        if name not in _HIDES or not others or any(use.requires_grad for use in others) or not call.outputs:
            continue
        whole = next((use for use in others if shape_of(flow, use.tensor) == shape), None)
        if whole is None or shape_of(flow, given) != shape:
            continue
        found.append(row)
        data.append(whole)
        hidden.add((name in ("masked_fill", "setitem") or (name == "where" and whole.place == "2")) ^ is_turned)
        checksums += _looked_up(case, call, row)
    is_often = min(len({use.tensor for use in data}), len({flow.step_before(row) for row in found})) >= _MIN_STEPS
    is_new = _BOTH * len(set(checksums)) > len(checksums) > _MIN_STEPS or any(
        not is_of_this_step(case, use, row) or is_fresh(case, flow.log.calls[row], use, row)
        for row, use in list(zip(found, data, strict=True))[-_BOTH:]
    )
    return found if hidden & asked and is_new and is_often else []


def _is_turned(flow: Dataflow, mask: int, row: int) -> bool:
    """Whether a mask is the opposite of what compared drawn numbers: ``~mask``, ``1 - mask``, ``mask == 0``."""
    is_turned = False
    for _, call in flow.makers(mask, row, _MOST_LOOKED_AT):
        name = plain_name(call.function)
        is_taken_away = name in ("sub", "rsub") and ("0" in call.scalars or call.function.endswith("rsub__"))
        is_zero = name == "eq" and call.scalars.get("1") in (0, False)
        is_turned ^= name in ("invert", "logical_not") or is_taken_away or is_zero
    return is_turned


def _looked_up(case: Case, call: Call, row: int) -> Iterator[int]:
    """The checksums of the ids that a call returns, where an embedding takes them."""
    flow = case.dataflow
    for user in flow.users(call.outputs[0].tensor, row)[:_MOST_LOOKED_AT]:
        lookup = flow.log.calls[user]
        found = lookup.checksums.get(lookup.inputs[0].place) if plain_name(lookup.function) == "embedding" else None
        if found is not None:
            yield found
            return


def _followed(case: Case, draw: int, through: frozenset[str]) -> Iterator[tuple[int, int]]:
    """The calls that take drawn numbers, or what calls of these names made of them without a gradient, or by joining
    them with others: each with the tensor that it takes. Nothing, if the numbers change later."""
    flow = case.dataflow
    first = flow.log.calls[draw].outputs[0].tensor
    if flow.changes(first, draw + 1, len(flow.log.calls)):
        return
    waiting, seen, count = [(first, draw)], {first}, 0
    while waiting:
        given, after = waiting.pop()
        for row in flow.users(given, after):
            count += 1
            if count > _MOST_USES:
                return
            call = flow.log.calls[row]
            yield row, given
            name = plain_name(call.function)
            if call.kind != "operation" or not call.outputs or name not in through:
                continue
            result = call.outputs[0]
            is_data = not result.requires_grad or name in _JOINS
            # Data that were scaled are something else.
            is_data &= name not in ARITHMETIC or shape_of(flow, result.tensor) == shape_of(flow, given)
            if is_data and result.tensor not in seen | {use.tensor for use in call.inputs}:
                seen.add(result.tensor)
                waiting.append((result.tensor, row))
