"""Calls that send the gradient back with the other sign, as in adversarial training in one step."""

from __future__ import annotations

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Node


def reversals_of(backward_calls: BackwardCalls, backward: int) -> frozenset[int]:
    """The calls whose node or hook sent back what it got with the other sign."""
    number = backward_calls.graph_of(backward)
    nodes = () if number is None else backward_calls.graphs[number].nodes
    rows = (backward_calls.flow.call_of_node(node) for node in nodes if _reverses(node))
    return frozenset(row for row in rows if row is not None)


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
