"""Running averages that each step divides by ``1 - beta``: the bias correction of the first step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import isclose, prod, sqrt

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name, single_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_MIN_TIMES = 4
_EXACT = 1e-9
_IN_FLOAT32 = 1e-3
_BOTH = 2
_FEW = 3
_MAX_CALLS = 12
_LEAST = 0.5


def first_corrections(flow: Dataflow) -> Iterator[tuple[int, float]]:
    """The lines that divide a running average at each step by 1 - beta, with the factor of the average; or its root by
    the root."""
    lines: dict[tuple[int | None, float], list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        is_division = single_name(call) == "div"
        for single in flow.lists.singles(row) if is_division else ():
            divisor, tolerance = _divisor(flow, single, row)
            beta = None if divisor is None else _factor_of_average(flow, single.inputs[0].tensor, row)
            corrections = (1 - beta, sqrt(1 - beta)) if beta is not None else ()
            if any(isclose(divisor or 0.0, each, rel_tol=tolerance) for each in corrections):
                lines[call.call_site, beta or 0.0].append(row)
    for (_, beta), rows in lines.items():
        if len({flow.backward_before(row) for row in rows}) >= _MIN_TIMES:
            yield rows[-1], beta


def _divisor(flow: Dataflow, call: Call, row: int) -> tuple[float | None, float]:
    """The number between 0 and 1 by which a call divides, also one in a tensor; and how exactly it is known."""
    divisor, tolerance = call.scalars.get("1", call.scalars.get("other")), _EXACT
    if len(call.inputs) == _BOTH and prod(shape_of(flow, call.inputs[1].tensor)) == 1:
        values = flow.values_of(call.inputs[1], row)
        divisor, tolerance = None if values is None else values.minimum, _IN_FLOAT32
    is_known = type(divisor) is float and 0 < divisor < 1 and bool(call.inputs)
    return (divisor if type(divisor) is float and is_known else None), tolerance


def _factor_of_average(flow: Dataflow, tensor: int, row: int) -> float | None:
    """The number by which the old value of an average was multiplied since the last backward."""
    since, waiting, seen = flow.backward_before(row) or 0, [(tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        tensor, before = waiting.pop()
        for made in flow.producers(tensor, before)[-_FEW:]:
            call = flow.lists.single(made, tensor)
            if made <= since or made in seen:
                continue
            seen.add(made)
            factor = _kept(call)
            if factor is not None:
                return factor
            waiting += [(use.tensor, made) for use in call.inputs]
    return None


def _kept(call: Call) -> float | None:
    """The factor of the old value in ``m.mul_(0.9)``, and in ``m.lerp_(g, 0.1)``."""
    name = plain_name(call.function)
    factor = call.scalars.get("1", call.scalars.get("0")) if name == "mul" else None
    weight = call.scalars.get("2", call.scalars.get("weight")) if name == "lerp" else None
    if type(weight) is float:
        factor = 1 - weight
    return factor if type(factor) is float and _LEAST < factor < 1 else None
