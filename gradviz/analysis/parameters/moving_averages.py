"""Moving averages of parameters, and how much of the old average each update keeps.

The average may be a parameter or a plain tensor, which is changed in place, is given other data, or is replaced by a
new tensor; see `gradviz.analysis.parameters.weighted_parameters` for the sums.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.weighted_parameters import WeightedParameters, number_given
from gradviz.graph.call_log import Call

_SAME_MEMORY = frozenset({"data", "detach"})
_MOST_KEPT = 0.1
_ROUNDING = 1e-6
_UNEQUAL = 1e-4
_MIN_UPDATES = 3
_MAX_STEPS_BETWEEN = 4
_BOTH = 2
_SUMS = frozenset({"add", "sub", "lerp"})


class Update(Struct, frozen=True):
    """One update of an average."""

    row: int
    target: int
    source: int
    kept: float
    """The factor of the old average."""
    taken: float
    """The factor of the trained values."""
    is_new: bool = False
    """Whether the average is another tensor after it."""
    is_falling: bool = False
    """Whether the updates before it kept more of the average, each as much as the one before it or less."""


def wrong_factors(histories: ParameterHistories, averages: list[list[Update]]) -> tuple[list[Update], list[Update]]:
    """The last update of each average, if each of them kept at most a tenth of the average and took the rest anew, or
    came there from keeping more; and of those whose two factors add up to another number than 1.

    Copies keep nothing, and are left out; so are averages that are updated only now and then, and those whose factors
    change otherwise: a warm-up keeps more at each update. A sum that takes all of the trained values may be divided
    later.
    """
    swapped: list[Update] = []
    unequal: list[Update] = []
    for each in averages:
        kept, whole = each[0].kept, each[0].kept + each[0].taken
        if len(each) < _MIN_UPDATES or not _is_updated_often(histories, each):
            continue
        if not _is_constant(each):
            if _ends_as_a_copy(each):
                swapped.append(replace(each[-1], is_falling=True))
        elif _ROUNDING < kept <= _MOST_KEPT and abs(whole - 1) < _ROUNDING:
            swapped.append(each[-1])
        elif 0 < kept < 1 and 0 < each[0].taken < 1 and abs(whole - 1) > _UNEQUAL:
            unequal.append(each[-1])
    return swapped, unequal


def updates_of_averages(histories: ParameterHistories, sums: WeightedParameters) -> list[list[Update]]:
    """The updates of each average, in order."""
    updates: dict[tuple[int | None, int], list[Update]] = defaultdict(list)
    for update in _updates(histories, sums):
        site = histories.log.calls[update.row].call_site
        updates[(site, update.source) if update.is_new else (None, update.target)].append(update)
    return list(updates.values())


def _is_constant(updates: list[Update]) -> bool:
    kept, taken = [each.kept for each in updates], [each.taken for each in updates]
    return max(kept) - min(kept) < _ROUNDING and max(taken) - min(taken) < _ROUNDING


def _ends_as_a_copy(updates: list[Update]) -> bool:
    """Whether the updates keep less and less of the average, the last ones at most a tenth."""
    kept = [each.kept for each in updates]
    never_rises = all(later <= earlier + _ROUNDING for earlier, later in pairwise(kept))
    add_up_to_one = all(abs(each.kept + each.taken - 1) < _ROUNDING for each in updates)
    return never_rises and add_up_to_one and kept[0] > _MOST_KEPT and _ROUNDING < kept[-_MIN_UPDATES] <= _MOST_KEPT


def _is_updated_often(histories: ParameterHistories, updates: list[Update]) -> bool:
    first, last = updates[0].row, updates[-1].row
    steps = [
        row
        for optimizer in histories.optimizers_of(updates[0].source)
        for row in histories.steps_by_optimizer.get(optimizer, [])
        if first < row < last
    ]
    return bool(steps) and len(steps) <= _MAX_STEPS_BETWEEN * (len(updates) - 1)


def _updates(histories: ParameterHistories, sums: WeightedParameters) -> Iterator[Update]:
    flow, first = histories.flow, next(iter(histories.steps), None)
    trained = {each for each in histories.trained if histories.is_ever_stepped_live(each)}
    for row, call in enumerate(flow.log.calls):
        if first is None or row < first or call.kind != "operation":
            continue
        for use in call.changed:
            target = sums.base(use.tensor)
            if target not in histories.trained and _is_last_change(flow, sums, row, target):
                yield from _mixed(sums, flow, row, (target, use.tensor, row + 1), trained)
        if call.function == "torch.Tensor.data.__set__" and call.inputs[0].tensor not in histories.trained:
            yield from _mixed(sums, flow, row, (call.inputs[0].tensor, call.inputs[-1].tensor, row), trained)
        if plain_name(call.function).removeprefix("_foreach_") in _SUMS and not call.changed:
            yield from _replaced(sums, flow, row, trained)


def _is_last_change(flow: Dataflow, sums: WeightedParameters, row: int, target: int) -> bool:
    """Whether nothing changes the memory of a tensor again before the next step."""
    changes = sums.changes.get(flow.log.tensors[target].storage or 0, [])
    following = bisect_right(changes, row)
    return following == len(changes) or flow.step_before(changes[following]) > row


def _mixed(
    sums: WeightedParameters, flow: Dataflow, row: int, given: tuple[int, int, int], trained: set[int]
) -> Iterator[Update]:
    """The update of a tensor, if it then is a sum of what it was and of a trained parameter.

    Args:
        given: the tensor, the one with its new values, and the call before which it has them.
    """
    target, tensor, before = given
    found = sums.sum_of(tensor, before, flow.step_before(row)) or {}
    sources = [each for each in found if each != target]
    if len(found) == _BOTH and len(sources) == 1 and sources[0] in trained:
        yield Update(row, target, sources[0], found[target], found[sources[0]])


def _replaced(sums: WeightedParameters, flow: Dataflow, row: int, trained: set[int]) -> Iterator[Update]:
    """``shadow[name] = a * shadow[name] + b * p``: each update makes new tensors, of those that the same line made."""
    call, since = flow.log.calls[row], flow.step_before(row)
    for use in call.outputs if not call.node_count else ():
        found = sums.sum_of(use.tensor, row + 1, since) or {}
        sources = [each for each in found if each in trained]
        old = [each for each in found if each not in trained]
        made = flow.producers(old[0], row) if len(old) == 1 and len(sources) == 1 else ()
        if made and flow.log.calls[made[-1]].call_site == call.call_site:
            yield Update(row, use.tensor, sources[0], found[old[0]], found[sources[0]], is_new=True)


def is_averaged_with_itself(flow: Dataflow, row: int, target: int) -> bool:
    """Whether a call adds to a parameter, which was scaled before, a part of the same parameter."""
    call = flow.log.calls[row]
    is_added = plain_name(call.function) == "add" and bool(call.changed) and len(call.inputs) > 1
    part = _part(flow, call.inputs[1].tensor, row) if is_added and _kept(flow, row, target) is not None else None
    return part is not None and part[0] == target


def _kept(flow: Dataflow, row: int, target: int) -> float | None:
    """The factor by which a parameter was scaled in place before this call, since the last step."""
    scaled = [each for each in flow.changes(target, flow.step_before(row), row) if _is_scale(flow.log.calls[each])]
    return number_given(flow.log.calls[scaled[-1]], "1", "other") if scaled else None


def _part(flow: Dataflow, tensor: int, row: int) -> tuple[int, float] | None:
    """A parameter times a number."""
    own = parameter_of(flow, tensor, row)
    if own is not None:
        return own, 1.0
    made = flow.producers(tensor, row)
    call = flow.log.calls[made[-1]] if made else None
    if call is None or not _is_scale(call) or len(call.inputs) != 1:
        return None
    factor = number_given(call, "1", "0", "other")
    parameter = parameter_of(flow, call.inputs[0].tensor, made[-1])
    return None if factor is None or parameter is None else (parameter, factor)


def parameter_of(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The parameter whose values a tensor has, as they are."""
    if flow.log.tensors[tensor].role == "parameter":
        return tensor
    made = flow.producers(tensor, row)
    maker = flow.log.calls[made[0]] if made else None
    if maker is None or plain_name(maker.function) not in _SAME_MEMORY or not maker.inputs:
        return None
    source = maker.inputs[0].tensor
    return source if flow.log.tensors[source].role == "parameter" else None


def _is_scale(call: Call) -> bool:
    return plain_name(call.function) == "mul" and len(call.inputs) == 1
