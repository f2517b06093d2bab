"""Calls that send the gradient back with the other sign, as in adversarial training in one step."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.weighted_parameters import parts_of
from gradviz.graph.call_log import Call, TensorUse
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Node


def reversals_of(backward_calls: BackwardCalls, backward: int) -> frozenset[int]:
    """The calls whose node or hook sent back what it got with the other sign, and sums that do so: ``2 * h.detach() -
    h``."""
    number = backward_calls.graph_of(backward)
    nodes = () if number is None else backward_calls.graphs[number].nodes
    rows = (backward_calls.flow.call_of_node(node) for node in nodes if _reverses(node))
    found = frozenset(row for row in rows if row is not None)
    flow, reached = backward_calls.flow, backward_calls.reached(backward).members
    return found | {row for row in reached if _is_reversing_sum(flow, row)}


def _is_reversing_sum(flow: Dataflow, row: int) -> bool:
    """Whether a call returns the values of a tensor, and the negative of its gradient, by a sum with its copy."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in _SUMS or len(call.inputs) < len(("h", "copy")) or not call.live_inputs:
        return False
    factors: dict[int, list[float]] = {}
    waiting, count = [(use, row, factor) for use, factor in _summands(flow, call, row)], 0
    while waiting:
        use, before, factor = waiting.pop()
        made = flow.newest_producer(use.tensor, before)
        maker = None if made is None else flow.log.calls[made]
        is_part = maker is not None and plain_name(maker.function) in _OF_SUMS
        parts = _summands(flow, maker, made) if is_part and maker is not None and made is not None else []
        count += 1
        if count > _MAX_SUMMANDS:
            return False
        if parts and made is not None:
            is_live = maker is not None and plain_name(maker.function) not in _CUTS and use.requires_grad
            waiting += [(each if is_live else _cut(each), made, factor * weight) for each, weight in parts]
        else:
            both = factors.setdefault(use.tensor, [0.0, 0.0])
            both[0] += factor if use.requires_grad else 0.0
            both[1] += factor
    live = [whole for whole in factors.values() if whole[0]]
    return len(live) == len(factors) == 1 and live[0][0] < -_ROUNDING and abs(live[0][1] - 1) < _ROUNDING


def _summands(flow: Dataflow, call: Call, row: int) -> list[tuple[TensorUse, float]]:
    """The inputs that a call adds up, with their factors; none if it does something else."""
    uses = {use.tensor: use for use in call.inputs}
    return [(uses[tensor], weight) for tensor, weight in parts_of(flow, call, row) or [] if tensor in uses]


def _cut(use: TensorUse) -> TensorUse:
    return replace(use, requires_grad=False)


_SUMS = frozenset({"add", "sub", "lerp"})
_CUTS = frozenset({"detach", "data"})
_OF_SUMS = frozenset({"mul", "div", "neg", "clone", *_SUMS, *_CUTS})
_MAX_SUMMANDS = 12


def _reverses(node: Node) -> bool:
    if node.hooks and any(map(_is_opposite, node.before_hooks, node.arrived)):
        return True
    sent = [each for each in node.gradients if each is not None and each.largest]
    return node.kind == "custom" and len(sent) == len(node.arrived) == 1 and _is_opposite(node.arrived[0], sent[0])


def _is_opposite(got: TensorFigures | None, sent: TensorFigures | None) -> bool:
    """Whether one is the other times a negative number."""
    if got is None or sent is None or got.count != sent.count or not got.largest or not sent.largest:
        return False
    if got.minimum is None or got.maximum is None or sent.minimum is None or sent.maximum is None:
        return False
    factor = sent.largest / got.largest
    near = _ROUNDING * sent.largest
    is_turned = abs(sent.minimum + factor * got.maximum) <= near and abs(sent.maximum + factor * got.minimum) <= near
    return is_turned and abs(got.minimum + got.maximum) > _ROUNDING * got.largest


_ROUNDING = 1e-3
"""Of the largest gradient."""


def up_to_reversals(flow: Dataflow, row: int, reversals: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
    """The leaves from which a call was computed without passing a reversal, and the reversals that it met."""
    leaves, met = set[int](), set[int]()
    waiting, seen = [row], {row}
    while waiting:
        row = waiting.pop()
        if row in reversals:
            met.add(row)
            continue
        for use in flow.log.calls[row].live_inputs:
            made = None if use.is_live_leaf else flow.newest_producer(use.tensor, row)
            if use.is_live_leaf:
                leaves.add(use.tensor)
            elif made is not None and made not in seen:
                seen.add(made)
                waiting.append(made)
    return frozenset(leaves), frozenset(met)
