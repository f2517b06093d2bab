from __future__ import annotations

import itertools
import zlib
from typing import Any

import pytest
import torch

from gradviz.formulas.plain import evaluation, plain_formulas
from gradviz.formulas.plain.plain_formula import PlainFormula, Trap
from tests.integration.formulas.cases import CASES
from tests.integration.formulas.drawn import Case, Drawn

FORMULAS = plain_formulas()
REAL_AND_COMPLEX = [
    pytest.param(case, dtype, id=f"{number}-{case.node}-{'complex' if dtype.is_complex else 'real'}")
    for number, case in enumerate(CASES)
    for dtype in (torch.float64, torch.complex128)
    if not dtype.is_complex or (FORMULAS[case.node].holds_for_complex and not case.only_real)
]


@pytest.mark.parametrize(("case", "dtype"), REAL_AND_COMPLEX)
def test_a_plain_formula_gives_what_autograd_gives(case: Case, dtype: torch.dtype) -> None:
    formula = FORMULAS[case.node]
    generator = torch.Generator().manual_seed(zlib.crc32(case.node.encode()))
    values = {name: _drawn(what, generator, dtype) for name, what in case.arguments.items()}
    torch.manual_seed(0)
    results = evaluation.called(formula, torch, values)
    outputs = _outputs(formula, results)
    differentiable = [output for output in outputs if output.requires_grad]
    grads = tuple(_like(output, generator) for output in differentiable)
    names = _results_by_name(formula, outputs)

    assert differentiable[0].grad_fn is not None
    assert differentiable[0].grad_fn.name() == case.node

    wanted = {name: values[name] for name in formula.gradients if _wants_gradient(values.get(name))}
    flat = [tensor for value in wanted.values() for tensor in _tensors(value)]
    expected = iter(torch.autograd.grad(differentiable, flat, grads, retain_graph=True))
    with torch.no_grad():
        told = evaluation.gradients(formula, torch, {**values, **names, "grad": grads[0], "grads": grads})
        torch.manual_seed(0)
        forward = evaluation.forward(formula, torch, {**values, **names, "grad": grads[0], "grads": grads})
    for name, value in wanted.items():
        for part in _tensors(told[name]):
            torch.testing.assert_close(part, next(expected), msg=f"the gradient of {name} is not autograd's")
        assert len(_tensors(told[name])) == len(_tensors(value))
    for part, output in zip(_tensors(forward), outputs, strict=False):
        torch.testing.assert_close(part, output.detach())


def test_every_plain_formula_is_compared_with_autograd() -> None:
    assert {case.node for case in CASES} == set(FORMULAS)


TRAPS = [
    pytest.param(trap, id=f"{formula.node}-{number}")
    for formula in FORMULAS.values()
    for number, trap in enumerate(formula.traps)
]


@pytest.mark.parametrize("trap", TRAPS)
def test_what_a_trap_says_happens(trap: Trap) -> None:
    *lines, last = trap.program.splitlines()
    names: dict[str, Any] = {"torch": torch}
    exec("\n".join(lines), names)
    found = eval(last, names)
    plain = found.tolist() if isinstance(found, torch.Tensor) else found
    plain = list(plain) if isinstance(plain, tuple) else plain
    expected = eval(trap.shows, {"nan": float("nan"), "inf": float("inf")})
    # A tuple or a list of lists cannot be compared with a tolerance; nothing in traps needs one.
    assert repr(plain) == repr(expected)


def _drawn(what: Any, generator: torch.Generator, dtype: torch.dtype) -> Any:
    if isinstance(what, list) and any(isinstance(each, Drawn) for each in what):
        return [_drawn(each, generator, dtype) for each in what]
    return what.tensor(generator, dtype) if isinstance(what, Drawn) else what


def _like(output: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(output.shape, generator=generator, dtype=output.dtype)


def _outputs(formula: PlainFormula, results: Any) -> tuple[torch.Tensor, ...]:
    """The results that have a name; all of them where the result is one list."""
    if isinstance(results, torch.Tensor):
        return (results,)
    return tuple(results) if formula.outputs == ("result",) else tuple(results)[: len(formula.outputs)]


def _results_by_name(formula: PlainFormula, outputs: tuple[torch.Tensor, ...]) -> dict[str, Any]:
    if len(formula.outputs) < len(outputs):
        return {"result": outputs}
    return dict(zip(formula.outputs, (output.detach() for output in outputs), strict=True))


def _tensors(value: Any) -> list[Any]:
    return list(itertools.chain.from_iterable(map(_tensors, value))) if isinstance(value, (tuple, list)) else [value]


def _wants_gradient(value: Any) -> bool:
    return all(isinstance(each, torch.Tensor) and each.requires_grad for each in _tensors(value))
