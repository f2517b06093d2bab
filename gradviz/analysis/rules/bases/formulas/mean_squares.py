"""Means of squares in any spelling, and what a program divides by them: ``x.square().mean(-1)``, ``vecdot(x, x) / n``.

>>> from gradviz.graph.call_log import Call, CallLog, LoggedTensor, TensorUse
>>> from gradviz.graph.tensor_facts import TensorFacts
>>> uses = [TensorUse(n, "0", 0, True, n == 0) for n in range(3)]
>>> square = Call("torch.Tensor.square", inputs=(uses[0],), outputs=(uses[1],))
>>> mean = Call("torch.Tensor.mean", inputs=(uses[1],), outputs=(uses[2],), scalars={"1": -1, "keepdim": True})
>>> facts = [LoggedTensor(TensorFacts(shape, "float32")) for shape in ((4, 3), (4, 3), (4, 1))]
>>> mean_square_of(Dataflow(CallLog((square, mean), tuple(facts))), 2, 2)
0
"""

from __future__ import annotations

from math import isclose, prod

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_square, product_of
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse

_MOST_CALLS = 10
_AROUND = SHAPE_ONLY | {"add", "clamp", "clamp_min", "clip", "maximum", "detach"}
_SUMS = frozenset({"sum", "einsum", "vecdot", "dot", "inner"})
_NORMS = frozenset({"norm", "vector_norm"})
_TWO = 2


def mean_square_of(flow: Dataflow, tensor: int, before: int) -> int | None:
    """What a tensor is the mean of squares of, perhaps with a small number added; the mean is over some of its axes,
    of more than one element. None for other tensors, and for roots of such means."""
    share, is_squared, at_first = 1.0, False, len(shape_of(flow, tensor))
    for row, call in flow.makers(tensor, before, _MOST_CALLS):
        name = plain_name(call.function)
        if name == "mean":
            share /= _elements_of_each(flow, call)
        elif name in ("div", "mul") and len(call.inputs) == 1:
            number = number_of(call, *OPERAND, missing=0.0)
            share *= number if name == "mul" or not number else 1 / number
        elif is_square(call):
            source = call.inputs[0].tensor
            norm = flow.newest_producer(source, row)
            of_norm = None if norm is None else flow.log.calls[norm]
            if of_norm is not None and plain_name(of_norm.function) in _NORMS:
                source, is_squared = of_norm.inputs[0].tensor, True
            size, shape = prod(shape_of(flow, tensor)), shape_of(flow, source)
            each = prod(shape) // size if size and at_first else 0
            is_of_axes = each > 1 and at_first and (name in _SUMS or is_squared or share != 1)
            return source if is_of_axes and isclose(share * each, 1, rel_tol=1e-3) else None
        elif name not in _AROUND and name != "sum":
            return None
    return None


def _elements_of_each(flow: Dataflow, call: Call) -> float:
    """Of how many elements each mean is."""
    given, made = (prod(shape_of(flow, use.tensor)) for use in (call.inputs[0], call.outputs[0]))
    return given / made if made else 1.0


def divided_by_mean_square(flow: Dataflow, row: int) -> int | None:
    """The call at which values meet one over the mean of their own squares, if this call divides by that mean.

    Of a quotient of two tensors only the values themselves are meant, times trained gains: a scalar product over a mean
    of squares is the share of a projection.
    """
    call = flow.log.calls[row]
    divisor = divisor_of(call)
    source = None if divisor is None else mean_square_of(flow, divisor.tensor, row)
    if source is None or divisor is None or not divisor.has_grad_fn or len(shape_of(flow, source)) < _TWO:
        return None
    if len(call.inputs) == _TWO:
        is_gain = flow.log.tensors[call.inputs[0].tensor].role == "parameter"
        met = row if values_of(flow, call.inputs[0], row) == source else _met(flow, row, source) if is_gain else None
    else:
        met = _met(flow, row, source)
    return None if met is None or _is_squared_later(flow, met, source) else met


def _is_squared_later(flow: Dataflow, row: int, source: int) -> bool:
    """Whether the result is multiplied with the values once more: squares over their mean."""
    result = flow.log.calls[row].outputs[0].tensor
    for user in flow.users(result, row)[:_MOST_CALLS]:
        others = [use for use in product_of(flow.log.calls[user]) or () if use.tensor != result]
        if any(values_of(flow, use, user) == source for use in others):
            return True
    return False


def divisor_of(call: Call) -> TensorUse | None:
    """The tensor that a call divides by, or of which it returns the inverse."""
    name = plain_name(call.function)
    if name == "div":
        is_number = len(call.inputs) == 1
        return call.inputs[-1] if call.inputs and (not is_number or is_number_first(call)) else None
    is_inverse = name == "reciprocal" or (
        name == "pow" and call.scalars.get("1", call.scalars.get("exponent")) == -1 and not is_number_first(call)
    )
    return call.inputs[0] if is_inverse and call.inputs else None


def values_of(flow: Dataflow, use: TensorUse, before: int) -> int:
    """A tensor before it was multiplied with trained gains or numbers, or brought into another shape."""
    tensor = use.tensor
    for _ in range(_MOST_CALLS):
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None:
            break
        others = [each for each in call.inputs if flow.log.tensors[each.tensor].role != "parameter"]
        is_scaled = plain_name(call.function) == "mul" and len(others) == 1
        if not is_scaled and not (plain_name(call.function) in _FORMS and len(call.inputs) == 1):
            break
        tensor, before = others[0].tensor, row
    return tensor


_FORMS = frozenset({"view", "reshape", "contiguous", "float", "to", "clone"})


def _met(flow: Dataflow, row: int, source: int) -> int | None:
    """The product of a factor, perhaps times trained gains, with the values."""
    waiting, seen = [(use.tensor, row) for use in flow.log.calls[row].outputs[:1]], set[int]()
    while waiting and len(seen) < _MOST_CALLS:
        factor, after = waiting.pop()
        for user in flow.users(factor, after)[:_MOST_CALLS]:
            call = flow.log.calls[user]
            if user in seen or not call.outputs:
                continue
            seen.add(user)
            if plain_name(call.function) in SHAPE_ONLY and len(call.inputs) == 1:
                waiting.append((call.outputs[0].tensor, user))
                continue
            pair = product_of(call)
            if pair is None or plain_name(call.function) not in ("mul", "einsum"):
                continue
            (other,) = [use for use in pair if use.tensor != factor][:1] or [pair[0]]
            if other.tensor != factor and values_of(flow, other, user) == source:
                is_as_large = shape_of(flow, call.outputs[0].tensor) == shape_of(flow, source)
                return user if is_as_large else None
            if flow.log.tensors[other.tensor].role == "parameter":
                waiting.append((call.outputs[0].tensor, user))
    return None
