"""Gradients that a program reads after each of several backward calls and adds up, though nothing clears them between.

``backward()`` adds to ``.grad``, so the second reading has the first in it, and what is added up is no sum of gradients
of samples. Readings of which only norms are taken, and differences of two readings, are none of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.gradients.gradient_events import Event
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, CallLog

_MIN_SUMS = 4
_MAX_WINDOWS = 40
_MAX_FOLLOWED = 12
_MAX_USES = 8
_ADD = frozenset({"add", "addcmul", "addcdiv", "lerp"})
_STACK = frozenset({"stack", "vstack"})
_IN_SAME_MEMORY = frozenset({
    "detach", "data", "view", "reshape", "flatten", "ravel", "view_as", "squeeze", "unsqueeze",
})  # fmt: skip
_FOLLOWED = _IN_SAME_MEMORY | frozenset({
    "clone", "to", "cpu", "float", "double", "half", "bfloat16", "contiguous", "mul", "div", "neg", "pow", "square",
    "cat", "abs", "clamp", "clip", "sign", "nan_to_num",
})  # fmt: skip
_Window = tuple[int, int]
"""A backward call, and the next one."""


class RunningSums(Struct, frozen=True):
    """Readings after the backward calls of one line."""

    leaves: tuple[int, ...]
    backward: int
    """The first that added to what had been read."""
    added: int
    """The first call that adds such a reading to others."""
    times: int


def running_sums(histories: ParameterHistories, events: Mapping[int, list[tuple[int, Event]]]) -> Iterator[RunningSums]:
    """One for each line that calls backward, if most of its sums are read and added up."""
    flow, leaf_of = histories.flow, _leaves_of_gradients(histories.log)
    for windows in _windows_by_line(flow, events).values():
        found: list[tuple[_Window, dict[int, int]]] = []
        for window, leaves in list(windows.items())[:_MAX_WINDOWS]:
            added = _added_up(flow, window, leaves, leaf_of)
            found += [(window, added)] if added else []
        if len(found) >= max(_MIN_SUMS, min(len(windows), _MAX_WINDOWS) / 2):
            leaves = {leaf for _, added in found for leaf in added}
            (backward, _), first = found[0]
            yield RunningSums(tuple(sorted(leaves)), backward, min(first.values()), len(windows))


def _windows_by_line(
    flow: Dataflow, events: Mapping[int, list[tuple[int, Event]]]
) -> dict[int | None, dict[_Window, set[int]]]:
    """By call site, between which two of its backward calls a gradient holds what a third one before them added."""
    calls = flow.log.calls
    found: dict[int | None, dict[_Window, set[int]]] = defaultdict(lambda: defaultdict(set))
    for leaf, of_leaf in events.items():
        if flow.log.tensors[leaf].facts.elements == 1:
            continue
        for (before, one), (row, other), (after, third) in zip(of_leaf, of_leaf[1:], of_leaf[2:], strict=False):
            site = calls[row].call_site
            if one == other == third == "backward" and calls[before].call_site == site == calls[after].call_site:
                found[site][row, after].add(leaf)
    return found


def _leaves_of_gradients(log: CallLog) -> dict[int, int]:
    """By gradient: its leaf; also of tensors that the program itself has made gradients."""
    found = {number: each.gradient_of for number, each in enumerate(log.tensors) if each.gradient_of is not None}
    assigned = (call for call in log.calls if call.function == "torch.Tensor.grad.__set__" and len(call.inputs) > 1)
    return {call.inputs[1].tensor: call.inputs[0].tensor for call in assigned} | found


def _added_up(flow: Dataflow, window: _Window, leaves: set[int], leaf_of: Mapping[int, int]) -> dict[int, int]:
    """By leaf: the call that adds to something what was read of its gradient between two backward calls."""
    found: dict[int, int] = {}
    for row in range(window[0] + 1, window[1]):
        call = flow.log.calls[row]
        if call.inside is not None or call.kind != "operation":
            continue
        for use in call.inputs:
            leaf = leaf_of.get(use.tensor)
            if leaf is not None and leaf in leaves and leaf not in found:
                added = _adding_call(flow, row, use.tensor, window[1])
                found |= {} if added is None else {leaf: added}
    return found


def _adding_call(flow: Dataflow, row: int, tensor: int, end: int) -> int | None:
    """The call that adds a reading to others, if the call `row` reads it, or makes something of it that is added."""
    waiting, seen = [(row, tensor, False)], {tensor}
    while waiting and len(seen) < _MAX_FOLLOWED:
        user, given, is_copy = waiting.pop()
        call = flow.log.calls[user]
        name = plain_name(call.function)
        is_stacked = name in _STACK and user > end and len(call.inputs) >= _MIN_SUMS
        if is_stacked or _adds_to_others(flow, user, call, given):
            return user
        if name not in _FOLLOWED or not call.outputs:
            continue
        result, is_copy = call.outputs[0].tensor, is_copy or name not in _IN_SAME_MEMORY
        if result in seen or flow.log.tensors[result].gradient_of is not None:
            continue
        seen.add(result)
        following = [each for each in flow.users(result, user)[:_MAX_USES] if is_copy or each < end]
        waiting += [(each, result, is_copy) for each in following]
    return None


def _adds_to_others(flow: Dataflow, row: int, call: Call, tensor: int) -> bool:
    """Whether a call adds a tensor to a sum: to one that it changes in place, or that the same line has made."""
    name, tensors = plain_name(call.function), flow.log.tensors
    if name not in _ADD or not call.inputs or not call.outputs:
        return False
    target = call.inputs[0].tensor
    others = [use.tensor for use in call.inputs if use.tensor != tensor]
    if not others or tensors[target].gradient_of is not None or tensors[target].facts.elements == 1:
        return False
    if call.changed:
        return target != tensor and tensors[target].role != "parameter"
    made = (flow.newest_producer(other, row) for other in others)
    return any(each is not None and flow.log.calls[each].call_site == call.call_site for each in made)
