"""Permutations of which a program uses only one part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class UsedPart(Struct, frozen=True):
    """The only part of a permutation that a program uses."""

    call: int
    count: int
    bound: int
    is_head: bool
    """Whether it is the part before the bound."""


def used_parts(case: Case) -> Iterator[UsedPart]:
    """Of the first permutation of each line: a program that draws anew in each step takes a sample of the data."""
    flow, seen = case.dataflow, set[tuple[int | None, str]]()
    for row, call in enumerate(flow.log.calls):
        if call.kind != "operation" or not call.outputs or not _is_permutation(flow, row, call):
            continue
        count = shape_of(flow, call.outputs[0].tensor)[0]
        used = _begin_and_end(flow, row, call.outputs[0].tensor, count)
        start, stop = used.pop() if len(used) == 1 else (0, count)
        if (start == 0) is (stop == count):
            continue
        bound = stop if start == 0 else start
        key = call.call_site, "head" if start == 0 else "tail"
        if 0 < bound < count and key not in seen:
            seen.add(key)
            yield UsedPart(row, count, bound, start == 0)


def parts_of_permutation(flow: Dataflow) -> Iterator[tuple[int, list[int]]]:
    """The calls that draw a permutation, with the tensors that are different parts of it, if anything uses them."""
    for row, call in enumerate(flow.log.calls):
        if call.kind != "operation" or not call.outputs or not _is_permutation(flow, row, call):
            continue
        count = shape_of(flow, call.outputs[0].tensor)[0]
        parts: dict[tuple[int, int], int] = {}
        for user in flow.users(call.outputs[0].tensor, row):
            taken = flow.log.calls[user]
            for use, part in zip(taken.outputs, _parts_of(flow, taken, count), strict=False):
                if part is not None and flow.users(use.tensor, user):
                    parts[part] = use.tensor
        bounds = sorted(parts)
        if all(end <= start for (_, end), (start, _) in pairwise(bounds)):
            yield row, list(parts.values())


def taken_alike(flow: Dataflow, row: int, part: int) -> list[int]:
    """A part of the permutation that the call `row` drew, and the same part wherever else the program takes it: once
    for the inputs, and once for their targets."""
    made = flow.newest_producer(part, len(flow.log.calls))
    taken = flow.log.calls[made] if made is not None else None
    if taken is None or len(taken.outputs) != 1:
        return [part]
    users = (flow.log.calls[user] for user in flow.users(flow.log.calls[row].outputs[0].tensor, row))
    alike = (user for user in users if (user.function, user.scalars) == (taken.function, taken.scalars))
    return [part, *(user.outputs[0].tensor for user in alike if len(user.inputs) == len(taken.inputs) == 1)]


def drawn_halves(flow: Dataflow) -> Iterator[tuple[int, list[int]]]:
    """The calls that draw numbers of which a comparison makes a mask, with the mask and what inverts it."""
    for row, call in calls_named(flow, ("lt", "le", "gt", "ge")):
        drawn = flow.newest_producer(call.inputs[0].tensor, row) if call.inputs else None
        if drawn is None or plain_name(flow.log.calls[drawn].function) != "rand" or not call.outputs:
            continue
        mask = call.outputs[0].tensor
        inverse = [
            use.tensor
            for user in flow.users(mask, row)
            if plain_name(flow.log.calls[user].function) in ("invert", "logical_not", "bitwise_not")
            for use in flow.log.calls[user].outputs
        ]
        if len(shape_of(flow, mask)) == 1:
            yield drawn, [mask, *inverse]


def _is_permutation(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call draws a permutation: ``randperm(n)``, or ``rand(n).argsort()``."""
    name = plain_name(call.function)
    if name != "argsort" or len(shape_of(flow, call.outputs[0].tensor)) != 1:
        return name == "randperm"
    drawn = flow.newest_producer(call.inputs[0].tensor, row)
    return drawn is not None and plain_name(flow.log.calls[drawn].function) in ("rand", "randn")


def _begin_and_end(flow: Dataflow, row: int, tensor: int, count: int) -> set[tuple[int, int]]:
    """Where the parts of a permutation begin and end that a program has a use for; all of it for another use."""
    used: set[tuple[int, int]] = set()
    for user in flow.users(tensor, row):
        call = flow.log.calls[user]
        for use, part in zip(call.outputs, _parts_of(flow, call, count), strict=False):
            if part is None or flow.users(use.tensor, user):
                used.add(part or (0, count))
        if not call.outputs:
            used.add((0, count))
    return used


def _parts_of(flow: Dataflow, call: Call, count: int) -> list[tuple[int, int] | None]:
    """By result of a call, which part of a permutation it is; None for anything else."""
    name, told = plain_name(call.function), call.scalars
    if name in ("split", "split_with_sizes", "tensor_split", "chunk"):
        ends = list(accumulate(shape_of(flow, use.tensor)[0] for use in call.outputs))
        return list(zip([0, *ends], ends, strict=False))
    if name == "narrow":
        start, length = told.get("2", told.get("start")), told.get("3", told.get("length"))
        return [(start % count, start % count + length) if type(start) is type(length) is int else None]
    if name != "getitem" or len(call.inputs) > 1:
        return [None for _ in call.outputs]
    start, stop = (told.get(place, default) for place, default in (("1.start", 0), ("1.stop", count)))
    if type(start) is not int or type(stop) is not int or "1" in told:
        return [None]
    first, last = (min(each, count) if each >= 0 else max(each + count, 0) for each in (start, stop))
    is_slice = shape_of(flow, call.outputs[0].tensor) == (last - first,)
    return [(first, last) if is_slice else None]
