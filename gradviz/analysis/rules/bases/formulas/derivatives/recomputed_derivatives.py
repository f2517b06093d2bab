"""Derivatives by ``torch.func.grad()``, each of which computes its function anew: those that are the same one.

A call of ``torch.func.grad(f)(t, x)`` makes a leaf of the memory of ``t``, computes ``f``, and differentiates it.
Another one is the same derivative if it did the same calls with the same memory, was asked for the same input, and
returned the same values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import ValueFacts

_MAX_CALLS = 400
_MAX_INSIDE = 300


class Recomputed(Struct, frozen=True):
    """Two calls that computed the same derivative."""

    first: int
    second: int
    by: frozenset[str]
    """The names of the input that both differentiate by."""
    others: frozenset[str]
    """The names of inputs of the same shape, by which nothing differentiates."""


class _Call(Struct, frozen=True):
    row: int
    asked: int
    """The memory of the input."""
    given: tuple[int, ...]
    """Tensors that come from outside."""


def recomputed_derivatives(flow: Dataflow) -> Iterator[Recomputed]:
    """Pairs of calls in one step."""
    groups: dict[tuple[object, ...], list[_Call]] = defaultdict(list)
    again = {flow.memory_of(use.tensor) for row in _asked(flow) for use in flow.log.calls[row].roots}
    for row in _asked(flow):
        found = _computed_for(flow, row)
        if found is not None and flow.memory_of(flow.log.calls[row].outputs[0].tensor) not in again:
            signature, call = found
            groups[flow.step_before(row), signature].append(call)
    for calls in groups.values():
        asked = {each.asked for each in calls}
        for first, second in pairwise(calls):
            others = [each for each in _like_input(flow, first) if flow.memory_of(each) not in asked]
            if first.asked == second.asked and others and _are_equal(flow, first.row, second.row):
                by, rest = _names(flow, [flow.log.calls[first.row].asked[0].tensor]), _names(flow, others)
                yield Recomputed(first.row, second.row, by, rest)


def _asked(flow: Dataflow) -> list[int]:
    rows = flow.rows_of_kind("backward")[:_MAX_CALLS]
    return [row for row in rows if len(flow.log.calls[row].asked) == 1 and flow.log.calls[row].outputs]


def _computed_for(flow: Dataflow, row: int) -> tuple[tuple[object, ...], _Call] | None:
    """What a derivative computed between the leaf that it made and the call of backward."""
    asked = flow.log.calls[row].asked[0].tensor
    start = flow.newest_producer(asked, row)
    if start is None or plain_name(flow.log.calls[start].function) != "requires_grad" or row - start > _MAX_INSIDE:
        return None
    signature, made, given = list[object](), set[int](), dict[int, None]()
    for call in flow.log.calls[start + 1 : row]:
        outside = [use.tensor for use in call.inputs if use.tensor not in made]
        given.update(dict.fromkeys(outside))
        signature.append((call.function, tuple(flow.memory_of(each) for each in outside)))
        made.update(use.tensor for use in call.outputs)
    is_inside = all(use.tensor in made for use in flow.log.calls[row].roots)
    return (tuple(signature), _Call(row, flow.memory_of(asked), tuple(given))) if is_inside and signature else None


def _like_input(flow: Dataflow, call: _Call) -> list[int]:
    """What comes from outside with the shape of the input, other than parameters."""
    shape = flow.log.tensors[flow.log.calls[call.row].asked[0].tensor].facts.shape
    tensors = ((each, flow.log.tensors[each]) for each in call.given)
    return [each for each, tensor in tensors if tensor.role == "tensor" and tensor.facts.shape == shape]


def _are_equal(flow: Dataflow, first: int, second: int) -> bool:
    one, other = (_values(flow, row) for row in (first, second))
    return one is not None and other is not None and one.minimum != one.maximum and _facts(one) == _facts(other)


def _facts(values: ValueFacts) -> tuple[object, ...]:
    return values.minimum, values.maximum, values.zeros, values.count


def _values(flow: Dataflow, row: int) -> ValueFacts | None:
    """The values of a derivative, also as the program got it: a batch of them shares the memory."""
    for tensor in results_of(flow, row):
        for user in flow.users(tensor, row)[:1]:
            values = flow.values(tensor, user)
            if values is not None:
                return values
    return None


def results_of(flow: Dataflow, row: int) -> tuple[int, ...]:
    """The tensors with the memory of what a derivative returned."""
    return flow.sharing_memory(flow.log.calls[row].outputs[0].tensor)


def _names(flow: Dataflow, tensors: list[int]) -> frozenset[str]:
    shared = (each for tensor in tensors for each in flow.sharing_memory(tensor))
    return frozenset(name for each in shared for name in flow.log.tensors[each].names)
