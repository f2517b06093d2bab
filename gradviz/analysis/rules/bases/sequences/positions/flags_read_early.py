"""Ends of episodes that a replay of stored steps reads before the step which reports them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call


class EarlyFlag(Struct, frozen=True):
    """A state that is masked by an end, before the step that reported this end is computed again."""

    masked: int
    """The call that masks it in the replay."""
    used: int
    """The call that masked the state by the same flag while the program acted: behind the step."""
    ratio: int
    """The call that subtracts the old log-probabilities from the new ones."""
    largest: float
    """The largest difference between them, before any step has changed the policy."""


def flags_read_early(flow: Dataflow) -> Iterator[EarlyFlag]:
    """The first one of each line. The new log-probability of a step depends on the flag that this step reported after
    the old one was computed: they differ, though no step has changed the policy in between."""
    told = set[Location | None]()
    for row, call in calls_named(flow, ("sub",)):
        found = _early_flag(flow, row, call)
        line = None if found is None else location_of_call(flow, found.masked)
        if found is not None and line not in told:
            told.add(line)
            yield found


_MIN_STEPS = 3
_TRIED = 2
_BOTH = 2
_MAX_FOLLOWED = 8
_ROUNDING = 1e-4
_JOINS = frozenset({"stack"})
_COMPLEMENTS = frozenset({"rsub", "sub", "logical_not", "bitwise_not", "invert"})
_MASKS = frozenset({"mul", "where", "masked_fill"})
_KEEPS = SHAPE_ONLY | {"bool", "int", "long"}


def _early_flag(flow: Dataflow, row: int, call: Call) -> EarlyFlag | None:
    if len(call.inputs) != _BOTH or not call.inputs[0].requires_grad or call.inputs[1].requires_grad:
        return None
    values = call.outputs[0].values if call.outputs else None
    ends = () if values is None else (values.minimum, values.maximum)
    largest = max((abs(end) for end in ends if end is not None), default=0.0)
    if largest <= _ROUNDING or not _is_ratio(flow, row, call):
        return None
    since = flow.step_before(row)
    old = _steps_of(flow, call.inputs[1].tensor, row)
    new = None if old is None or min(old.values()) < since else _newest_join(flow, call, row, since, len(old))
    if old is None or new is None:
        return None
    found = [_flag_of(flow, new, position, made, since) for position, made in sorted(old.items())[1 : 1 + _TRIED]]
    if not found or None in found or found[0] is None:
        return None
    return EarlyFlag(*found[0], row, largest)


def _is_ratio(flow: Dataflow, row: int, call: Call) -> bool:
    users = flow.users(call.outputs[0].tensor, row)
    return any(plain_name(flow.log.calls[each].function) == "exp" for each in users)


def _steps_of(flow: Dataflow, tensor: int, before: int) -> dict[int, int] | None:
    """For each step, the call that made what a tensor has of it: one that stacks them, or one that was filled."""
    for _ in range(_MAX_FOLLOWED):
        rows = flow.producers(tensor, before)
        filled = _filled(flow, rows)
        if len(filled) >= _MIN_STEPS:
            return filled
        made = rows[-1] if rows else None
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs:
            return None
        if plain_name(call.function) in _JOINS:
            return _stacked(flow, made, call)
        if plain_name(call.function) not in _KEEPS or _takes_steps(flow, call):
            return None
        tensor, before = call.inputs[0].tensor, made
    return None


def _takes_steps(flow: Dataflow, call: Call) -> bool:
    """Whether a call takes some of the first axis, so that positions are others: a part of the second one is fine."""
    before, after = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    return plain_name(call.function) == "getitem" and before[:1] != after[:1]


def _stacked(flow: Dataflow, row: int, call: Call) -> dict[int, int] | None:
    if call.scalars.get("1", call.scalars.get("dim", 0)) != 0 or len(call.inputs) < _MIN_STEPS:
        return None
    made = [flow.newest_producer(use.tensor, row) for use in call.inputs]
    return None if None in made else {position: each for position, each in enumerate(made) if each is not None}


def _filled(flow: Dataflow, rows: tuple[int, ...]) -> dict[int, int]:
    """By position: the calls that made what was assigned there."""
    found = dict[int, int]()
    for row in rows:
        call = flow.log.calls[row]
        position = call.scalars.get("1")
        if plain_name(call.function) == "setitem" and type(position) is int and len(call.inputs) == _BOTH:
            made = flow.newest_producer(call.inputs[1].tensor, row)
            if made is not None:
                found[position] = made
    return found


def _newest_join(flow: Dataflow, call: Call, row: int, since: int, count: int) -> Call | None:
    """The call that stacks what was computed again of as many steps."""
    for made in reversed(flow.ancestors(call.inputs[0].tensor, row, since)):
        each = flow.log.calls[made]
        if plain_name(each.function) in _JOINS and len(each.inputs) == count == len(each.live_inputs):
            return each
    return None


def _flag_of(flow: Dataflow, new: Call, position: int, old: int, since: int) -> tuple[int, int] | None:
    """The mask above what was computed again of a step, by a flag that masked it behind this step before."""
    tensor = new.inputs[position].tensor
    rows = flow.ancestors(tensor, None, since)
    for row in rows:
        call = flow.log.calls[row]
        flag = _taken_at(call, position)
        if flag is None:
            continue
        steps = _steps_of(flow, call.inputs[0].tensor, row)
        reported = None if steps is None else steps.get(position)
        if reported is None or not _is_flag(flow, reported):
            continue
        masked = next((each for each in _masks_below(flow, flag, row) if each in rows), None)
        acted = _network_above(flow, old, since)
        if masked is None or acted is None:
            continue
        shape = shape_of(flow, flow.log.calls[masked].outputs[0].tensor)
        own = _masks_below(flow, flow.log.calls[reported].outputs[0].tensor, reported)
        used = [each for each in own if shape_of(flow, flow.log.calls[each].outputs[0].tensor) == shape and each < row]
        if used and min(used) > acted:
            return masked, min(used)
    return None


def _network_above(flow: Dataflow, row: int, since: int) -> int | None:
    """The newest call of a layer of which a result was computed."""
    log = flow.log
    for each in reversed(flow.ancestors(log.calls[row].outputs[0].tensor, row + 1, since)):
        if any(log.tensors[use.tensor].role == "parameter" for use in log.calls[each].inputs):
            return each
    return None


def _taken_at(call: Call, position: int) -> int | None:
    """What a call takes of a tensor at a position of its first axis: ``flags[t]``, ``flags.unbind()``."""
    name = plain_name(call.function)
    if len(call.inputs) != 1:
        return None
    if name == "unbind" and call.scalars.get("1", call.scalars.get("dim", 0)) == 0:
        return call.outputs[position].tensor if position < len(call.outputs) else None
    return call.outputs[0].tensor if name == "getitem" and call.scalars == {"1": position} else None


def _is_flag(flow: Dataflow, row: int) -> bool:
    values = flow.log.calls[row].outputs[0].values
    return values is not None and values.minimum in (0, 1) and values.maximum in (0, 1)


def _masks_below(flow: Dataflow, tensor: int, row: int) -> Iterator[int]:
    """The calls that mask something by the complement of a flag."""
    waiting, count = [(tensor, row, False)], 0
    while waiting and count < _MAX_FOLLOWED:
        count += 1
        given, after, is_turned = waiting.pop(0)
        for user in flow.users(given, after)[:_MAX_FOLLOWED]:
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if name in _MASKS and len(call.inputs) > 1 and call.outputs and (is_turned or name != "mul"):
                yield user
            elif len(call.inputs) == 1 and call.outputs and name in _KEEPS | _COMPLEMENTS:
                waiting.append((call.outputs[0].tensor, user, is_turned or name in _COMPLEMENTS))
