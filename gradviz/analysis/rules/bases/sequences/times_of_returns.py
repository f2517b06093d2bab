"""Which axis is that of the time steps, as a loop says that adds up what follows: ``total = r[t] + gamma * total``."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS, time_axis
from gradviz.analysis.rules.bases.batches.axis_sources import MEETS, sources_of_axis
from gradviz.analysis.rules.bases.sequences.carried_sums import Turn, carried_sums
from gradviz.graph.call_log import Call

_TABLE = 2
_MOST_LOOKS = 40
_FEWEST = 2
_AXES = {"1": 0, "1[0]": 0, "1[1]": 1}
"""By the place of a number in ``table[number]`` or ``table[:, number]``: its axis."""


class Crossed(Struct, frozen=True):
    """A recurrent layer that goes along another axis than the loop."""

    layer: int
    """Its call."""
    loop: int
    """The call that adds up, in the loop."""
    axis: int
    """That of the loop, in what the results of the layer are compared with."""


def crossed_times(flow: Dataflow) -> Iterator[Crossed]:
    """Recurrent layers whose results meet totals that a loop added up along the axis of their samples."""
    totals = dict(_totals(flow))
    seen = set[int | None]()
    for tensor, (axis, loop) in totals.items():
        for row in flow.users(tensor, loop)[:_MOST_LOOKS]:
            call = flow.log.calls[row]
            other = _other_table(flow, call, tensor)
            if call.call_site in seen or other is None or not flow.has_step_after(row):
                continue
            seen.add(call.call_site)
            layer = _layer_along(flow, other, 1 - axis, row)
            if layer is not None and _layer_along(flow, other, axis, row) is None:
                yield Crossed(layer, loop, axis)


class SummedOverSamples(Struct, frozen=True):
    """A loop that adds up along the axis of the samples, not along that of the steps."""

    loop: int
    """The call that adds up, in the loop."""
    stacked: int
    """The call that put the steps beside each other."""
    axis: int
    """That of the loop."""


def sums_over_samples(flow: Dataflow) -> Iterator[SummedOverSamples]:
    """Loops over the rows of a table whose columns were made one after the other, each from what the one before left:
    the rewards of a rollout, which lie along axis 1."""
    for turns in carried_sums(flow):
        # Of many rollouts under no_grad(), only the calls of some are known.
        found = (_summed_over_samples(flow, some) for some in (turns[:_FEWEST], turns[-_FEWEST:]))
        known = next((each for each in found if each is not None), None)
        if known is not None:
            yield known


def _summed_over_samples(flow: Dataflow, turns: list[Turn]) -> SummedOverSamples | None:
    row = turns[-1].row
    taken = [each for turn in turns for each in _parts_added(flow, turn)]
    axes = {(table, axis) for table, axis, _ in taken}
    if len(axes) != 1 or len({number for *_, number in taken}) < _FEWEST or not flow.has_step_after(row):
        return None
    ((table, axis),) = axes
    stacked = _stack_of_steps(flow, table, row)
    return SummedOverSamples(row, stacked[0], axis) if stacked is not None and stacked[1] == 1 - axis else None


def _parts_added(flow: Dataflow, turn: Turn) -> Iterator[tuple[int, int, object]]:
    """The parts of tables that a turn adds: of which table, along which axis, and their number."""
    for factors in turn.added:
        for tensor, row in factors.tensors:
            made = flow.newest_producer(tensor, row)
            call = None if made is None else flow.log.calls[made]
            if call is None or plain_name(call.function) not in ("getitem", "select") or len(call.inputs) != 1:
                continue
            table, place = call.inputs[0].tensor, _place_of_number(call)
            if place is not None and len(shape_of(flow, table)) == _TABLE:
                yield table, _AXES[place], call.scalars[place]


def _place_of_number(call: Call) -> str | None:
    """Where a call that takes or writes a part of a table got its only number, if that is one of the first two axes."""
    places = [place for place, value in call.scalars.items() if type(value) is int and "." not in place]
    return places[0] if len(places) == 1 and places[0] in _AXES else None


def _stack_of_steps(flow: Dataflow, table: int, row: int) -> tuple[int, int] | None:
    """The call that stacked what was computed step by step, and the axis of the steps."""
    for made, call in flow.makers(table, row, _MOST_LOOKS):
        name = plain_name(call.function)
        if name == "stack":
            axis = call.scalars.get("dim", call.scalars.get("1", 0))
            is_known = type(axis) is int and len(call.inputs) > _FEWEST and _is_step_by_step(flow, call, made)
            return (made, axis % _TABLE) if is_known and type(axis) is int else None
        if name not in _SAME:
            return None
    return None


_SAME = frozenset({"detach", "float", "double", "to", "clone", "contiguous", "mul", "div", "clamp", "tanh", "sign"})


def _is_step_by_step(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether each of the last parts was computed from something that was made with the one before it."""
    made = [flow.newest_producer(use.tensor, row) for use in call.inputs[-_CHAINED:]]
    known = [each for each in made if each is not None]
    if len(known) != len(made) or len(known) < _FEWEST + 1 or known != sorted(set(known)):
        return False
    return all(
        any(before < each <= last for each in flow.ancestors(use.tensor, row, before))
        for before, last, use in zip(known, known[1:], call.inputs[-len(known) :][2:], strict=False)
    )


_CHAINED = 4


def _totals(flow: Dataflow) -> Iterator[tuple[int, tuple[int, int]]]:
    """Tables that got the totals of a loop: the axis of its turns, and the call that adds up."""
    for turns in carried_sums(flow):
        made = {flow.log.calls[turn.row].outputs[0].tensor: turn.row for turn in turns}
        for total, row in made.items():
            for user in flow.users(total, row):
                call = flow.log.calls[user]
                axis = _axis_of_turn(call, total, made)
                if axis is not None and call.outputs and len(shape_of(flow, call.outputs[0].tensor)) == _TABLE:
                    yield call.outputs[0].tensor, (axis, row)


def _axis_of_turn(call: Call, total: int, made: dict[int, int]) -> int | None:
    """The axis along which a call puts the total of one turn beside those of others."""
    name = plain_name(call.function)
    if name == "setitem" and call.inputs[-1].tensor == total and len(call.inputs) == _TABLE:
        place = _place_of_number(call)
        return None if place is None else _AXES[place]
    if name == "stack" and sum(use.tensor in made for use in call.inputs) >= _FEWEST:
        axis = call.scalars.get("dim", call.scalars.get("1", 0))
        return axis if axis in (0, 1) and type(axis) is int else None
    return None


def _other_table(flow: Dataflow, call: Call, tensor: int) -> int | None:
    """What a call combines, element by element, with a table of the same shape."""
    if plain_name(call.function) not in MEETS or len(call.inputs) != _TABLE:
        return None
    other = next((use.tensor for use in call.inputs if use.tensor != tensor), tensor)
    shape = shape_of(flow, tensor)
    is_alike = shape == shape_of(flow, other) and shape[0] != shape[1] and min(shape) >= _FEWEST
    return other if other != tensor and is_alike else None


def _layer_along(flow: Dataflow, tensor: int, axis: int, row: int) -> int | None:
    """The call of a recurrent layer that took this axis of its results for time."""
    for given, place in sources_of_axis(flow, tensor, axis, row) or ():
        for user in flow.users(given, flow.step_before(row)):
            call = flow.log.calls[user]
            is_layer = user < row and plain_name(call.function) in RECURRENT_LAYERS and bool(call.live_inputs)
            if is_layer and call.inputs[0].tensor == given and time_axis(call) == place:
                return user
    return None
