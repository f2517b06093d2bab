"""Two factors that both start at zero, so that neither gets a gradient, and the lines that filled them with zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gradviz.analysis.dataflow.call_words import class_of, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.origins import Origin, ValueOrigins, is_all_zero
from gradviz.analysis.parameters.creation_lines import first_writes
from gradviz.graph.call_log import TensorUse

_FILLS = frozenset({
    "zeros", "zeros_", "zero", "zeros_like", "new_zeros", "full", "full_like", "new_full", "fill", "constant", "tensor",
    "mul", "copy",
})  # fmt: skip
"""Plain names of calls that fill a tensor with zeros, or multiply it by zero."""


class Fills(NamedTuple):
    """Call sites of the lines that filled two factors with zeros."""

    latest: int
    """Until this one, a single factor was zero: that one would have changed with the first step."""
    other: int


def fills_of_factors(
    origins: ValueOrigins, flow: Dataflow, factors: Sequence[TensorUse], row: int, is_made_so: Callable[[Origin], bool]
) -> Fills | None:
    """The lines that filled two trained factors of a call with zeros; None if they are not two.

    Args:
        is_made_so: Whether a module of torch is made with these zeros.
    """
    rows = [_fill(origins, flow, use, row, is_made_so) for use in factors if use.requires_grad]
    known = sorted(each for each in rows if each is not None)
    if len(known) < _BOTH:
        return None
    first, *_, latest = known
    sites = _site(flow, latest), _site(flow, first)
    return None if None in sites or flow.line(sites[0]) == flow.line(sites[1]) else Fills(sites[0] or 0, sites[1] or 0)


_BOTH = 2


def _fill(
    origins: ValueOrigins, flow: Dataflow, use: TensorUse, row: int, is_made_so: Callable[[Origin], bool]
) -> int | None:
    """The last call that filled with zeros what makes a factor zero: of a layer, its weight and its bias are filled."""
    filled = [
        writes[-1]
        for origin in origins.of_kind(use.tensor, row, is_all_zero)
        if not origin.is_unseen and not is_made_so(origin)
        if (writes := first_writes(flow, origin.tensor, row))
    ]
    latest = max(filled, default=None)
    return latest if latest is not None and plain_name(flow.log.calls[latest].function) in _FILLS else None


def _site(flow: Dataflow, row: int) -> int | None:
    """The line that filled it; if that is a helper to which the line gave it that made the module, that line."""
    sites, inner = flow.log.call_sites, flow.log.calls[row].call_site
    outer = None if inner is None else sites[inner].caller
    if inner is None or outer is None or sites[outer].is_library or class_of(sites[inner]):
        return inner
    makers = {flow.log.calls[each].call_site for each in flow.rows_of_kind("make_module")}
    lines = {(sites[each].file, sites[each].line) for each in makers if each is not None}
    return outer if (sites[outer].file, sites[outer].line) in lines else inner
