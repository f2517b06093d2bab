"""Momentum and running averages of gradients, written by hand, that begin with zeros at each step."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call


class FreshAverages(Struct, frozen=True):
    """Zeros that one line makes again and again, and that each become an average once."""

    zeros: int
    """The last call that made them."""
    change: int
    """The call that then changed a parameter with the average."""
    steps: int
    parameters: tuple[int, ...]


_MIN_STEPS = 3
ZEROS = frozenset({"zeros_like", "zeros", "new_zeros"})


def fresh_averages(histories: ParameterHistories) -> Iterator[FreshAverages]:
    """One for each line of which no zeros become an average of more than one step."""
    flow = histories.flow
    lines: dict[int | None, list[tuple[int, tuple[int, int] | None]]] = defaultdict(list)
    for row, call in calls_named(flow, ZEROS):
        if call.kind == "operation" and call.outputs:
            scaled = _scaled(flow, row, call.outputs[0].tensor)
            if scaled:
                change = _change(histories, call.outputs[0].tensor, scaled[0]) if len(scaled) == 1 else None
                lines[call.call_site].append((row, change))
    backwards = flow.rows_of_kind("backward")
    for found in lines.values():
        changes = [change for _, change in found if change is not None]
        steps = {bisect_left(backwards, change[0]) for change in changes}
        if len(changes) == len(found) and len(steps) >= _MIN_STEPS:
            parameters = tuple(dict.fromkeys(parameter for _, parameter in changes))
            yield FreshAverages(found[-1][0], changes[-1][0], len(steps), parameters)


def _scaled(flow: Dataflow, row: int, tensor: int) -> list[int]:
    """The first two calls that multiply a tensor by a decay, or move it towards another one."""
    users = (user for user in flow.users(tensor, row) if _decays(flow.lists.single(user, tensor), tensor))
    return list(islice(users, 2))


def _decays(call: Call, tensor: int) -> bool:
    if not call.inputs or call.inputs[0].tensor != tensor or call.kind != "operation":
        return False
    numbers = [call.scalars.get(place) for place in ("0", "1", "2", "other", "weight")]
    factors = [each for each in numbers if type(each) is float]
    return plain_name(call.function) in ("mul", "lerp") and any(0 < each < 1 for each in factors)


def _change(histories: ParameterHistories, tensor: int, row: int) -> tuple[int, int] | None:
    """The first call that changes a parameter with what a tensor became, before the next backward; that parameter."""
    flow = histories.flow
    backwards = flow.rows_of_kind("backward")
    index = bisect_left(backwards, row)
    until = backwards[index] if index < len(backwards) else None
    for each in flow.descendants(tensor, row - 1, until):
        for use in flow.log.calls[each].changed:
            if use.tensor != tensor and histories.tensor(use.tensor).role == "parameter":
                return each, use.tensor
    return None
