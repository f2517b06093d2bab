"""Samples from torch's own list of operators, which its tests use: ``torch.testing._internal``'s ``op_db``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations

from tests.conformance.sample import SEED, Prepared, Sample, with_own_tensors
from tests.conformance.tally import Tally

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@cache
def _operators() -> dict[str, Any]:
    # Not imported by name: the recorder looks for tensors in all that global variables hold, at each sample anew.
    return {_name(operator): operator for operator in common_methods_invocations.op_db}


def _name(operator: Any) -> str:
    return ".".join(part for part in (operator.name, operator.variant_test_name) if part)


def operator_names() -> list[str]:
    """All of them, once each."""
    return list(_operators())


def samples_of(name: str, turn: int, tally: Tally) -> Iterator[Sample]:
    """Every input that torch tests the operator with, in each dtype, beginning with another dtype each turn."""
    operator = _operators()[name]
    if not operator.supports_autograd:
        tally.skipped["operators: torch says that autograd does not support it"] += 1
        return
    supported = operator.supported_backward_dtypes("cpu")
    usable = [dtype for dtype in DTYPES if dtype in supported and operator.supports_dtype(dtype, "cpu")]
    if not usable:
        tally.skipped["operators: none of the four dtypes has a backward on the CPU"] += 1
        return
    turn %= len(usable)
    for dtype in (*usable[turn:], *usable[:turn]):
        yield from _samples_in(operator, dtype)


def _samples_in(operator: Any, dtype: torch.dtype) -> Iterator[Sample]:
    torch.default_generator.manual_seed(SEED)
    name = f"{_name(operator)} {str(dtype).removeprefix('torch.')}"
    for number, given in enumerate(operator.sample_inputs("cpu", dtype, requires_grad=True)):
        yield Sample(_name(operator), f"{name} #{number}", partial(_prepare, operator, given))
    if operator.supports_inplace_autograd and operator.inplace_variant is not None:
        torch.default_generator.manual_seed(SEED)
        for number, given in enumerate(operator.sample_inputs("cpu", dtype, requires_grad=True)):
            if not given.broadcasts_input:
                sample = partial(_prepare, _on_a_copy(operator.inplace_variant), given)
                yield Sample(_name(operator), f"{name} in place #{number}", sample)


def _on_a_copy(inplace: Callable[..., Any]) -> Callable[..., Any]:
    """An in-place variant applied to a copy: a leaf may not be written to."""

    def apply(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return inplace(tensor.clone(), *args, **kwargs)

    return apply


def _prepare(operator: Callable[..., Any], given: Any) -> Prepared:
    (tensors, args, kwargs), leaves = with_own_tensors((given.input, given.args, given.kwargs))
    return Prepared(leaves, lambda: given.output_process_fn_grad(operator(tensors, *args, **kwargs)))
