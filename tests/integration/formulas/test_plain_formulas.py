from __future__ import annotations

import ast
import builtins
import itertools
import re
import zlib
from collections import defaultdict
from typing import Any

import pytest
import torch

from gradviz.formulas import available_formulas
from gradviz.formulas.arguments import result_names
from gradviz.formulas.plain import Trap, evaluation, plain_formulas
from gradviz.formulas.plain.expression_functions import EXPRESSION_FUNCTIONS
from gradviz.formulas.plain.plain_formula import PlainFormula
from tests.integration.formulas.cases import CASES
from tests.integration.formulas.drawn import Case, Drawn

FORMULAS = plain_formulas()
CASES_OF_NODE: defaultdict[str, list[Case]] = defaultdict(list)
for each in CASES:
    CASES_OF_NODE[each.node].append(each)


def test_every_plain_formula_is_compared_with_autograd_or_the_same_as_one_that_is() -> None:
    assert set(CASES_OF_NODE) == {name for name, formula in FORMULAS.items() if not formula.same_as}
    assert {formula.same_as for formula in FORMULAS.values() if formula.same_as} <= set(CASES_OF_NODE)


@pytest.mark.parametrize("node", CASES_OF_NODE)
def test_a_plain_formula_gives_what_autograd_gives(node: str) -> None:
    formula = FORMULAS[node]
    for case in CASES_OF_NODE[node]:
        _compare(formula, case, torch.float64)
        if formula.holds_for_complex:
            _compare(formula, case, torch.complex128)


def test_formulas_call_inputs_and_results_as_torch_does() -> None:
    for node in FORMULAS.keys() - {"torch::autograd::CopyBackwards"}:
        formula, derivative = FORMULAS[node], available_formulas.of(node)
        assert derivative is not None
        arguments = set(re.findall(r" (\w+)(?:=[^,()]*)?[,)]", derivative.schema.rpartition(" -> ")[0]))
        abbreviated = {*formula.where, *EXPRESSION_FUNCTIONS, "torch", "grad", "grads", "result"}

        assert set(formula.gradients) <= set(derivative.input_names), node
        assert set(formula.usual) <= arguments, node
        assert formula.outputs == result_names(derivative.schema)[: len(formula.outputs)], node
        assert _names(formula) <= arguments | abbreviated | set(formula.outputs), node


@pytest.mark.parametrize("node", [name for name, formula in FORMULAS.items() if formula.traps and not formula.same_as])
def test_a_trap_happens_as_described(node: str) -> None:
    for trap in FORMULAS[node].traps:
        assert repr(_shown(trap)) == repr(eval(trap.shows, {"nan": float("nan"), "inf": float("inf")})), trap.sentence


def _compare(formula: PlainFormula, case: Case, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(zlib.crc32(case.node.encode()))
    values = {name: _drawn(what, generator, dtype) for name, what in case.arguments.items()}
    # A random operation draws the same numbers when its forward is evaluated.
    torch.manual_seed(0)
    outputs = _outputs(formula, eval(formula.call, {"torch": torch, **EXPRESSION_FUNCTIONS, **values}))
    differentiable = [output for output in outputs if output.requires_grad]
    grads = tuple(_arriving(output, generator) for output in outputs)
    arriving = [grad for output, grad in zip(outputs, grads, strict=True) if output.requires_grad]
    assert differentiable[0].grad_fn is not None
    assert differentiable[0].grad_fn.name() == case.node

    kept = _kept_by_node(differentiable[0], values)
    wanted = {name: _tensors(values[name]) for name in formula.gradients if _wants_gradient(values.get(name))}
    expected = iter(torch.autograd.grad(differentiable, list(itertools.chain(*wanted.values())), arriving))
    known_values = {**values, **kept, **_by_name(formula, outputs), "grad": arriving[0], "grads": grads}
    with torch.no_grad():
        by_formula = evaluation.gradients(formula, torch, known_values)
        torch.manual_seed(0)
        forward = evaluation.forward(formula, torch, known_values)
    assert wanted
    for name, inputs in wanted.items():
        for gradient, _ in zip(_tensors(by_formula[name]), inputs, strict=True):
            torch.testing.assert_close(gradient, next(expected), msg=lambda text: f"{case}, {dtype}: {text}")
    for result, output in zip(_tensors(forward), outputs, strict=False):
        torch.testing.assert_close(result, output.detach(), msg=lambda text: f"forward of {case}, {dtype}: {text}")


def _names(formula: PlainFormula) -> set[str]:
    """Names that expressions take from outside; not the variables of comprehensions."""
    expressions = (*formula.gradients.values(), *formula.where.values(), formula.forward or formula.call)
    names = [node for each in expressions for node in ast.walk(ast.parse(each)) if isinstance(node, ast.Name)]
    in_passing = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - in_passing - set(dir(builtins))


def _drawn(what: Any, generator: torch.Generator, dtype: torch.dtype) -> Any:
    if isinstance(what, list) and any(isinstance(each, Drawn) for each in what):
        return [_drawn(each, generator, dtype) for each in what]
    return what.tensor(generator, dtype) if isinstance(what, Drawn) else what


def _kept_by_node(output: torch.Tensor, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments that are not tensors and that the node keeps, as a recording finds them there."""
    settings = {name: value for name, value in values.items() if not any(map(torch.is_tensor, _tensors(value)))}
    return {name: _signed(getattr(output.grad_fn, f"_saved_{name}", value)) for name, value in settings.items()}


def _signed(value: Any) -> Any:
    """Nodes return negative dimensions as huge numbers."""
    if isinstance(value, tuple):
        return tuple(map(_signed, value))
    return value - 2**64 if isinstance(value, int) and value >= 2**63 else value


def _arriving(output: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """No gradient arrives for a result without history."""
    if not output.requires_grad:
        return torch.zeros_like(output)
    return torch.randn(output.shape, generator=generator, dtype=output.dtype)


def _outputs(formula: PlainFormula, results: Any) -> tuple[torch.Tensor, ...]:
    """The results that have a name; all of them where the result is one list."""
    if isinstance(results, torch.Tensor):
        return (results,)
    return tuple(results) if formula.outputs == ("result",) else tuple(results)[: len(formula.outputs)]


def _by_name(formula: PlainFormula, outputs: tuple[torch.Tensor, ...]) -> dict[str, Any]:
    if len(formula.outputs) < len(outputs):
        return {"result": outputs}
    return dict(zip(formula.outputs, (output.detach() for output in outputs), strict=True))


def _tensors(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _wants_gradient(value: Any) -> bool:
    return all(isinstance(each, torch.Tensor) and each.requires_grad for each in _tensors(value))


def _shown(trap: Trap) -> Any:
    """The result of its program, as a literal."""
    *lines, last = trap.program.splitlines()
    names: dict[str, Any] = {"torch": torch}
    exec("\n".join(lines), names)
    found = eval(last, names)
    if isinstance(found, torch.Tensor):
        return found.tolist()
    return list(found) if isinstance(found, torch.Size) else found
