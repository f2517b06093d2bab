"""LSTM cells and layers that get their own hidden state as the cell state, and the cell state as the hidden one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call

_FIRST_STATE = {"lstm_cell": 0, "lstm": 1}
"""By function: which of its results is the hidden state; the next one is the cell state."""
_KEEPS = SHAPE_ONLY | {"detach", "data", "index_select", "stack", "cat"}
_MASKS = frozenset({"mul", "where", "masked_fill"})
_MAX_CALLS = 6


class SwappedStates(NamedTuple):
    """A call that gets its two states in the other order."""

    row: int
    are_own: bool
    """Whether the same weights made them, in an earlier call."""


class _State(NamedTuple):
    """Which result of which earlier call a state is."""

    row: int
    result: int


def swapped_states(flow: Dataflow) -> Iterator[SwappedStates]:
    """The last call of each line that only ever gets the two states of the same weights, or of one call of other
    weights, in the other order."""
    lines: dict[int | None, list[tuple[SwappedStates, bool]]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        first = _FIRST_STATE.get(plain_name(call.function)) if call.kind == "operation" else None
        given = [_given_at(call, place) for place in ("1[0]", "1[1]")] if first is not None else []
        if first is None or None in given:
            continue
        states = [_state_of(flow, tensor, row, call) for tensor in given if tensor is not None]
        one, other = states
        if one is None or other is None or {one.result, other.result} != {first, first + 1}:
            continue
        are_own = all(_weights(flow.log.calls[each.row]) == _weights(call) for each in (one, other))
        if are_own or one.row == other.row:
            lines[call.call_site].append((SwappedStates(row, are_own), one.result > other.result))
    for found in lines.values():
        if all(is_swapped for _, is_swapped in found):
            yield found[-1][0]


def _given_at(call: Call, place: str) -> int | None:
    return next((use.tensor for use in call.inputs if use.place == place), None)


def _state_of(flow: Dataflow, tensor: int, row: int, call: Call) -> _State | None:
    """Which result of an earlier call of the same function a state is, perhaps cut off or masked."""
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, row)
        maker = None if made is None else flow.log.calls[made]
        if made is None or maker is None:
            return None
        if maker.function == call.function:
            places = [use.place for use in maker.outputs if use.tensor == tensor]
            return _State(made, int(places[0].removeprefix("return[").rstrip("]"))) if places else None
        name = plain_name(maker.function)
        live = [use for use in maker.inputs if use.requires_grad] or list(maker.inputs)
        if not ((name in _KEEPS and maker.inputs) or (name in _MASKS and len(live) == 1)):
            return None
        tensor, row = live[0].tensor, made
    return None


def _weights(call: Call) -> frozenset[int]:
    """What a call takes behind its input and its states."""
    return frozenset(use.tensor for use in call.inputs if not use.place.startswith(("0", "1[")))
