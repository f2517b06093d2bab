"""Two tensors that were computed alike, from the same parameters in the same state."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class Twins(Struct, frozen=True):
    """Two computations of the same."""

    rows: tuple[tuple[int, int], ...]
    """Pairs of different calls that received parameters, the same ones in the same state."""
    parameters: frozenset[int]
    sources: frozenset[int] = frozenset()
    """The tensors that both received."""


COPIES = frozenset({"detach", "data", "clone", "contiguous", "requires_grad"})
DRAWS = frozenset({
    "multinomial", "normal", "randn", "randn_like", "bernoulli", "rand", "rand_like", "uniform", "randint", "randperm",
    "exponential", "rrelu",
})  # fmt: skip
_MAX_PAIRS = 2_000


def twins(flow: Dataflow, one: tuple[int, int], two: tuple[int, int]) -> Twins | None:
    """How two tensors, each as a call received it, were computed alike from parameters; None if they were not.

    What was drawn, such as the mask of a dropout, is not alike; nor is what a step has changed in between. Buffers may
    have changed: the statistics of a normalization do so in each forward.
    """
    found = _alike(flow, one, two)
    return found if found is not None and found.rows else None


def sources_of_both(flow: Dataflow, one: tuple[int, int], two: tuple[int, int]) -> frozenset[int] | None:
    """The tensors from which two tensors, each as a call received it, were computed alike; None if they were not, and
    where an index took a part of both, or a custom function was called: not all of their arguments are recorded."""
    found = _alike(flow, one, two, has_parts=False)
    return None if found is None else found.sources


def _alike(flow: Dataflow, one: tuple[int, int], two: tuple[int, int], *, has_parts: bool = True) -> Twins | None:
    pairs: list[tuple[int, int]] = []
    parameters, sources = set[int](), set[int]()
    waiting, seen = [(one, two)], set[tuple[int, int, int, int]]()
    while waiting:
        (tensor, row), (other, other_row) = _above_copies(flow, *waiting[-1][0]), _above_copies(flow, *waiting[-1][1])
        waiting.pop()
        made, other_made = flow.newest_producer(tensor, row), flow.newest_producer(other, other_row)
        if (tensor, -1 if made is None else made) == (other, -1 if other_made is None else other_made):
            sources.add(tensor)
            continue
        if tensor == other and flow.log.tensors[tensor].role == "buffer":
            continue
        if made is None or other_made is None or not _are_alike(flow, made, tensor, other_made, other):
            return None
        if made == other_made or (made, other_made, tensor, other) in seen:
            continue
        seen.add((made, other_made, tensor, other))
        if len(seen) > _MAX_PAIRS:
            return None
        call, other_call = flow.log.calls[made], flow.log.calls[other_made]
        if not has_parts and (plain_name(call.function) == "getitem" or call.kind == "custom"):
            return None
        leaves = {use.tensor for use in call.inputs if use.is_live_leaf}
        others = {_above_copies(flow, use.tensor, other_made)[0] for use in other_call.inputs} if leaves else set()
        shared = leaves & others
        if shared:
            pairs.append((made, other_made))
            parameters |= shared
        for use, like in zip(call.inputs, other_call.inputs, strict=True):
            waiting.append(((use.tensor, made), (like.tensor, other_made)))
    return Twins(tuple(pairs), frozenset(parameters), frozenset(sources))


def _above_copies(flow: Dataflow, tensor: int, before: int) -> tuple[int, int]:
    """The tensor that a tensor is a copy of, and the call before which it has the same values.

    What was kept of a parameter without a copy, before an earlier step, has the values that the parameter has now.
    """
    made = flow.newest_producer(tensor, before)
    while made is not None and plain_name(flow.log.calls[made].function) in COPIES and flow.log.calls[made].inputs:
        source = flow.log.calls[made].inputs[0].tensor
        before = before if is_kept_view(flow, source, tensor, made, before) else made
        tensor = source
        made = flow.newest_producer(tensor, before)
    return tensor, before


def is_kept_view(flow: Dataflow, parameter: int, view: int, made: int, before: int) -> bool:
    """Whether a parameter and what an earlier step already found taken of it are one memory."""
    storages = {flow.log.tensors[each].storage for each in (parameter, view)}
    is_one_memory = len(storages) == 1 and None not in storages
    is_of_parameter = flow.log.tensors[parameter].role == "parameter" and made < flow.step_before(before)
    return parameter != view and is_one_memory and is_of_parameter and not flow.data_replacements(parameter)


def _are_alike(flow: Dataflow, row: int, tensor: int, other_row: int, other: int) -> bool:
    """Whether two calls do the same, and return two tensors at the same place."""
    call, like = flow.log.calls[row], flow.log.calls[other_row]
    return (
        call.kind in ("operation", "custom")
        and plain_name(call.function) == plain_name(like.function)
        and call.scalars == like.scalars
        and len(call.inputs) == len(like.inputs)
        and _places(call, tensor) == _places(like, other)
        and (row == other_row or (not _is_random(call) and (bool(call.inputs) or _have_the_same_values(call, like))))
    )


def _places(call: Call, tensor: int) -> list[str]:
    return [use.place for use in call.outputs if use.tensor == tensor]


def _is_random(call: Call) -> bool:
    name = plain_name(call.function)
    if "dropout" in name:
        share = call.scalars.get("p", call.scalars.get("1"))
        return share != 0 and any(each is True for each in call.scalars.values())
    return name in DRAWS


def _have_the_same_values(call: Call, like: Call) -> bool:
    known = [use.values for use in call.outputs]
    return known == [use.values for use in like.outputs] and None not in known
