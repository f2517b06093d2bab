"""What a program keeps of a parameter to give it back later, where both share memory."""

from __future__ import annotations

from bisect import bisect_left

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

ASSIGNS_DATA = "torch.Tensor.data.__set__"
_SAME_MEMORY = frozenset({
    "detach", "data", "alias", "view", "view_as", "flatten", "reshape", "squeeze", "unsqueeze", "contiguous",
})  # fmt: skip
"""Some of them give the same memory only where nothing has to be rearranged. Conversions are left out: a program that
keeps values in another type may as well run in the type in which they are the parameters themselves."""
_MAX_STEPS = 5
_MAX_LOOKED_AT = 100


def taken_from_itself(flow: Dataflow, row: int, call: Call, target: int) -> int | None:
    """The call that took the source of a copy from its target as it is, or the copy itself where both are one tensor;
    None if the source has values of its own."""
    source, before = call.inputs[1].tensor, row
    for _ in range(_MAX_STEPS):
        if source == target:
            return None if _has_other_memory(flow, target, before, row) else before
        # What changed the target has changed its source, too: that is no other source.
        makers = (
            each
            for each in reversed(flow.producers(source, before))
            if plain_name(flow.log.calls[each].function) in _SAME_MEMORY
            and flow.log.calls[each].inputs
            and _share_memory(flow, flow.log.calls[each].inputs[0].tensor, source)
        )
        maker = next(makers, None)
        if maker is None:
            return None
        before = maker
        source = flow.log.calls[before].inputs[0].tensor
    return None


def is_changed_beside(flow: Dataflow, kept: int, row: int, call: Call) -> bool:
    """Whether something else than what a call assigns to ``.data`` has changed the target since it was kept: what
    ``p.data += move`` assigns was changed itself, to be assigned."""
    target, source = (use.tensor for use in call.inputs[:2])
    is_near = row - kept < _MAX_LOOKED_AT
    rows = range(kept + 1, row) if is_near else flow.changes(target, kept, row)
    changed = (use.tensor for each in rows for use in flow.log.calls[each].changed)
    return any(each != source and _share_memory(flow, each, target) for each in changed)


def is_written_back(flow: Dataflow, kept: int, row: int, call: Call) -> bool:
    """Whether the source of a copy was changed in place since it was taken, and nothing else has changed its target: an
    optimizer that computes with ``p.data.float()`` copies the result back, which lies there already unless the
    parameter has another dtype."""
    source = call.inputs[1].tensor
    return bool(flow.changes(source, kept + 1, row)) and not is_changed_beside(flow, kept, row, call)


def _has_other_memory(flow: Dataflow, target: int, first: int, last: int) -> bool:
    """Whether the target was given other memory between two calls: what was taken before has its former values."""
    rows = flow.data_assignments.get(target, [])
    between = rows[bisect_left(rows, first) : bisect_left(rows, last)]
    return any(not _share_memory(flow, flow.log.calls[row].inputs[-1].tensor, target) for row in between)


def _share_memory(flow: Dataflow, one: int, other: int) -> bool:
    storages = flow.log.tensors[one].storage, flow.log.tensors[other].storage
    return one == other or (storages[0] is not None and storages[0] == storages[1])
