"""Trained numbers that a loss multiplies something with: the leaf behind a factor, and the name of one side."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories


def trained_leaf_behind(
    histories: ParameterHistories, tensor: int, row: int, through: frozenset[str], *, beside_data: bool
) -> tuple[int | None, int]:
    """The trained leaf that a factor is computed from, and nothing else; and with which sign.

    Args:
        row: the call that takes the factor.
        through: operations that may lie between the two.
        beside_data: whether these may also take tensors without a gradient.
    """
    flow, sign = histories.flow, 1
    for _ in range(_MOST_CALLS):
        if tensor in histories.trained:
            return tensor, sign
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        given = () if call is None else call.live_inputs if beside_data else call.inputs
        if made is None or call is None or plain_name(call.function) not in through or len(given) != 1:
            break
        sign *= -1 if plain_name(call.function) == "neg" else 1
        tensor, row = given[0].tensor, made
    return None, sign


def name_before(flow: Dataflow, tensor: int, row: int, through: frozenset[str], *, beside_data: bool) -> str:
    """The name of the variable that a call takes, or of what that was made from by some operations; empty if it has
    none. The arguments are those of `trained_leaf_behind`."""
    for _ in range(_MOST_CALLS):
        names = flow.log.tensors[tensor].names
        if names:
            return names[0].rpartition(".")[2]
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in through or not call.inputs:
            break
        if len(call.inputs) > 1 and not beside_data:
            break
        tensor, row = call.inputs[0].tensor, made
    return ""


_MOST_CALLS = 10
