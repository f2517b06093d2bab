"""Samples that are changed in place each time that they are read, where no view says so: tensors that share the memory
of an array, which PyTorch does not see, and tensors in a list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import isclose, prod
from typing import NamedTuple

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.masked_again import VIEWS, is_state
from gradviz.graph.call_log import Call, ValueFacts

ARITHMETIC = frozenset({"add", "sub", "mul", "div", "pow", "addcmul", "addcdiv", "lerp"})
_AGAIN = ARITHMETIC | {
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "neg", "exp", "expm1",
    "log", "log1p", "sqrt", "square", "reciprocal", "tanh", "sigmoid", "cumsum", "cumprod",
}  # fmt: skip
"""What returns something else when it gets its own result; a bound or a rectifier does not."""


class ChangedSamples(NamedTuple):
    """Samples that one line changes again and again."""

    row: int
    """The first of its calls that changes what was changed before."""
    again: int
    """How often it did that."""
    is_array: bool


class _Visit(NamedTuple):
    """All changes of one tensor by consecutive calls."""

    first: int
    last: int


def changes_in_place(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call of the program calculates in place with a tensor that has no gradient."""
    if call.kind != "operation" or not call.inputs or plain_name(call.function) not in _AGAIN:
        return False
    use = call.inputs[0]
    is_changed = use.tensor in [each.tensor for each in call.changed]
    return is_changed and not use.requires_grad and call.inside is None and flow.has_step_after(row)


def changed_samples(flow: Dataflow) -> Iterator[ChangedSamples]:
    """Those of each line that begins such changes."""
    rows: dict[int, list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        if changes_in_place(flow, row, call):
            rows[call.inputs[0].tensor].append(row)
    arrays: dict[int | None, list[_Visit]] = defaultdict(list)
    listed: dict[int | None, list[list[_Visit]]] = defaultdict(list)
    states: dict[int | None, bool] = {}
    """By storage: a stored data set may have as many views as the log has calls."""
    for tensor, changes in rows.items():
        storage = flow.log.tensors[tensor].storage
        if storage not in states or storage is None:
            states[storage] = is_state(flow, flow.sharing_memory(tensor))
        if states[storage]:
            continue
        site, visits = flow.log.calls[changes[0]].call_site, _visits(flow, changes)
        if len(visits) == 1 and _is_of_array(flow, tensor, changes[0]):
            arrays[site] += visits
        elif len(visits) > 1 and _is_kept(flow, tensor, changes) and _are_constant(flow, changes):
            listed[site].append(visits)
    for found in arrays.values():
        yield from _read_again(flow, found)
    for of_tensors in listed.values():
        again = sum(len(visits) - 1 for visits in of_tensors)
        if len(of_tensors) >= _MIN_SAMPLES and _is_trained_on(flow, of_tensors[0][-1].last):
            yield ChangedSamples(of_tensors[0][1].first, again, is_array=False)


_MIN_SAMPLES = 3
_MAX_FOLLOWED = 12
_WRAPS = frozenset({"from_numpy", "as_tensor", "asarray", "from_dlpack", "frombuffer"})


# -- arrays ------------------------------------------------------------------------------------------------------------


def _is_of_array(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor, or what it is a part of, came into being without a call of torch that made its values."""
    for _ in range(2):
        made = flow.producers(tensor, row)
        if not made:
            first = flow.log.tensors[tensor].first_seen
            return first is not None and first >= flow.step_before(row)
        call = flow.log.calls[made[0]]
        if plain_name(call.function) in _WRAPS:
            return True
        if plain_name(call.function) not in VIEWS or not call.inputs:
            return False
        tensor, row = call.inputs[0].tensor, made[0]
    return False


def _read_again(flow: Dataflow, visits: list[_Visit]) -> Iterator[ChangedSamples]:
    """Whether samples begin with the very values that earlier changes of other tensors have left: the memory is one."""
    left: dict[tuple[int, str, float], int] = {}
    before, again = set[int](), list[_Visit]()
    for number, visit in enumerate(sorted(visits)):
        given = flow.values_of(flow.log.calls[visit.first].inputs[0], visit.first)
        result = next((use.values for use in flow.log.calls[visit.last].outputs if use.values is not None), None)
        if given is None or result is None or _is_alike(given, result):
            continue
        earlier = next((left[key] for key in _ends(given) if key in left), None)
        # A state that goes on is changed again by the very next call.
        if earlier is not None and earlier < number - 1:
            before.add(earlier)
            again.append(visit)
        left.update((key, number) for key in _ends(result))
    if len(before) >= _MIN_SAMPLES and _is_trained_on(flow, again[0].last):
        yield ChangedSamples(again[0].first, len(again), is_array=True)


def _ends(values: ValueFacts) -> Iterator[tuple[int, str, float]]:
    """The smallest and the largest value, unless many samples may have the same ones: whole numbers."""
    if values.minimum is not None and values.maximum is not None and values.minimum < values.maximum:
        if not float(values.minimum).is_integer():
            yield values.count, "minimum", values.minimum
        if not float(values.maximum).is_integer():
            yield values.count, "maximum", values.maximum


def _is_alike(one: ValueFacts, other: ValueFacts) -> bool:
    """Whether a change left nearly the same values, as one that normalizes what is normalized."""
    pairs = ((one.minimum, other.minimum), (one.maximum, other.maximum))
    return all(a is not None and b is not None and isclose(a, b, rel_tol=1e-3, abs_tol=1e-3) for a, b in pairs)


# -- tensors in a list -------------------------------------------------------------------------------------------------


def _is_kept(flow: Dataflow, tensor: int, changes: list[int]) -> bool:
    """Whether a tensor of several numbers is no part of another one, and only these calls change it."""
    made = flow.producers(tensor, changes[0])
    is_part = bool(made) and plain_name(flow.log.calls[made[0]].function) in VIEWS
    if is_part or prod(shape_of(flow, tensor)) == 1:
        return False
    return set(flow.changes(tensor, changes[0] - 1, len(flow.log.calls))) == set(changes)


def _visits(flow: Dataflow, changes: list[int]) -> list[_Visit]:
    """The changes by step."""
    steps: dict[int, list[int]] = defaultdict(list)
    for row in changes:
        steps[flow.step_before(row)].append(row)
    return [_Visit(rows[0], rows[-1]) for rows in steps.values()]


def _are_constant(flow: Dataflow, changes: list[int]) -> bool:
    """Whether numbers, data and noise alone change a tensor, and nothing that a model has computed, as averages are."""
    for row in (changes[0], changes[-1]):
        for use in flow.log.calls[row].inputs[1:]:
            above = [flow.log.calls[each] for each in flow.ancestors(use.tensor, row, flow.step_before(row))]
            taken = {use.tensor, *(each.tensor for call in above for each in call.inputs)}
            if use.requires_grad or any(call.live_inputs for call in above):
                return False
            if any(flow.log.tensors[each].gradient_of is not None for each in taken):  # a momentum
                return False
    return True


def _is_trained_on(flow: Dataflow, row: int) -> bool:
    """Whether something with a gradient is computed from what a call has changed."""
    waiting, seen = [(flow.log.calls[row].inputs[0].tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, after = waiting.pop(0)
        if tensor in seen:
            continue
        seen.add(tensor)
        for user in flow.users(tensor, after)[:_MAX_FOLLOWED]:
            call = flow.log.calls[user]
            if call.kind == "operation" and any(use.requires_grad for use in call.outputs):
                return True
            waiting += [(use.tensor, user) for use in call.outputs]
    return False
