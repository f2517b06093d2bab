"""Samples from torch's own lists of operators, which its tests use: ``torch.testing._internal``'s ``op_db`` and others.

The lists are asked for in functions and kept in caches: the recorder looks for tensors in all that global variables
hold, at each sample anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as lists
from torch.testing._internal import custom_op_db
from torch.testing._internal.opinfo.definitions import nested

from tests.conformance.sample import SEED, Prepared, Sample, with_own_tensors
from tests.conformance.tally import Tally

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
SPARSE_LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
ONE_IN_JAGGED = 8
"""torch gives 12,000 samples of jagged tensors for each dtype: the same few shapes with every operator."""


@dataclass(frozen=True)
class Subject:
    """An operator, and what to call it with."""

    name: str
    operator: Any
    """An ``OpInfo``."""
    given: Callable[[torch.dtype], Iterable[Any]]
    """The inputs, ``SampleInput``s, of one dtype."""


@cache
def op_db_subjects() -> dict[str, Subject]:
    """``op_db``, with ordinary tensors."""
    return {_name(operator): Subject(_name(operator), operator, _ordinary(operator)) for operator in lists.op_db}


@cache
def unusual_subjects() -> dict[str, Subject]:
    """Operators on lists of tensors, those written in Python, and ``op_db`` with sparse and with jagged tensors."""
    names = ("unary", "binary", "pointwise", "reduce", "other")
    foreach = [operator for name in names for operator in getattr(lists, f"foreach_{name}_op_db")]
    subjects = [Subject(_name(each), each, _ordinary(each)) for each in (*foreach, *custom_op_db.custom_op_db)]
    for operator in lists.op_db:
        for layout in SPARSE_LAYOUTS:
            if getattr(operator, "supports_sparse" if layout == "sparse_coo" else f"supports_{layout}"):
                subjects.append(Subject(f"{_name(operator)} {layout}", operator, _sparse(operator, layout)))
    subjects += [Subject(f"{_name(each)} jagged", each, _jagged(each)) for each in nested.njt_op_db]
    return {subject.name: subject for subject in subjects}


def _name(operator: Any) -> str:
    return ".".join(part for part in (operator.name, operator.variant_test_name) if part)


def _ordinary(operator: Any) -> Callable[[torch.dtype], Iterable[Any]]:
    # Seeded once, by `_numbered`: to seed for each input anew takes longer than to make it.
    return lambda dtype: operator.sample_inputs("cpu", dtype, requires_grad=True, set_seed=False)


def _sparse(operator: Any, layout: str) -> Callable[[torch.dtype], Iterable[Any]]:
    return lambda dtype: operator.sample_inputs_sparse(getattr(torch, layout), "cpu", dtype, requires_grad=True)


def _jagged(operator: Any) -> Callable[[torch.dtype], Iterable[Any]]:
    def given(dtype: torch.dtype) -> Iterable[Any]:
        # One dtype: which it is makes no difference to how tensors are nested.
        return islice(operator.sample_inputs("cpu", dtype, requires_grad=True), 0, None, ONE_IN_JAGGED)

    return lambda dtype: given(dtype) if dtype == torch.float32 else ()


def samples_of(subjects: Callable[[], dict[str, Subject]], name: str, turn: int, tally: Tally) -> Iterator[Sample]:
    """Every input that torch tests the operator with, in each dtype, beginning with another dtype each turn."""
    subject = subjects()[name]
    operator = subject.operator
    if not operator.supports_autograd:
        tally.skipped["operators: torch says that autograd does not support it"] += 1
        return
    supported = operator.supported_backward_dtypes("cpu")
    usable = [dtype for dtype in DTYPES if dtype in supported and operator.supports_dtype(dtype, "cpu")]
    if not usable:
        tally.skipped["operators: none of the four dtypes has a backward on the CPU"] += 1
        return
    turn %= len(usable)
    try:
        for dtype in (*usable[turn:], *usable[:turn]):
            yield from _samples_in(subject, dtype)
    except (NotImplementedError, RuntimeError) as error:
        if "does not support NJT" not in str(error) and "no sample function" not in str(error):
            raise
        tally.skipped["operators: torch has no such inputs for it"] += 1


def _samples_in(subject: Subject, dtype: torch.dtype) -> Iterator[Sample]:
    name = f"{subject.name} {str(dtype).removeprefix('torch.')}"
    for number, given in _numbered(subject, dtype):
        yield Sample(subject.name, f"{name} #{number}", partial(_prepare, subject.operator, given))
    if subject.operator.supports_inplace_autograd and subject.operator.inplace_variant is not None:
        on_a_copy = _on_a_copy(subject.operator.inplace_variant)
        for number, given in _numbered(subject, dtype):
            if not given.broadcasts_input:
                yield Sample(subject.name, f"{name} in place #{number}", partial(_prepare, on_a_copy, given))


def _numbered(subject: Subject, dtype: torch.dtype) -> Iterator[tuple[int, Any]]:
    torch.default_generator.manual_seed(SEED)
    return enumerate(subject.given(dtype))


def _on_a_copy(inplace: Callable[..., Any]) -> Callable[..., Any]:
    """An in-place variant applied to a copy: a leaf may not be written to."""

    def apply(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(tensors, torch.Tensor):
            return inplace(tensors.clone(), *args, **kwargs)
        copies = [tensor.clone() for tensor in tensors]
        inplace(copies, *args, **kwargs)
        return copies

    return apply


def _prepare(operator: Callable[..., Any], given: Any) -> Prepared:
    (tensors, args, kwargs), leaves = with_own_tensors((given.input, given.args, given.kwargs))
    return Prepared(leaves, lambda: given.output_process_fn_grad(operator(tensors, *args, **kwargs)))
