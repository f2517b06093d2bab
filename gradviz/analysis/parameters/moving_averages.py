"""Moving averages of parameters, and how much of the old average each update keeps.

Programs write them in three ways: ``t.mul_(a).add_(s, alpha=b)``, ``t.lerp_(s, b)``, and ``t.copy_(a * t + b * s)`` or
an assignment to ``.data`` with such a sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call

_SAME_MEMORY = frozenset({"data", "detach"})
_MOST_KEPT = 0.1
_ROUNDING = 1e-6
_MIN_UPDATES = 3
_MAX_STEPS_BETWEEN = 4


class Update(Struct, frozen=True):
    """One update of an average."""

    row: int
    target: int
    source: int
    kept: float
    """The factor of the old average."""
    taken: float
    """The factor of the trained values."""


def hardly_kept(histories: ParameterHistories) -> dict[int, Update]:
    """By average: its last update, if each of them kept at most a tenth of the average and took the rest anew.

    Copies keep nothing, and are left out; so are averages that are updated only now and then, and those whose factors
    change, as at the beginning of a warm-up.
    """
    updates: dict[int, list[Update]] = defaultdict(list)
    for update in _updates(histories):
        updates[update.target].append(update)
    found: dict[int, Update] = {}
    for target, each in updates.items():
        is_constant = max(one.kept for one in each) - min(one.kept for one in each) < _ROUNDING
        is_small = _ROUNDING < each[0].kept <= _MOST_KEPT and abs(each[0].kept + each[0].taken - 1) < _ROUNDING
        if len(each) >= _MIN_UPDATES and is_constant and is_small and _is_updated_often(histories, each):
            found[target] = each[-1]
    return found


def _is_updated_often(histories: ParameterHistories, updates: list[Update]) -> bool:
    first, last = updates[0].row, updates[-1].row
    steps = [
        row
        for optimizer in histories.optimizers_of(updates[0].source)
        for row in histories.steps_by_optimizer.get(optimizer, [])
        if first < row < last
    ]
    return bool(steps) and len(steps) <= _MAX_STEPS_BETWEEN * (len(updates) - 1)


def _updates(histories: ParameterHistories) -> Iterator[Update]:
    flow, first = histories.flow, next(iter(histories.steps), None)
    trained = {each for each in histories.trained if histories.is_ever_stepped_live(each)}
    for row, call in enumerate(flow.log.calls):
        if first is None or row < first or call.kind != "operation" or len(call.inputs) < 2:
            continue
        target = parameter_of(flow, call.inputs[0].tensor, row)
        if target is None or target in histories.trained:
            continue
        mixed = _mixed(flow, row, call, target)
        if mixed is not None and mixed.source in trained:
            yield mixed


def _mixed(flow: Dataflow, row: int, call: Call, target: int) -> Update | None:
    name = plain_name(call.function)
    other = parameter_of(flow, call.inputs[1].tensor, row)
    if name == "lerp":
        weight = _number(call, "2", "weight")
        return None if other is None or weight is None else Update(row, target, other, 1 - weight, weight)
    if name == "add" and call.changed:
        return _added(flow, row, call, target)
    if name == "copy" or call.function == "torch.Tensor.data.__set__":
        return _copied(flow, row, call.inputs[1].tensor, target)
    return None


def is_averaged_with_itself(flow: Dataflow, row: int, target: int) -> bool:
    """Whether a call adds to a parameter, which was scaled before, a part of the same parameter."""
    call = flow.log.calls[row]
    is_added = plain_name(call.function) == "add" and bool(call.changed) and len(call.inputs) > 1
    part = _part(flow, call.inputs[1].tensor, row) if is_added and _kept(flow, row, target) is not None else None
    return part is not None and part[0] == target


def _kept(flow: Dataflow, row: int, target: int) -> float | None:
    """The factor by which a parameter was scaled in place before this call, since the last step."""
    scaled = [each for each in flow.changes(target, flow.step_before(row), row) if _is_scale(flow.log.calls[each])]
    return _number(flow.log.calls[scaled[-1]], "1", "other") if scaled else None


def _added(flow: Dataflow, row: int, call: Call, target: int) -> Update | None:
    """``t.mul_(a).add_(s, alpha=b)``, also with ``b * s``."""
    kept = _kept(flow, row, target)
    part = _part(flow, call.inputs[1].tensor, row)
    if kept is None or part is None or part[0] == target:
        return None
    alpha = _number(call, "alpha")
    return Update(row, target, part[0], kept, part[1] * (1.0 if alpha is None else alpha))


def _copied(flow: Dataflow, row: int, tensor: int, target: int) -> Update | None:
    """``t.copy_(a * t + b * s)``."""
    made = flow.producers(tensor, row)
    call = flow.log.calls[made[-1]] if made else None
    if call is None or plain_name(call.function) != "add" or len(call.inputs) != 2 or call.scalars.get("alpha"):
        return None
    parts = [part for use in call.inputs if (part := _part(flow, use.tensor, made[-1])) is not None]
    own = [factor for tensor, factor in parts if tensor == target]
    others = [part for part in parts if part[0] != target]
    if len(own) != 1 or len(others) != 1:
        return None
    return Update(row, target, others[0][0], own[0], others[0][1])


def _part(flow: Dataflow, tensor: int, row: int) -> tuple[int, float] | None:
    """A parameter times a number."""
    own = parameter_of(flow, tensor, row)
    if own is not None:
        return own, 1.0
    made = flow.producers(tensor, row)
    call = flow.log.calls[made[-1]] if made else None
    if call is None or not _is_scale(call) or len(call.inputs) != 1:
        return None
    factor = _number(call, "1", "0", "other")
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


def _number(call: Call, *places: str) -> float | None:
    for place in places:
        value = call.scalars.get(place)
        if type(value) in (int, float):
            return float(value)  # type: ignore[arg-type]
    return None
