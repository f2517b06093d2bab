"""What differs between releases of torch is read from the one that is installed."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable

import pytest
import torch

from gradviz.formulas import known_formulas, of
from gradviz.formulas.plain import evaluation, plain_formula
from gradviz.formulas.word_lookup import meaning_of

_F = torch.nn.functional


@pytest.mark.parametrize("call", [torch.cholesky, torch.linalg.cholesky, torch.logit])
def test_a_word_means_the_node_that_the_call_makes(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch.cholesky will go some day
        try:
            made = call(torch.eye(2, requires_grad=True))
        except RuntimeError as error:
            pytest.skip(f"this torch refuses the call: {str(error).splitlines()[0]}")
    assert made.grad_fn is not None
    found = meaning_of(f"torch.{call.__name__}", known_formulas())
    assert found is not None
    assert found.nodes[0] in _names_above(made.grad_fn)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: _F.multi_margin_loss(x, torch.tensor([0, 1, 2]), p=2),
        lambda x: _F.group_norm(x[None], 3),
        lambda x: _F.rms_norm(x, [3]),
        lambda x: torch._weight_norm(x, torch.ones(3, 1, dtype=x.dtype)),
        torch.nn.functional.silu,
    ],
)
def test_that_a_backward_cannot_be_differentiated_is_said_of_those_alone_that_raise(
    call: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    x = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
    result = call(x)
    assert result.grad_fn is not None
    derivatives = [of(name) for name in _names_above(result.grad_fn)]
    is_possible = all(each is None or each.second.is_possible for each in derivatives)
    (first,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    try:
        torch.autograd.grad(first.square().sum(), x)
    except RuntimeError as error:
        assert "is not implemented" in str(error)
        assert not is_possible
    else:
        assert is_possible


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda x: torch.clamp(x, 1.0, 2.0), ("self",)),
        (lambda x: torch.clamp_min(x, 1.0), ("self",)),
        (lambda x: torch.clamp_max(x, 1.0), ("self",)),
        (torch.clamp, ("self", "min", "max")),
        (torch.clamp_min, ("self", "min")),
        (torch.clamp_max, ("self", "max")),
        (torch.fmax, ("self", "other")),
        (torch.fmin, ("self", "other")),
        (torch.maximum, ("self", "other")),
    ],
)
def test_plain_formulas_tell_what_the_installed_torch_does_with_equal_numbers(
    call: Callable[..., torch.Tensor], names: tuple[str, ...]
) -> None:
    numbers = [1.0, 2.0, float("nan") if call in (torch.fmax, torch.fmin) else 3.0]
    for drawn in itertools.product(numbers, repeat=len(names)):
        given = [torch.tensor([number], requires_grad=True) for number in drawn]
        result = call(*given)
        result.backward(torch.ones(1))  # type: ignore[no-untyped-call]
        assert result.grad_fn is not None
        formula = plain_formula(result.grad_fn.name())
        assert formula is not None
        known = {**dict(zip(names, given, strict=True)), "result": result, "grad": torch.ones(1)}
        if len(names) == 1:
            known |= {name[7:]: getattr(result.grad_fn, name) for name in dir(result.grad_fn) if "_saved_m" in name}
        with torch.no_grad():
            told = evaluation.gradients(formula, torch, known)
        assert [told[name].item() for name in names] == [0 if x.grad is None else x.grad.item() for x in given], drawn


def _names_above(node: torch.autograd.graph.Node) -> list[str]:
    names, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        names.append(one.name())
        waiting += [each for each, _ in one.next_functions if each is not None]
    return names
