"""Rows that are taken in a random order: by numbers that were drawn, or as a loader draws them."""

from __future__ import annotations

from bisect import bisect_left

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_DRAWS = frozenset({"randperm", "randint", "multinomial"})
_KEEP = frozenset({
    "getitem", "to", "long", "view", "reshape", "flatten", "split", "chunk", "unbind", "narrow", "squeeze", "clone",
    "contiguous", "detach", "cpu", "cuda",
})  # fmt: skip
_MAX_MAKERS = 8
_MIN_ROWS = 4


def are_drawn_numbers(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor of numbers is as it was drawn, or a part of it, in that order."""
    for made, call in flow.makers(tensor, row, _MAX_MAKERS):
        name = plain_name(call.function)
        if name in _DRAWS:
            return not flow.changes(tensor, made, row)
        if name not in _KEEP or len(call.inputs) != 1 or not keeps_order(flow, call):
            return False
    return False


def keeps_order(flow: Dataflow, call: Call) -> bool:
    """Whether what a call takes of its first input are not rows in another order: indexing with an array copies."""
    if plain_name(call.function) != "getitem":
        return True
    tensors = flow.log.tensors
    return tensors[call.inputs[0].tensor].storage == tensors[call.outputs[0].tensor].storage


def is_loaded_as_drawn(flow: Dataflow, row: int, lists: list[int]) -> bool:
    """Whether a call stacks samples in the order in which a loader has just drawn their numbers.

    Args:
        lists: all calls that turned drawn numbers into a list.
    """
    call = flow.log.calls[row]
    taken = [number_of_sample(flow, use.tensor, row) for use in call.inputs]
    if plain_name(call.function) != "stack" or len(taken) < _MIN_ROWS or None in taken:
        return False
    newest = bisect_left(lists, row)
    drawn = flow.log.calls[lists[newest - 1]].results if newest else ()
    count = min(len(drawn), len(taken))
    return count >= _MIN_ROWS and tuple(taken[:count]) == drawn[:count] and list(drawn) != sorted(drawn)


def lists_of_drawn_numbers(flow: Dataflow) -> list[int]:
    """Calls that turned drawn numbers into a list, as loaders do."""
    found: list[int] = []
    for row in flow.rows_of_kind("operation"):
        call = flow.log.calls[row]
        if plain_name(call.function) == "tolist" and are_drawn_numbers(flow, call.inputs[0].tensor, row):
            found.append(row)
    return found


def picked_row(call: Call) -> int | None:
    """The number of the row that a call takes out of a tensor."""
    number = call.scalars.get("1")
    is_pick = plain_name(call.function) == "getitem" and len(call.inputs) == 1
    return number if is_pick and type(number) is int else None


def call_that_picks(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that took a sample from all of them, by its number."""
    makers = flow.makers(tensor, row, _MAX_MAKERS)
    return next((made for made, call in makers if picked_row(call) is not None), None)


def number_of_sample(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The number by which a sample was taken from all of them."""
    made = call_that_picks(flow, tensor, row)
    return None if made is None else picked_row(flow.log.calls[made])
