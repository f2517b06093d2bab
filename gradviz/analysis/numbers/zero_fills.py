"""Two factors that both start at zero, so that neither gets a gradient, and the lines that filled them with zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple

from gradviz.analysis.dataflow.call_words import class_of, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.origins import Origin, ValueOrigins, is_all_zero
from gradviz.analysis.parameters.creation_lines import first_writes
from gradviz.graph.call_log import TensorUse

_FILLS = frozenset({
    "zeros", "zeros_", "zero", "zeros_like", "new_zeros", "full", "full_like", "new_full", "fill", "constant", "tensor",
    "mul", "copy", "uniform", "normal",
})  # fmt: skip
"""Plain names of calls that fill a tensor with zeros, multiply it by zero, or draw within a width of zero."""


class Fills(NamedTuple):
    """Call sites of the lines that filled two factors with zeros."""

    edited: int
    """Of an adapter, whose second matrix is meant to start at zero, that of the first matrix. Else the latest: until
    that line, a single factor was zero, which would have changed with the first step."""
    other: int


def fills_of_factors(
    origins: ValueOrigins, flow: Dataflow, factors: Sequence[TensorUse], row: int, is_made_so: Callable[[Origin], bool]
) -> Fills | None:
    """The lines that filled two trained factors of a call with zeros; None if they are not two.

    Args:
        is_made_so: Whether a module of torch is made with these zeros.
    """
    trained = [use for use in factors if use.requires_grad]
    rows = [(_fill(origins, flow, use, row, is_made_so), _is_applied(flow, use, row)) for use in trained]
    known = sorted((filled, is_applied) for filled, is_applied in rows if filled is not None)
    if len(known) < _BOTH:
        return None
    (first, is_first_applied), *_, (latest, is_latest_applied) = known
    name = plain_name(flow.log.calls[row].function)
    is_adapter = is_first_applied and not is_latest_applied and (name in _MATRIX_PRODUCTS or name.startswith("conv"))
    edited, other = (first, latest) if is_adapter else (latest, first)
    sites = _site(flow, edited), _site(flow, other)
    return None if None in sites or flow.line(sites[0]) == flow.line(sites[1]) else Fills(sites[0] or 0, sites[1] or 0)


_BOTH = 2
_MATRIX_PRODUCTS = frozenset({"linear", "matmul", "mm", "addmm", "bmm", "einsum"})


def _fill(
    origins: ValueOrigins, flow: Dataflow, use: TensorUse, row: int, is_made_so: Callable[[Origin], bool]
) -> int | None:
    """The last call that filled with zeros what makes a factor zero: of a layer the weight, as biases usually start at
    zero."""
    filled = [
        (len(flow.log.tensors[origin.tensor].facts.shape) > 1, writes[-1])
        for origin in origins.of_kind(use.tensor, row, is_all_zero)
        if not origin.is_unseen and not is_made_so(origin)
        if (writes := first_writes(flow, origin.tensor, row))
    ]
    _, latest = max(filled, default=(False, None))
    return latest if latest is not None and plain_name(flow.log.calls[latest].function) in _FILLS else None


def _is_applied(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether a factor is what a matrix made of something else, and not a matrix itself."""
    makers = takewhile(lambda made: made[1].kind == "operation", flow.makers(use.tensor, row, _MAX_AROUND))
    return any(len(call.inputs) > 1 for _, call in makers)


_MAX_AROUND = 4


def _site(flow: Dataflow, row: int) -> int | None:
    """The line that filled it; if that is a helper which fills others with something else, or to which the line gave it
    that made the module, the line that called the helper."""
    sites, inner = flow.log.call_sites, flow.log.calls[row].call_site
    outer = None if inner is None else sites[inner].caller
    if inner is None or outer is None or sites[outer].is_library or class_of(sites[inner]):
        return inner
    makers = {flow.log.calls[each].call_site for each in flow.rows_of_kind("make_module")}
    lines = {(sites[each].file, sites[each].line) for each in makers if each is not None}
    is_called = (sites[outer].file, sites[outer].line) in lines or _fills_with_others(flow, inner)
    return outer if is_called else inner


def _fills_with_others(flow: Dataflow, site: int) -> bool:
    """Whether a line that filled a tensor with zeros gave others values that are not zero, where others called it."""
    sites = flow.log.call_sites
    line = sites[site].file, sites[site].line
    same = {number for number, each in enumerate(sites) if (each.file, each.line) == line and number != site}
    made = (use.values for call in flow.log.calls if call.call_site in same for use in call.outputs[:1])
    return any(values is not None and not is_all_zero(values) for values in made)
