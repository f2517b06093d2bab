"""Steps by hand that divide by a running average, as Adam does, with what is divided by what."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.moments import Moment, is_turned, leaves_of_gradients, moment_of
from gradviz.graph.call_log import Call

_BOTH = 2
_MAX_USES = 24
_MAX_STEPS = 4_000
_ONWARD = frozenset({"mul", "neg", "add", "sub", "to", "detach", "view", "reshape", "data", "clone"})


class AdaptiveStep(Struct, frozen=True):
    """A quotient of which a parameter is changed."""

    row: int
    above: Moment
    below: Moment


def adaptive_steps(case: Case) -> Iterator[AdaptiveStep]:
    """Every step of a parameter by a quotient of two moments of its own gradient."""
    flow, count = case.dataflow, 0
    if not case.histories.backward_calls:
        return
    leaves = leaves_of_gradients(case)
    for row in range(case.histories.backward_calls[0] + 1, len(flow.log.calls)):
        call = flow.log.calls[row]
        name = plain_name(call.function).removeprefix("_foreach_")
        if name not in ("div", "addcdiv") or call.node_count or call.kind != "operation":
            continue
        for single in flow.lists.singles(row) if count < _MAX_STEPS else ():
            pair = _quotient(flow, single, row)
            below = None if pair is None else moment_of(flow, leaves, pair[1], row)
            if pair is None or below is None or below.average is None:
                continue
            count += 1
            above = moment_of(flow, leaves, pair[0], row)
            if above is not None and above.leaf == below.leaf and _moves(flow, single, row, above.leaf):
                yield AdaptiveStep(row, above, below)


def _quotient(flow: Dataflow, call: Call, row: int) -> tuple[int, int] | None:
    """What a call divides by what, both of the same shape."""
    name, inputs = plain_name(call.function), [use.tensor for use in call.inputs]
    if name == "addcdiv":
        pair = inputs[-_BOTH:]
    elif name == "div" and len(inputs) == _BOTH:
        pair = inputs[::-1] if is_turned(call) else inputs
    else:
        return None
    if len(pair) != _BOTH or shape_of(flow, pair[0]) != shape_of(flow, pair[1]) or prod(shape_of(flow, pair[0])) == 1:
        return None
    return pair[0], pair[1]


def _moves(flow: Dataflow, call: Call, row: int, leaf: int) -> bool:
    """Whether a call changes a leaf, or what it returns is added to the leaf, as it is or times numbers."""
    own, waiting, seen = flow.memory_of(leaf), [(row, call)], set[int]()
    while waiting and len(seen) < _MAX_USES:
        at, call = waiting.pop()
        seen.add(at)
        if any(flow.memory_of(use.tensor) == own for use in (*call.changed, *call.outputs)):
            return True
        if call.function == "torch.Tensor.data.__set__" and flow.memory_of(call.inputs[0].tensor) == own:
            return True
        if at != row and plain_name(call.function) not in _ONWARD:
            continue
        if at != row and any(flow.memory_of(use.tensor) == own for use in call.inputs):
            return True
        for use in call.outputs:
            following = (each for each in flow.users(use.tensor, at)[:_BOTH] if each not in seen)
            waiting += [(each, flow.lists.single(each, use.tensor)) for each in following]
    return False
