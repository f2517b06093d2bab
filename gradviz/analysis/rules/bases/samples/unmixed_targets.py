"""Whether the targets of inputs that are mixed with others follow them in any way."""

from __future__ import annotations

from collections.abc import Hashable

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.samples.mixed_parts import MIXES
from gradviz.analysis.rules.bases.samples.mixed_samples import Mix


def loss_without_partner(case: Case, order: Hashable, mix: Mix) -> int | None:
    """The call that compares results of a mix with targets, if nothing else is taken in the order of the mix."""
    backward = case.histories.backward_after(mix.row)
    if backward is None or not _is_only_use(case.dataflow, order, mix, backward):
        return None
    return _loss(case, mix, backward)


def _is_only_use(flow: Dataflow, order: Hashable, mix: Mix, backward: int) -> bool:
    if isinstance(order, int):
        return all(flow.log.calls[row].inputs[0].tensor == mix.source for row in flow.users(order))
    turned = (call for call in flow.log.calls[flow.step_before(mix.row) : backward])
    names = order[:1] if isinstance(order, tuple) else ()
    return all(
        call.inputs[0].tensor == mix.source for call in turned if call.inputs and plain_name(call.function) in names
    )


def _loss(case: Case, mix: Mix, backward: int) -> int | None:
    """The first call that takes results of the mixed batch and targets with as many rows, which are no mix, and come
    neither from the batch nor from a network."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    count = shape_of(flow, mix.source)[:1]
    mixed = calls[mix.row].outputs[0].tensor
    below = flow.descendants(mixed, mix.row, backward)
    made = {mixed}.union(use.tensor for row in below for use in calls[row].outputs)
    for row in below:
        others = [use.tensor for use in calls[row].inputs if use.tensor not in made and not use.requires_grad]
        targets = [tensor for tensor in others if shape_of(flow, tensor)[:1] == count]
        if targets and calls[row].live_inputs:
            return None if any(_follows(case, each, row, mix) for each in targets) else row
    return None


def _follows(case: Case, tensor: int, before: int, mix: Mix) -> bool:
    """Whether a tensor is a mix, or was computed from the batch or by a network."""
    flow = case.dataflow
    made = flow.newest_producer(tensor, before)
    if made is not None and plain_name(flow.log.calls[made].function) in MIXES:
        return True
    sources = {use.tensor for row in flow.ancestors(tensor, before) for use in flow.log.calls[row].inputs} | {tensor}
    return mix.source in sources or not sources.isdisjoint(case.histories.trained)
