"""Leaves whose gradients the program uses itself."""

from __future__ import annotations

from gradviz.analysis.parameters.parameter_histories import ParameterHistories


def with_gradients_read(histories: ParameterHistories) -> set[int]:
    """Tensors other than parameters whose gradients the program reads, so that it uses them for something else."""
    leaves = (each.gradient_of for number, each in enumerate(histories.log.tensors) if histories.flow.users(number))
    return {leaf for leaf in leaves if leaf is not None and histories.tensor(leaf).role != "parameter"}


def left_out_beside_others(histories: ParameterHistories) -> frozenset[int]:
    """Tensors outside of modules that get gradients and are in no optimizer, though the program gave other such tensors
    to one. An input whose gradient is read, or was asked for, is none of them."""
    if not any(histories.tensor(number).role == "tensor" for number in histories.trained):
        return frozenset()
    read = with_gradients_read(histories)
    asked = {use.tensor for row in histories.backward_calls for use in histories.log.calls[row].asked}
    return frozenset(
        number
        for number in histories.untrained
        if histories.tensor(number).role == "tensor"
        and histories.tensor(number).names
        and histories.tensor(number).hidden_in is None
        and number not in read
        and number not in asked
    )
