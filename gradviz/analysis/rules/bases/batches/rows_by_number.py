"""Rows that a program reads one by one, by their numbers, as those of ``random_split()``: for training or not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow


class DrawnTwice(Struct, frozen=True):
    """Two permutations of the same rows, of which some are trained on and held out."""

    first: int
    second: int
    """The calls that drew them."""
    count: int
    """The number of rows."""


_MOST_LEFT = 0.2
"""Which part of the rows may be read by nobody, as the last ones of an epoch are where batches must be full."""


def drawn_twice(flow: Dataflow, until: int) -> Iterator[DrawnTwice]:
    """Pairs of permutations that were drawn before the call `until`, and left torch as lists, where two parts that
    together are no larger than all the rows overlap."""
    drawn: dict[int, list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls[:until]):
        if plain_name(call.function) == "randperm" and call.outputs and becomes_list(flow, row):
            drawn[shape_of(flow, call.outputs[0].tensor)[0]].append(row)
    pairs = {count: rows[:_PAIR] for count, rows in drawn.items() if _PAIR <= len(rows) <= _MOST_DRAWN}
    for count, (held_out, trained) in _rows_read(flow, set(pairs)).items():
        total = len(held_out) + len(trained)
        if held_out & trained and (1 - _MOST_LEFT) * count <= total <= count:
            first, second = pairs[count]
            yield DrawnTwice(first, second, count)


_PAIR, _MOST_DRAWN = 2, 4


def becomes_list(flow: Dataflow, row: int) -> bool:
    """Whether what a call returns leaves torch as a list."""
    users = flow.users(flow.log.calls[row].outputs[0].tensor, row)
    return any(plain_name(flow.log.calls[user].function) == "tolist" for user in users)


def _rows_read(flow: Dataflow, counts: set[int]) -> dict[int, tuple[set[int], set[int]]]:
    """By the number of rows of a table of data: the numbers that are read without gradients, and with them."""
    found: dict[int, tuple[set[int], set[int]]] = {count: (set(), set()) for count in counts}
    for row, count, number in _numbered_rows(flow) if counts else ():
        call = flow.log.calls[row]
        if count in found and not call.live_inputs:
            found[count][call.grad_mode == "enabled"].add(number)
    return found


def _numbered_rows(flow: Dataflow) -> Iterator[tuple[int, int, int]]:
    """The calls that take one row of a tensor by its number: each with the number of rows and that of the row."""
    for row, call in calls_named(flow, ("getitem",)):
        number, shape = call.scalars.get("1"), shape_of(flow, call.inputs[0].tensor) if len(call.inputs) == 1 else ()
        if type(number) is int and shape and shape[0]:
            yield row, shape[0], number % shape[0]


def tables_read_apart(flow: Dataflow, count: int) -> list[tuple[int, int]]:
    """The tables with so many rows of which some are read for training and others are held out, each with the call that
    reads it first."""
    held_out: dict[int, set[int]] = defaultdict(set)
    trained: dict[int, set[int]] = defaultdict(set)
    first: dict[int, int] = {}
    for row, rows, number in _numbered_rows(flow):
        call = flow.log.calls[row]
        table = call.inputs[0].tensor
        if rows == count:
            (trained if call.grad_mode == "enabled" else held_out)[table].add(number)
            first.setdefault(table, row)
    return [
        (table, row)
        for table, row in first.items()
        if held_out[table] and trained[table] and held_out[table].isdisjoint(trained[table])
    ]
