"""Targets of a forecast: the values that the model gets, shifted by one position: ``x[:, :-1]`` and ``x[:, 1:]``."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.sequences.shifted_tokens import Shifted, compared_from, part_of, shifted_by
from gradviz.graph.call_log import Call, TensorUse

_COMPARES = frozenset({
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "gaussian_nll_loss", "poisson_nll_loss", "sub",
})  # fmt: skip
_BOTH = 2


def compared(call: Call) -> tuple[TensorUse, TensorUse] | None:
    """The trained values and the fixed ones that a call compares, one by one."""
    if plain_name(call.function) not in _COMPARES or len(call.inputs) < _BOTH or call.kind != "operation":
        return None
    one, other = sorted(call.inputs[:_BOTH], key=lambda use: not use.requires_grad)
    return (one, other) if one.requires_grad and not other.requires_grad else None


def shifted_series(flow: Dataflow, row: int) -> Shifted | None:
    """The values of the same series that a model gets, if the targets of a loss are those some positions later."""
    sides = compared(flow.log.calls[row])
    if sides is None:
        return None
    target, trained = compared_from(flow, sides[0].tensor, part_of(flow, sides[1].tensor, row), row)
    if not target.start:
        return None
    given: dict[int, int] = {}
    for each in flow.ancestors(sides[0].tensor, row, flow.step_before(row)):
        call = flow.log.calls[each]
        if any(use.requires_grad for use in call.outputs):
            for use in call.inputs:
                if not use.requires_grad and flow.log.tensors[use.tensor].role == "tensor":
                    given.setdefault(_before_padding(flow, use.tensor, each), each)
    read = {tensor: part_of(flow, tensor, each) for tensor, each in given.items()}
    own = {tensor: part for tensor, part in read.items() if part.source == target.source}
    if len({part.start for part in own.values()}) != 1:
        return None
    tensor, part = next(iter(own.items()))
    shape = shape_of(flow, tensor)
    found = shifted_by(row, given[tensor], target, part, shape, trained)
    if found is None or sum(size in found.lengths for size in shape) != 1:
        return None
    return replace(found, series=frozenset(own))


def _before_padding(flow: Dataflow, tensor: int, row: int) -> int:
    made = flow.newest_producer(tensor, row)
    is_padded = made is not None and plain_name(flow.log.calls[made].function) == "pad"
    return flow.log.calls[made].inputs[0].tensor if made is not None and is_padded else tensor
