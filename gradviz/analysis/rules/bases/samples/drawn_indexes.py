"""Indexes that ``randint()`` drew, and below which number."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow

_PASSES = frozenset(
    {"where", "view", "reshape", "unsqueeze", "squeeze", "flatten", "to", "long", "expand", "contiguous"}
)
_MAX_CALLS = 20
_TWO = 2


def draws_of(flow: Dataflow, index: int, before: int) -> list[int]:
    """The calls of ``randint()`` that drew all of the indexes; none if some came from elsewhere."""
    waiting, draws, seen = [(index, before)], list[int](), 0
    while waiting:
        tensor, row = waiting.pop()
        made, seen = flow.newest_producer(tensor, row), seen + 1
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or seen > _MAX_CALLS:
            return []
        if plain_name(call.function) == "randint":
            draws.append(made)
        elif plain_name(call.function) in _PASSES:
            waiting += [(use.tensor, made) for use in call.inputs if flow.log.tensors[use.tensor].facts.dtype != "bool"]
        else:
            return []
    return draws


def bound_of(flow: Dataflow, draw: int) -> int | None:
    """The bound that a call of ``randint()`` was given, where the lowest number is 0."""
    scalars = flow.log.calls[draw].scalars
    named = scalars.get("high")
    numbers = [scalars[place] for place in ("0", "1") if type(scalars.get(place)) is int]
    if type(named) is int:
        return named if not numbers or numbers[0] == 0 else None
    if len(numbers) == _TWO:
        return int(numbers[1]) if numbers[0] == 0 else None  # type: ignore[arg-type]
    return int(numbers[0]) if numbers else None  # type: ignore[arg-type]
