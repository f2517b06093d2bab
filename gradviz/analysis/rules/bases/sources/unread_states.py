"""Tensors that each step computes the next value of, and that nothing else reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.moments import leaves_of_gradients

_MIN_STEPS = 3
_MAX_VIEWS = 200
_MAX_FOLLOWED = 12
_UPDATES = frozenset({"add", "sub", "lerp"})


class UnreadState(Struct, frozen=True):
    """A running average of the gradient of a parameter that the program itself steps."""

    leaf: int
    updated: int
    """The last call that adds a gradient to it."""
    changed: int
    """The last call that changes the parameter."""


def unread_states(case: Case) -> Iterator[UnreadState]:
    """Those that are changed in place at several steps and never read, of parameters that no optimizer has."""
    flow, histories = case.dataflow, case.histories
    leaves = leaves_of_gradients(case)
    updates: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in range(histories.backward_calls[0], len(flow.log.calls)):
        call = flow.log.calls[row]
        is_update = call.kind == "operation" and plain_name(call.function).removeprefix("_foreach_") in _UPDATES
        for single in flow.lists.singles(row) if is_update and call.changed else ():
            target, added = single.inputs[0].tensor, [leaves.get(use.tensor) for use in single.inputs[1:]]
            leaf = next((each for each in added if each is not None), None)
            if leaf is not None and target not in leaves and not _is_parameter(flow, target):
                updates[target, leaf].append(row)
    for (target, leaf), found in updates.items():
        steps = {flow.backward_before(row) for row in found}
        changes = flow.changes(leaf, found[0], len(flow.log.calls))
        by_hand = [row for row in changes if flow.log.calls[row].kind == "operation"]
        is_stepped = len(by_hand) >= _MIN_STEPS and leaf not in histories.trained
        if len(steps) >= _MIN_STEPS and is_stepped and _decays(flow, target, found) and is_never_read(flow, target, -1):
            yield UnreadState(leaf, found[-1], by_hand[-1])


def _is_parameter(flow: Dataflow, tensor: int) -> bool:
    logged = flow.log.tensors[tensor]
    return logged.role == "parameter" or logged.requires_grad


def _decays(flow: Dataflow, tensor: int, updates: list[int]) -> bool:
    """Whether each step also makes the tensor smaller: a sum of gradients is no average."""
    if plain_name(flow.log.calls[updates[0]].function).removeprefix("_foreach_") == "lerp":
        return True
    changes = flow.changes(tensor, updates[0], updates[-1])
    scaled = [row for row in changes if plain_name(flow.log.calls[row].function).removeprefix("_foreach_") == "mul"]
    return len(scaled) >= _MIN_STEPS - 1


def is_never_read(flow: Dataflow, average: int, since: int) -> bool:
    """Whether all calls that take an average only compute its next value."""
    shared = flow.sharing_memory(average)
    if len(shared) > _MAX_VIEWS:
        return False
    own = {row for tensor in shared for row in flow.users(tensor, since)}
    return all(_only_updates(flow, row, average) for row in own)


def _only_updates(flow: Dataflow, row: int, average: int) -> bool:
    waiting, seen, memory = [row], set[int](), flow.memory_of(average)
    while waiting and len(seen) < _MAX_FOLLOWED:
        row = waiting.pop()
        seen.add(row)
        call = flow.log.calls[row]
        if call.kind != "operation":
            return False
        is_assigned = call.function == "torch.Tensor.data.__set__" and call.inputs[0].tensor == average
        if is_assigned or any(flow.memory_of(use.tensor) == memory for use in call.changed):
            continue
        users = [user for use in call.outputs for user in flow.users(use.tensor, row)]
        if not users:
            return False
        waiting += [each for each in users if each not in seen]
    return not waiting
