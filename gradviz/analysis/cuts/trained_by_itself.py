"""Parameters that learn from terms of themselves alone, while their values weigh something else without a history.

``math.exp(-s.item()) * error + s / 2``: the gradient of ``s`` is one half at every step, whatever the error is. A
parameter that a loss of data trains besides, such as a multiplier or a temperature, is left alone: programs take the
value of such a one as a constant on purpose.
"""

from __future__ import annotations

from gradviz.analysis.cuts.cut_paths import CutPath
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call

_KINDS = frozenset({"value", "detach", "data", "no_grad", "numpy", "rewrap"})
_WEIGH = frozenset({"mul", "div"})
_JOIN = frozenset({"add", "sub", "stack", "cat"})
_MAX_FOLLOWED = 60


def is_trained_by_itself(histories: ParameterHistories, cut_path: CutPath, backward: int) -> bool:
    """Whether a cut hides that a parameter weighs a part of the loss, which trains it by other terms without data."""
    flow, cut = histories.flow, cut_path.cut
    if cut.kind not in _KINDS or not any(_weighs(flow.log.calls[row]) for row in cut_path.calls[1:]):
        return False
    leaves = histories.live_leaves(cut.live_inputs, cut.call)[0].union(cut.live_inputs) & histories.trained
    return bool(leaves) and all(_learns_without_data(flow, leaf, backward) for leaf in leaves)


def _weighs(call: Call) -> bool:
    return plain_name(call.function) in _WEIGH and any(use.has_grad_fn for use in call.inputs)


def _learns_without_data(flow: Dataflow, leaf: int, backward: int) -> bool:
    """Whether only numbers that are made of a parameter alone are added to the loss."""
    start = flow.step_before(backward)
    waiting, own, is_added = [(leaf, start)], {leaf}, False
    values = _values_of(flow, leaf, start, backward)
    while waiting:
        tensor, after = waiting.pop()
        for row in flow.users(tensor, after):
            call = flow.log.calls[row]
            if row >= backward or not any(use.requires_grad for use in call.outputs):
                continue
            others = [use for use in call.inputs if use.tensor not in own | values]
            is_number = all(size == 1 for size in shape_of(flow, tensor))
            if others and not (plain_name(call.function) in _JOIN and is_number):
                return False
            is_added |= bool(others)
            new = [use.tensor for use in call.outputs if use.tensor not in own] if not others else []
            own.update(new)
            waiting += [(each, row) for each in new]
            if len(own) > _MAX_FOLLOWED:
                return False
    return is_added


def _values_of(flow: Dataflow, leaf: int, start: int, end: int) -> set[int]:
    """What is computed of a parameter alone and has no history: ``(x - 0.1 * x).detach()``."""
    waiting, own, values = [(leaf, start)], {leaf}, set[int]()
    while waiting and len(own) < _MAX_FOLLOWED:
        tensor, after = waiting.pop()
        for row in flow.users(tensor, after):
            call = flow.log.calls[row]
            if row >= end or call.kind != "operation" or not own.issuperset(use.tensor for use in call.inputs):
                continue
            new = [use for use in call.outputs if use.tensor not in own]
            own.update(use.tensor for use in new)
            values.update(use.tensor for use in new if not use.requires_grad)
            waiting += [(use.tensor, row) for use in new]
    return values
