"""Gradients of the loss of each sample alone, taken of losses that a batch normalization has mixed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class GradientsOfSamples(Struct, frozen=True):
    """The last call from one line that asks for them."""

    row: int
    layer: int
    """The call of the batch normalization."""
    samples: int


_MIN_TIMES = 2
_MIN_SAMPLES = 3
_PUTS_TOGETHER = frozenset({"stack", "cat", "hstack"})
_TAKES_ONE = frozenset({"getitem", "select", "unbind"})


def gradients_of_samples(case: Case) -> Iterator[GradientsOfSamples]:
    """One for each line that asks for them in training: for all samples at once, as ``torch.func.jacrev`` and
    ``is_grads_batched`` do, or for one after the other in a loop."""
    flow = case.dataflow
    lines: dict[int | None, list[GradientsOfSamples]] = defaultdict(list)
    singles: dict[tuple[int | None, int], set[int]] = defaultdict(set)
    """By line and tensor of the losses: the calls that took one of them."""
    for row in flow.rows_of_kind("backward"):
        call = flow.log.calls[row]
        losses = _losses(flow, row, call) if len(call.roots) == 1 and flow.is_by_program(call) else None
        if losses is None:
            continue
        tensor, taken = losses
        if taken is not None:
            singles[call.call_site, tensor].add(taken)
            if len(singles[call.call_site, tensor]) != _MIN_SAMPLES:
                continue
        samples = shape_of(flow, tensor)[0]
        layer = _layer(flow, tensor, row, samples)
        if layer is not None:
            lines[call.call_site].append(GradientsOfSamples(row, layer, samples))
    for found in lines.values():
        if len(found) >= _MIN_TIMES:
            yield found[-1]


def _losses(flow: Dataflow, row: int, call: Call) -> tuple[int, int | None] | None:
    """The tensor of the losses of all samples that a backward starts from; and the call that took one of them, if it
    starts from one."""
    root = call.roots[0].tensor
    shape = shape_of(flow, root)
    if len(shape) == 1 and shape[0] >= _MIN_SAMPLES:
        gradient = next((use.tensor for use in call.inputs if use.place.startswith("gradient")), None)
        return (root, None) if gradient is not None and _is_of_each(flow, gradient, shape[0]) else None
    made = flow.newest_producer(root, row) if not shape else None
    taken = None if made is None else flow.log.calls[made]
    if made is None or taken is None or plain_name(taken.function) not in _TAKES_ONE or len(taken.inputs) != 1:
        return None
    whole = taken.inputs[0].tensor
    joined = flow.newest_producer(whole, made)
    if joined is not None and plain_name(flow.log.calls[joined].function) in _PUTS_TOGETHER:
        return None  # the losses of several tasks
    return (whole, made) if len(shape_of(flow, whole)) == 1 and shape_of(flow, whole)[0] >= _MIN_SAMPLES else None


def _is_of_each(flow: Dataflow, gradient: int, samples: int) -> bool:
    """Whether a gradient is, in its memory, an identity matrix: one row for each loss."""
    readings = (flow.values(each, len(flow.log.calls)) for each in flow.sharing_memory(gradient))
    return any(
        each is not None
        and each.count == samples**2
        and each.zeros == samples**2 - samples
        and each.maximum == 1
        and each.minimum == 0
        for each in readings
    )


def _layer(flow: Dataflow, losses: int, row: int, samples: int) -> int | None:
    """The last batch normalization in training mode that the losses went through."""
    made = flow.newest_producer(losses, row)
    since = 0 if made is None else max(flow.step_before(made), flow.backward_before(made) or 0)
    for each in reversed(flow.ancestors(losses, row, since=since)):
        call = flow.log.calls[each]
        is_layer = plain_name(call.function) == "batch_norm" and bool(call.inputs)
        if is_layer and call.scalars.get("training", call.scalars.get("5")) is True:
            shape = shape_of(flow, call.inputs[0].tensor)
            return each if shape[:1] == (samples,) and bool(call.live_inputs) else None
    return None
