"""Steps that an optimizer makes one after the other with the same gradients, as in a loop over its groups."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.parameters.parameter_histories import GIVES_A_GRADIENT, ParameterHistories

_MIN_TIMES = 3


class StepsInARow(Struct, frozen=True):
    """Steps of one optimizer after each backward."""

    optimizer: int
    step: int
    """One that repeats another one."""
    times: int
    """After how many backward calls it stepped again."""
    each: int
    """How often it stepped after each of them, at most."""


def steps_in_a_row(histories: ParameterHistories) -> Iterator[StepsInARow]:
    """One for each optimizer that does so after all backward calls that it steps after."""
    flow, backwards = histories.flow, histories.flow.rows_of_kind("backward")
    if not backwards:
        return
    assigned = [row for row, call in enumerate(flow.log.calls) if call.function == GIVES_A_GRADIENT]
    for optimizer, steps in histories.steps_by_optimizer.items():
        after: dict[int, list[int]] = defaultdict(list)
        for row in steps:
            if flow.log.calls[row].inside is None:
                after[bisect_left(backwards, row)].append(row)
        repeated = [rows for rows in after.values() if len(rows) > 1 and not _is_prepared(histories, rows, assigned)]
        if optimizer is not None and len(repeated) == len(after) >= _MIN_TIMES:
            yield StepsInARow(optimizer, repeated[0][1], len(repeated), max(map(len, repeated)))


def _is_prepared(histories: ParameterHistories, steps: list[int], assigned: list[int]) -> bool:
    """Whether the program gives parameters or gradients other values between the first and the last of some steps, or
    they are steps of different lines."""
    flow, calls = histories.flow, histories.log.calls
    if len({calls[row].call_site for row in steps}) > 1 or bisect_left(assigned, steps[0]) < bisect_left(
        assigned, steps[-1]
    ):
        return True
    held = {use.tensor for row in steps for use in calls[row].inputs}
    gradients = {each for tensor in held for each in histories.gradient_tensors.get(tensor, ())}
    rows = (row for tensor in held | gradients for row in flow.changes(tensor, steps[0], steps[-1]))
    return any(calls[row].kind != "step" and calls[row].inside is None for row in rows)
