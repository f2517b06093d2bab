"""The two summands of what mixes something with itself in another order: what each multiplies, and with which share.

``a * x + b * x[order]``, ``torch.lerp(x, x[order], b)``, ``x + b * (x[order] - x)``, and for two losses also
``torch.stack((loss, other_loss)) @ torch.stack((a, b))``.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import argument
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.analysis.rules.bases.samples.mixing_weights import Weight, weight_of
from gradviz.graph.call_log import Call, TensorUse

Share = tuple[float, float]
"""The smallest and the largest of the shares of a batch."""


class Part(Struct, frozen=True):
    """A summand: what it multiplies, and in which order it took that."""

    source: int
    order: Hashable
    share: Share
    weight: Weight | None = None
    """None for a number."""
    tensor: int | None = None
    """What it multiplies, as it is: the source may be what that was taken from."""


_TWO = 2
_MAX_STEPS = 6
MIXES = frozenset({"add", "sub", "lerp", "addcmul", "matmul", "dot", "inner", "vdot", "sum"})
"""The calls that may do so."""
TAKES = frozenset({"getitem", "index_select", "take_along_dim"})
PASSES = frozenset({"clone", "to", "float", "contiguous", "detach"})
_TURNS = frozenset({"flip", "roll"})
_REDUCES = frozenset({"mean", "sum", "view", "reshape", "squeeze", "unsqueeze"})
_ELEMENTS = frozenset({"unbind", "select", "getitem"})


def summands(flow: Dataflow, row: int, call: Call) -> list[Part | None]:
    """The summands of a call. Of two that have an order, one may be what the other one orders again: a batch that was
    itself taken from a data set."""
    parts = _summands(flow, row, call)
    one, other = parts if len(parts) == _TWO else (None, None)
    if one is None or other is None or one.order is None or other.order is None:
        return parts
    if other.source == one.tensor:
        return [replace(one, source=one.tensor, order=None), other]
    return [one, replace(other, source=other.tensor, order=None)] if one.source == other.tensor else parts


def _summands(flow: Dataflow, row: int, call: Call) -> list[Part | None]:
    name, inputs = plain_name(call.function), call.inputs
    if name == "lerp" and len(inputs) >= _TWO:
        number = number_of(call, "2", "weight", missing=-1.0)
        weight = _share_of(flow, inputs[2], row) if len(inputs) > _TWO else (number, number)
        parts = _of_shares(flow, row, inputs[:2], None if weight is None else (_rest(weight), weight))
        return _weighed(flow, row, parts, inputs[2]) if len(inputs) > _TWO else parts
    if name in ("add", "sub") and len(inputs) == _TWO:
        alpha = number_of(call, "alpha", missing=1.0)
        if name == "add" and alpha == 1:
            parts = [_part(flow, use.tensor, row) for use in inputs]
            return parts if None not in parts else _of_difference(flow, row, call)
        own = _part(flow, inputs[0].tensor, row) if name == "add" and 0 < alpha < 1 else None
        return [own, _named(flow, inputs[1], row, (alpha, alpha))] if own else _of_difference(flow, row, call)
    if name == "addcmul" and len(inputs) == _TWO + 1:
        share = _share_of(flow, inputs[2], row)
        added = None if share is None else _named(flow, inputs[1], row, share, weight_of(flow, inputs[2], row))
        return [_part(flow, inputs[0].tensor, row), added]
    return _of_vectors(flow, row, call)


def _of_shares(
    flow: Dataflow, row: int, uses: tuple[TensorUse, ...], shares: tuple[Share, Share] | None
) -> list[Part | None]:
    if shares is None or not all(0 <= each <= 1 for share in shares for each in share):
        return []
    return [_named(flow, use, row, share) for use, share in zip(uses, shares, strict=True)]


def _of_difference(flow: Dataflow, row: int, call: Call) -> list[Part | None]:
    """``x + b * (x[order] - x)``, and ``x - b * (x - x[order])``."""
    is_sum, alpha = plain_name(call.function) == "add", number_of(call, "alpha", missing=1.0)
    for own, scaled in (call.inputs, call.inputs[::-1]) if is_sum else (call.inputs,):
        share, difference, factor = (alpha, alpha), scaled, None
        made = flow.newest_producer(scaled.tensor, row)
        product = None if made is None else flow.log.calls[made]
        if product is not None and plain_name(product.function) == "mul":
            pairs = [(use, found) for use in product.inputs if (found := _factor_beside(flow, product, use, made or 0))]
            (difference, share), made = (pairs or [(scaled, share)])[0], made
            factor = next((use for use in product.inputs if use is not difference), None)
            made = flow.newest_producer(difference.tensor, made or 0)
        less = None if made is None else flow.log.calls[made]
        if less is None or plain_name(less.function) != "sub" or len(less.inputs) != _TWO:
            continue
        first, second = less.inputs if is_sum else less.inputs[::-1]
        if second.tensor == own.tensor and 0 < min(share) <= max(share) < 1:
            parts = _of_shares(flow, made or 0, (own, first), (_rest(share), share))
            return parts if factor is None else _weighed(flow, row, parts, factor)
    return []


def _weighed(flow: Dataflow, row: int, parts: list[Part | None], factor: TensorUse) -> list[Part | None]:
    """Of two summands, the second one has the weights of a tensor, and the first one what is left."""
    weight = weight_of(flow, factor, row)
    if weight is None or len(parts) != _TWO or parts[0] is None or parts[1] is None:
        return parts
    return [replace(parts[0], weight=(weight[0], not weight[1])), replace(parts[1], weight=weight)]


def _of_vectors(flow: Dataflow, row: int, call: Call) -> list[Part | None]:
    """``stack((loss, other_loss)) @ stack((a, b))``, also as a product whose elements are summed."""
    if plain_name(call.function) == "sum" and call.inputs:
        made = flow.newest_producer(call.inputs[0].tensor, row)
        product = None if made is None else flow.log.calls[made]
        if made is None or product is None or plain_name(product.function) != "mul":
            return []
        row, call = made, product
    if len(call.inputs) != _TWO or any(shape_of(flow, use.tensor) != (_TWO,) for use in call.inputs):
        return []
    for tensors, numbers in (call.inputs, call.inputs[::-1]):
        made = flow.newest_producer(tensors.tensor, row)
        stacked = None if made is None else flow.log.calls[made]
        shares = _two_shares(flow, numbers.tensor, row)
        if stacked is not None and plain_name(stacked.function) == "stack" and shares is not None:
            return _of_shares(flow, made or 0, stacked.inputs, shares) if len(stacked.inputs) == _TWO else []
    return []


def _two_shares(flow: Dataflow, tensor: int, before: int) -> tuple[Share, Share] | None:
    """The two numbers that a vector was made of."""
    for row, call in flow.makers(tensor, before, _MAX_STEPS):
        if plain_name(call.function) == "stack" and len(call.inputs) == _TWO:
            one, other = (_share_of(flow, use, row) for use in call.inputs)
            return None if one is None or other is None else (one, other)
        if plain_name(call.function) in ("tensor", "as_tensor"):
            first, last = (number_of(call, place, missing=-1.0) for place in ("0[0]", "0[1]"))
            return (first, first), (last, last)
        if plain_name(call.function) not in PASSES:
            return None
    return None


def _share_of(flow: Dataflow, use: TensorUse, row: int) -> Share | None:
    values = flow.values_of(use, row)
    return (
        None if values is None or values.minimum is None or values.maximum is None else (values.minimum, values.maximum)
    )


def _rest(share: Share) -> Share:
    return 1 - share[1], 1 - share[0]


def _named(flow: Dataflow, use: TensorUse, row: int, share: Share, weight: Weight | None = None) -> Part:
    given = _target_of_loss(flow, use.tensor, row) if use.requires_grad else None
    tensor = use.tensor if given is None else given
    return Part(*_taken(flow, tensor, row), share, weight, tensor)


def _part(flow: Dataflow, tensor: int, before: int) -> Part | None:
    row = flow.newest_producer(tensor, before)
    call = None if row is None else flow.log.calls[row]
    if row is None or call is None or plain_name(call.function) != "mul":
        return None
    for use in call.inputs:
        share = _factor_beside(flow, call, use, row)
        if share is not None:
            given = _target_of_loss(flow, use.tensor, row) if use.requires_grad else None
            what = use.tensor if given is None else given
            source, order = _taken(flow, what, row)
            if order is not None or use.requires_grad or len(call.inputs) == 1:
                return Part(source, order, share, _weight_beside(flow, call, use, row), what)
    plain = [use for use in call.inputs if shape_of(flow, use.tensor) == shape_of(flow, tensor)]
    share = _factor_beside(flow, call, plain[0], row) if len(plain) == 1 else None
    if share is None:
        return None
    source = _taken(flow, plain[0].tensor, row)[0]
    return Part(source, None, share, _weight_beside(flow, call, plain[0], row), plain[0].tensor)


def _weight_beside(flow: Dataflow, call: Call, use: TensorUse, row: int) -> Weight | None:
    """The other factor of a product, if it is a tensor."""
    others = [each for each in call.inputs if each is not use]
    return weight_of(flow, others[0], row) if others else None


def _factor_beside(flow: Dataflow, call: Call, use: TensorUse, row: int) -> Share | None:
    """The other factor of a product: a number, or the numbers of a batch, between 0 and 1."""
    others = [each for each in call.inputs if each is not use]
    values = flow.values_of(others[0], row) if others else None
    number = number_of(call, *OPERAND, missing=-1.0)
    lowest, highest = (number, number) if values is None else (values.minimum, values.maximum)
    if lowest is None or highest is None or not 0 <= lowest <= highest <= 1:
        return None
    return lowest, highest


def _taken(flow: Dataflow, tensor: int, before: int) -> tuple[int, Hashable]:
    """What a tensor was taken from, and in which order; None if it is as it was."""
    order: Hashable = None
    for _ in range(_MAX_STEPS):
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or not call.inputs:
            break
        name, element = plain_name(call.function), _element_of_stack(flow, row, call, tensor)
        if order is not None and name not in PASSES and element is None:
            break
        if element is None and name in TAKES and len(call.inputs) == _TWO:
            order = call.inputs[1].tensor
        elif element is None and name in _TURNS:
            order = name, tuple(sorted(call.scalars.items())), flow.step_before(before)
        elif element is None and name not in PASSES:
            break
        tensor, before = call.inputs[0].tensor if element is None else element, row
    return tensor, order


def _element_of_stack(flow: Dataflow, row: int, call: Call, tensor: int) -> int | None:
    """What a call takes out of a stack: ``for labels in torch.stack((y, y[order]))``."""
    name = plain_name(call.function)
    made = flow.newest_producer(call.inputs[0].tensor, row) if name in _ELEMENTS and len(call.inputs) == 1 else None
    stacked = None if made is None else flow.log.calls[made]
    if stacked is None or plain_name(stacked.function) != "stack" or number_of(stacked, "1", "dim", missing=0.0):
        return None
    number = call.scalars.get("2", call.scalars.get("1", call.scalars.get("1[0]")))
    if name == "unbind":
        number = next((index for index, use in enumerate(call.outputs) if use.tensor == tensor), None)
    is_known = type(number) is int and -len(stacked.inputs) <= number < len(stacked.inputs)
    return stacked.inputs[number].tensor if is_known and type(number) is int else None


def _target_of_loss(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The target of the loss function that computed a number."""
    for _, call in flow.makers(tensor, before, _MAX_STEPS):
        target = argument(call, 1, "target")
        if target is not None and not target.requires_grad and call.live_inputs:
            return target.tensor
        if plain_name(call.function) not in _REDUCES:
            return None
    return None
