"""Calls that normalize values along one axis: ``softmax()``, ``normalize()``, and by their formulas
``x - x.logsumexp()`` and ``x.exp() / x.exp().sum()``."""

from __future__ import annotations

from gradviz.analysis.dataflow.axes import NORMALIZERS, axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import Call

_BY_FORMULA = {"sub": "subtracting logsumexp()", "div": "dividing by sum()", "mul": "multiplying by 1 / sum()"}
_HIDE = frozenset({"mul", "masked_fill", "where"})
_BOTH = 2
_MAX_MAKERS = 3


def normalized_axis(flow: Dataflow, row: int, call: Call) -> int | None:
    """The axis along which a call normalizes its first input, counted from the front; None for other calls."""
    name = plain_name(call.function)
    if name in NORMALIZERS and call.outputs:
        return axis_of(call, len(shape_of(flow, call.outputs[0].tensor)))
    if name not in _BY_FORMULA or len(call.inputs) != _BOTH or len(call.live_inputs) != _BOTH:
        return None
    given, total = call.inputs[0].tensor, _total(flow, row, call, name)
    if total is None or total.inputs[0].tensor != given:
        return None
    axis = axis_of(total, len(shape_of(flow, given)))
    made = value_maker(flow, given, row)
    if axis is None or made is None or (name != "sub" and not _is_exponential(flow, given, row)):
        return None
    # Normalized along one axis after the other, as by Sinkhorn's algorithm: each of them is meant.
    return axis if made[1] is call or normalized_axis(flow, *made) is None else None


def axis_of_probabilities(flow: Dataflow, row: int, call: Call) -> int | None:
    """The axis along which the results of a call are the probabilities of a softmax, counted from the front: of
    ``softmax()``, of its formula, and of ``exp()`` of its logarithm; None for other calls."""
    name = plain_name(call.function)
    if name == "softmax" or (name in _BY_FORMULA and name != "sub"):
        return normalized_axis(flow, row, call)
    made = value_maker(flow, call.inputs[0].tensor, row) if name == "exp" and call.inputs else None
    is_logarithm = made is not None and plain_name(made[1].function) in ("log_softmax", "sub")
    return normalized_axis(flow, *made) if made is not None and is_logarithm else None


def words_of_normalizer(call: Call) -> str:
    """``softmax()``, or what its formula does."""
    return _BY_FORMULA.get(plain_name(call.function)) or call_words(call)


def _total(flow: Dataflow, row: int, call: Call, name: str) -> Call | None:
    """The sum by which a formula divides, or whose logarithm it subtracts."""
    made = value_maker(flow, call.inputs[1].tensor, row)
    if name == "mul" and made is not None and plain_name(made[1].function) == "reciprocal":
        made = value_maker(flow, made[1].inputs[0].tensor, made[0])
    elif name == "mul":
        return None
    wanted = "logsumexp" if name == "sub" else "sum"
    return made[1] if made is not None and plain_name(made[1].function) == wanted and made[1].inputs else None


def _is_exponential(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor has exponentials, of which some may be hidden by a mask."""
    for _, call in flow.makers(tensor, row, _MAX_MAKERS):
        if plain_name(call.function) == "exp":
            return True
        if plain_name(call.function) not in _HIDE:
            return False
    return False
