"""Choices that decide which of several trained parts computes the result of a sample, as those of a router do."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_TAKES_ROWS = frozenset({
    "getitem", "setitem", "index_put", "where", "masked_select", "masked_scatter", "index_select", "index_add",
    "index_copy", "scatter", "scatter_add", "take_along_dim",
})  # fmt: skip
_SHAPE_ONLY = frozenset({"squeeze", "getitem", "view", "reshape", "flatten", "unbind", "t", "transpose", "unsqueeze"})
_KEEPS_MASK = _SHAPE_ONLY | {
    "nonzero", "flatnonzero", "argwhere", "any", "float", "bool", "to", "where", "permute", "gt",
}  # fmt: skip
_FROM_PARTS = frozenset({"stack", "cat"})
_SELECTS = frozenset({"getitem", "gather", "take_along_dim", "index_select"})
_MAX_MASKS = 100
_MAX_SHAPING = 4
_EXPERTS = 3
"""Axes of the weights of several experts."""


def sends_rows(flow: Dataflow, row: int, backward: int, choosers: frozenset[int]) -> bool:
    """Whether what a call chose sends rows to several parts that train, or takes one of their results for each row.

    Args:
        choosers: the leaves from which the choice was computed: what it takes of them, as of a table of codes, is no
            expert.
    """
    numbers = set()
    for user, chosen in _uses(flow, row, backward):
        call = flow.log.calls[user]
        name = plain_name(call.function)
        if name == "eq" and len(call.inputs) == 1 and _takes_rows(flow, user, backward):
            numbers.add(str(call.scalars.get("1")))
        elif name == "one_hot":
            numbers |= _columns(flow, user, backward)
        elif name in _SELECTS and _is_of_experts(flow, user, call, choosers | {chosen}):
            return True
    return len(numbers) > 1


def result_of_chosen(flow: Dataflow, row: int, backward: int, choosers: frozenset[int]) -> int | None:
    """The call that computes a result with the weights that a choice took of those of all experts."""
    for user, chosen in _uses(flow, row, backward):
        call = flow.log.calls[user]
        if plain_name(call.function) not in _SELECTS or not _is_of_experts(flow, user, call, choosers | {chosen}):
            continue
        tensor, after = call.outputs[0].tensor, user
        for _ in range(_MAX_SHAPING):
            following = next((each for each in flow.users(tensor, after) if each < backward), None)
            if following is None:
                break
            found = flow.log.calls[following]
            if plain_name(found.function) not in _SHAPE_ONLY or len(found.inputs) > 1:
                return following
            tensor, after = found.outputs[0].tensor, following
    return None


def joined_later(flow: Dataflow, chosen: int, row: int, backward: int) -> int | None:
    """The mean or sum over several results of each sample, of as many parts as were chosen, that a call leads to."""
    shape = shape_of(flow, flow.log.calls[chosen].outputs[-1].tensor)
    count = shape[-1] if shape else 1
    for _ in range(_MAX_JOINED):
        call = flow.log.calls[row]
        made = shape_of(flow, call.outputs[0].tensor) if call.outputs else ()
        users = [user for user in flow.users(call.outputs[0].tensor, row) if user < backward] if call.outputs else []
        if count == 1 or count not in made[1:] or not users:
            return None
        row = users[0]
        name, results = plain_name(flow.log.calls[row].function), flow.log.calls[row].outputs
        if name in _JOINS and results and count not in shape_of(flow, results[0].tensor)[1:]:
            return row
    return None


_JOINS = frozenset({"mean", "sum", "einsum", "amax", "max"})
_MAX_JOINED = 16


def _uses(flow: Dataflow, row: int, backward: int) -> Iterator[tuple[int, int]]:
    """The calls before a backward that use what was chosen, each with the tensor, also behind changes of its shape."""
    waiting = [(use.tensor, row) for use in flow.log.calls[row].outputs if not use.requires_grad]
    seen = {tensor for tensor, _ in waiting}
    while waiting and len(seen) < _MAX_MASKS:
        chosen, after = waiting.pop()
        for user in flow.users(chosen, after):
            call = flow.log.calls[user]
            if user >= backward or not call.outputs:
                continue
            yield user, chosen
            made = call.outputs[0].tensor
            if plain_name(call.function) in _SHAPE_ONLY and len(call.inputs) == 1 and made not in seen:
                seen.add(made)
                waiting.append((made, user))


def _columns(flow: Dataflow, row: int, backward: int) -> set[str]:
    """Which columns of a table of ones and zeros take rows, each for itself."""
    found = set[str]()
    waiting, seen = [(flow.log.calls[row].outputs[0].tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_MASKS:
        table, after = waiting.pop()
        seen.add(table)
        for user in flow.users(table, after):
            call = flow.log.calls[user]
            if user >= backward or len(call.inputs) != 1 or not call.outputs:
                continue
            if plain_name(call.function) == "getitem" and _takes_rows(flow, user, backward):
                found.add(str(sorted(call.scalars.items())))
            elif plain_name(call.function) in _KEEPS_MASK and call.outputs[0].tensor not in seen:
                waiting.append((call.outputs[0].tensor, user))
    return found


def _takes_rows(flow: Dataflow, row: int, backward: int) -> bool:
    """Whether a mask takes rows of something trained, or puts such rows at a place, or is multiplied with them."""
    waiting, seen = [(use.tensor, row) for use in flow.log.calls[row].outputs], set[int]()
    while waiting and len(seen) < _MAX_MASKS:
        mask, after = waiting.pop()
        seen.add(mask)
        for user in flow.users(mask, after):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if user >= backward:
                break
            if name in _TAKES_ROWS and call.live_inputs:
                return True
            if name == "mul" and any(len(shape_of(flow, use.tensor)) > 1 for use in call.live_inputs):
                return True
            if name in _KEEPS_MASK and len(call.inputs) == 1:
                waiting += [(use.tensor, user) for use in call.outputs if use.tensor not in seen]
    return False


def _is_of_experts(flow: Dataflow, row: int, call: Call, choosers: frozenset[int]) -> bool:
    """Whether a call takes from the stacked results of several parts, or from a parameter with a matrix for each."""
    given = call.inputs[0]
    if given.tensor in choosers:
        return False
    if given.is_live_leaf:
        return len(shape_of(flow, given.tensor)) >= _EXPERTS
    for _, maker in flow.makers(given.tensor, row, _MAX_SHAPING):
        if plain_name(maker.function) in _FROM_PARTS:
            return len({use.tensor for use in maker.live_inputs}) > 1
        if plain_name(maker.function) not in _KEEPS_MASK:
            return False
    return False
