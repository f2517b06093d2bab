"""Batches whose samples were drawn for them: by numbers drawn at random, or in the order of a shuffled loader."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.drawn_rows import are_drawn_numbers, number_of_sample
from gradviz.graph.call_log import Call


class DrawnSamples(Struct, frozen=True):
    """The samples of a batch."""

    row: int
    """The call that put them together."""
    index: int | None
    """The tensor of the numbers that were drawn, if one is known."""
    numbers: tuple[int, ...] = ()
    """The numbers of the samples, if they were taken one by one, and stand in no order."""


_MAX_MAKERS = 40
_MIN_ROWS = 4
_MAX_NEAR = 400
_TAKE = frozenset({"getitem", "index_select"})


def drawn_samples(flow: Dataflow, tensor: int, before: int) -> DrawnSamples | None:
    """The samples of the batch from which a tensor was computed; None if they were not drawn, or that is not known."""
    for row, call in flow.makers(tensor, before, _MAX_MAKERS):
        name = plain_name(call.function)
        if name in _TAKE and len(call.inputs) > 1:
            index = call.inputs[1].tensor
            is_stored = not call.inputs[0].requires_grad
            return DrawnSamples(row, index) if is_stored and are_drawn_numbers(flow, index, row) else None
        if name == "stack" and len(call.inputs) >= _MIN_ROWS:
            return _of_stack(flow, row, call)
    return None


def are_continued(one: DrawnSamples, other: DrawnSamples) -> bool:
    """Whether a later batch may have the samples of an earlier one, or those that follow them."""
    if one.index is not None or other.index is not None:
        return one.index == other.index
    pairs = list(zip(one.numbers, other.numbers, strict=False))
    return 2 * sum(after in (before, before + 1) for before, after in pairs) >= len(pairs)


def _of_stack(flow: Dataflow, row: int, call: Call) -> DrawnSamples | None:
    taken = [number_of_sample(flow, use.tensor, row) for use in call.inputs]
    numbers = tuple(each for each in taken if each is not None)
    if len(numbers) == len(taken):
        return DrawnSamples(row, None, numbers) if list(numbers) != sorted(numbers) else None
    drawn = _starts_of_windows(flow, row, len(taken))
    return None if drawn is None else DrawnSamples(row, drawn)


def _starts_of_windows(flow: Dataflow, row: int, count: int) -> int | None:
    """The numbers drawn for this step, one by one of which the samples begin: ``[data[i : i + n] for i in drawn]``."""
    for near in range(row - 1, max(flow.step_before(row), row - _MAX_NEAR), -1):
        call = flow.log.calls[near]
        if plain_name(call.function) in ("unbind", "tolist") and shape_of(flow, call.inputs[0].tensor) == (count,):
            drawn = call.inputs[0].tensor
            is_new = flow.newest_producer(drawn, near) or 0
            return drawn if is_new > flow.step_before(row) and are_drawn_numbers(flow, drawn, near) else None
    return None
