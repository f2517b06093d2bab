"""The results of a node, and the gradients that arrived for them, by their names in its formulas."""

from __future__ import annotations

from gradviz.analysis.numbers.node_inputs import NamedTensor
from gradviz.formulas.arguments import result_names
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.plain import plain_formula
from gradviz.graph.gradients import at_index
from gradviz.graph.model import Node


def node_results(node: Node, derivative: Derivative | None) -> tuple[NamedTensor, ...]:
    """One for each output of the forward, in order."""
    return tuple(
        NamedTensor(name, node.names_at(index), node.output(index), at_index(node.values, index))
        for index, name in enumerate(_names(node, derivative))
    )


def arrived_gradients(node: Node) -> tuple[NamedTensor, ...]:
    """``grad``; if there are several, ``grads[0]`` and so on."""
    several = len(node.arrived) > 1
    return tuple(
        NamedTensor(f"grads[{index}]" if several else "grad", (), node.output(index), figures)
        for index, figures in enumerate(node.arrived)
    )


def _names(node: Node, derivative: Derivative | None) -> tuple[str, ...]:
    """The names from torch's formulas or, without torch, from the plain formula; numbers if neither fits."""
    count, plain = len(node.outputs), plain_formula(node.name)
    for names in (result_names(derivative.schema) if derivative else (), plain.outputs if plain else ()):
        if len(names) == count:
            return names
    return ("result",) if count == 1 else tuple(f"result[{index}]" for index in range(count))
