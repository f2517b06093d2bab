"""What is said of nodes, compared with those that torch's own test inputs of its operators make."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from gradviz.formulas.arguments import edge_names
from gradviz.formulas.available_formulas import known_formulas

_SAMPLES = 3
"""Of each operator."""
# Its double backward raises: "derivative for aten::_ctc_loss_backward is not implemented".
_SAID_WRONGLY = frozenset({"CtcLossBackward0"})


@dataclass
class Comparison:
    """What was compared, and what differs."""

    edges: int = 0
    names: set[str] = field(default_factory=set)
    twice: dict[str, bool] = field(default_factory=dict)
    """By node, whether torch's tests differentiate it twice."""
    problems: list[str] = field(default_factory=list)

    def report(self) -> Iterator[str]:
        """The figures, a line each."""
        yield f"torch's test inputs: {self.edges:,} nodes of {len(self.names)} names, whose inputs have their names"
        yield f"  differentiable twice: as torch's own tests have it for {len(self.twice)} names"

    def add(self, operator: Any, nodes: list[Any]) -> None:
        """What one call made."""
        known = known_formulas().by_node
        for node in nodes:
            derivative = known.get(node.name())
            if derivative is None:
                continue
            self.edges += 1
            self.names.add(node.name())
            if not edge_names(derivative, len(node.next_functions)):
                self.problems.append(f"{node.name()} has {len(node.next_functions)} inputs: {derivative.schema}")
        if len(nodes) == 1 and (only := known.get(nodes[0].name())) and only.node not in _SAID_WRONGLY:
            self.twice[only.node] = operator.supports_gradgrad
            if operator.supports_gradgrad != only.second.is_possible:
                self.problems.append(f"{only.node} of {operator.name}: {only.second}")


def compare() -> Comparison:
    """All operators, on CPU, in double precision where they have it."""
    comparison = Comparison()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operator in op_db:
            for result in _results(operator):
                comparison.add(operator, _nodes_of(result))
    comparison.problems = list(dict.fromkeys(comparison.problems))
    return comparison


def _results(operator: Any) -> Iterator[torch.Tensor]:
    dtypes = operator.supported_backward_dtypes("cpu") & {torch.float64, torch.float32}
    if not dtypes:
        return
    dtype = torch.float64 if torch.float64 in dtypes else torch.float32
    for sample in islice(operator.sample_inputs("cpu", dtype, requires_grad=True), _SAMPLES):
        given = operator(sample.input, *sample.args, **sample.kwargs)
        for each in given if isinstance(given, (tuple, list)) else (given,):
            if isinstance(each, torch.Tensor) and each.grad_fn is not None:
                yield each


def _nodes_of(result: torch.Tensor) -> list[Any]:
    """All operations behind a result."""
    found: dict[Any, None] = {}
    waiting: list[Any] = [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in found or "AccumulateGrad" in node.name():
            continue
        found[node] = None
        waiting += [other for other, _ in node.next_functions]
    return list(found)
