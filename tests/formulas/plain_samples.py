"""Plain formulas compared with autograd on torch's own test inputs of its operators, edge cases included.

Values are bound as a recording could: inputs by the edges of the node, settings and other tensors by what it saved.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from gradviz.formulas.arguments import edge_names, result_names
from gradviz.formulas.available_formulas import known_formulas
from gradviz.formulas.plain import plain_formulas
from gradviz.formulas.plain.evaluation import gradients
from gradviz.formulas.plain.plain_formula import PlainFormula

_SAMPLES = 12
"""Of each operator and type."""
LIMITS = {
    "AsStridedBackward0": "written for an input in order in memory",
    "CatBackward0": "an empty vector may stand among matrices",
    "CdistBackward0": "for p = 0 torch gives 0",
    "ConvolutionBackward0": "a transposed convolution with more output_padding than dilation leaves room for",
    "CumprodBackward0": "divides by 0, as its note says",
    "EmbeddingBackward0": "one row by a number without dimensions",
    "EmbeddingBagBackward0": "without weights of samples",
    "LinalgEighBackward0": "eigenvalues alone: nothing arrives for eigenvectors",
    "LinalgQrBackward0": "for at least as many rows as columns",
    "LinalgSolveExBackward0": "several equations without unknowns",
    "LinalgSolveTriangularBackward0": "not for a diagonal that counts as ones",
    "LinalgSvdBackward0": "singular values alone, and inputs without elements",
    "LinalgVectorNormBackward0": "at 0 torch gives 0",
    "LogcumsumexpBackward0": "exponentials overflow",
    "NativeBatchNormBackward0": "without a weight, as its note says",
    "NativeGroupNormBackward0": "torch can also differentiate mean and spread, which no module uses",
    "ScatterReduceBackward0": "with self included, and not for products",
}
"""What is known to differ for some inputs, and why."""


@dataclass
class PlainComparison:
    """By the name of the node."""

    agreeing: Counter[str] = field(default_factory=Counter)
    differing: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    unbound: Counter[str] = field(default_factory=Counter)
    """Calls of which the node does not keep all that the formula needs."""

    def report(self) -> Iterator[str]:
        """The figures, a line each."""
        calls, names = sum(self.agreeing.values()), len(self.agreeing)
        yield f"plain mathematics on torch's test inputs: {calls:,} calls of {names} names give what autograd gives"
        outside = sum(len(calls) for name, calls in self.differing.items() if name in LIMITS)
        yield f"  {outside} are outside of what their formulas are written for, of {len(LIMITS)} names"
        yield f"  {sum(self.unbound.values())} need what their nodes do not keep"

    @property
    def problems(self) -> list[str]:
        """What differs, and nobody said so."""
        return [f"{name}: {calls[0]}" for name, calls in self.differing.items() if name not in LIMITS]


def compare_plain() -> PlainComparison:
    """All operators, on CPU, in double precision, real and complex."""
    comparison = PlainComparison()
    operators: list[Any] = op_db
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operator in operators:
            for dtype in {torch.float64, torch.complex128} & operator.supported_backward_dtypes("cpu"):
                for sample in islice(operator.sample_inputs("cpu", dtype, requires_grad=True), _SAMPLES):
                    given = operator(sample.input, *sample.args, **sample.kwargs)
                    _compare(f"{operator.name} in {dtype}", given, dtype, comparison)
    return comparison


def _compare(call: str, given: Any, dtype: torch.dtype, comparison: PlainComparison) -> None:
    results = _results(given)
    nodes = {result.grad_fn for result in results}
    if len(nodes) != 1:
        return
    (node,) = nodes
    assert node is not None
    formula, derivative = plain_formulas().get(node.name()), known_formulas().by_node.get(node.name())
    if formula is None or derivative is None or not _is_written_for(formula, dtype):
        return
    names = edge_names(derivative, len(node.next_functions))
    leaves = {name: edge.variable for name, edge in _edges(node, names) if hasattr(edge, "variable")}
    if len(leaves) != sum(edge is not None for edge, _ in node.next_functions):
        return
    arriving = [torch.randn_like(result) for result in results]
    values = {**_kept(node), **_inputs_by_name(leaves), **_results_by_name(derivative.schema, results)}
    values |= _gradients_by_name(results, arriving)
    expected = torch.autograd.grad(results, list(leaves.values()), arriving, allow_unused=True)
    try:
        with torch.no_grad():
            told = gradients(formula, torch, values)
    except NameError:
        comparison.unbound[node.name()] += 1
        return
    except Exception as error:
        comparison.differing[node.name()].append(f"{call}: {error!r}")
        return
    if all(_agree(told, name, gradient) for name, gradient in zip(leaves, expected, strict=True)):
        comparison.agreeing[node.name()] += 1
    else:
        comparison.differing[node.name()].append(call)


def _edges(node: Any, names: tuple[str, ...]) -> list[tuple[str, Any]]:
    """Nothing where edges have no names."""
    return [(name, edge) for name, (edge, _) in zip(names, node.next_functions, strict=False) if edge is not None]


def _gradients_by_name(results: list[torch.Tensor], arriving: list[torch.Tensor]) -> dict[str, Any]:
    by_place = {result.output_nr: gradient for result, gradient in zip(results, arriving, strict=True)}
    # Nothing arrives for a result without a history.
    grads = tuple(by_place.get(place, torch.zeros(())) for place in range(1 + max(by_place)))
    return {"grad": arriving[0], "grads": grads}


def _results(given: Any) -> list[torch.Tensor]:
    listed = given if isinstance(given, (tuple, list)) else (given,)
    found = [each for each in listed if isinstance(each, torch.Tensor) and each.grad_fn is not None]
    return sorted(found, key=lambda result: result.output_nr)


def _is_written_for(formula: PlainFormula, dtype: torch.dtype) -> bool:
    return not dtype.is_complex or formula.holds_for_complex or formula.always_complex


def _kept(node: Any) -> dict[str, Any]:
    slots = [slot for slot in dir(node) if slot.startswith("_saved_")]
    return {slot.removeprefix("_saved_"): _signed(getattr(node, slot)) for slot in slots}


def _signed(value: Any) -> Any:
    """Nodes hand out negative dimensions as huge numbers."""
    if isinstance(value, tuple):
        return tuple(map(_signed, value))
    return value - 2**64 if isinstance(value, int) and value >= 2**63 else value


def _inputs_by_name(leaves: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Inputs of one list together."""
    inputs: dict[str, Any] = {}
    for name, value in leaves.items():
        if name.endswith("]"):
            inputs.setdefault(name.partition("[")[0], []).append(value)
        else:
            inputs[name] = value
    return inputs


def _results_by_name(schema: str, results: list[torch.Tensor]) -> dict[str, Any]:
    names = result_names(schema)
    if names == ("result",):
        return {"result": results[0].detach() if len(results) == 1 else tuple(results)}
    return {names[result.output_nr]: result.detach() for result in results}


def _agree(told: dict[str, Any], name: str, expected: torch.Tensor | None) -> bool:
    name, _, place = name.partition("[")
    found = told[name][int(place[:-1])] if place else told[name]
    if expected is None:
        return True
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-6, atol=1e-8, equal_nan=True)
